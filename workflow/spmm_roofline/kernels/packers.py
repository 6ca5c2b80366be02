"""Packers: kernels that make a format from a CSR on a device. Each format defines the order of the launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import Any

from ..formats.base import Format, FormatError, Packer
from ..paths import KERNELS
from . import registry
from .cubins import machine_code
from .head import Head
from .launch import DriverLaunch, Launcher, converter, load

#: Dynamic shared memory that a function may use without asking, in bytes.
DEFAULT_SHARED_BYTES = 48 * 1024

#: Held while functions are loaded, so that all threads launch the same ones: a module that one thread drops is
#: unloaded, with launches of its functions still to run.
_loading = Lock()


def pack(form: type[Format], a: Any, dtype: str, options: dict[str, Any], packer: Packer | None) -> Format:
    """``a``, a canonical CSR on a device, in the format ``form``; ``packer`` is its packer if it has one."""
    return form.from_csr(a, dtype=dtype, **options, **({"packer": packer} if form.packer else {}))


def packer_of(form: type[Format]) -> Packer | None:
    """The packer of a format for the current device, its machine code found or compiled; None if it needs none."""
    return functions_of(form.packer) if form.packer else None


def functions_of(name: str) -> LoadedPacker:
    """The functions of a kernel that other code launches, their machine code found or compiled."""
    with _loading:
        return _loaded(name)


@cache
def _loaded(name: str) -> LoadedPacker:
    head = registry.head(name, KERNELS)
    return LoadedPacker(head, machine_code(head))


@dataclass(frozen=True)
class _Function:
    """A function of a packer on one device."""

    loaded: Any
    """CuPy's function"""
    converters: tuple[Callable[[Any], Any], ...]
    launcher: Launcher


class LoadedPacker:
    """A packer's functions on the current device: ``pack("partition", ctas, *arguments)``; see formats.base.Packer."""

    def __init__(self, head: Head, cubin: Path) -> None:
        self.head = head
        self._module = load(cubin)
        #: By device and entry.
        self._functions: dict[tuple[int, str], _Function] = {}

    def __call__(self, entry: str, ctas: int, *arguments: Any, threads: int = 256) -> None:
        """Enqueue ``entry`` on CuPy's current stream; see :meth:`prepared`."""
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
        try:
            self._function(entry, arguments).launcher(stream, ctas, threads, arguments)
        except struct.error:  # a number that does not fit: converters name it
            launch, _ = self.prepared(entry, ctas, *arguments, threads=threads)
            launch(stream)

    def prepared(
        self, entry: str, ctas: int, *arguments: Any, threads: int = 256, shared: int = 0
    ) -> tuple[DriverLaunch, list[Any]]:
        """A launch of ``entry``, and its arguments as objects of ctypes, whose values may change between launches.

        Numbers get the type that the code declares; an array may be given by its address. ``shared``: bytes of dynamic
        shared memory.
        """
        function = self._function(entry, arguments)
        if shared > DEFAULT_SHARED_BYTES and function.loaded.max_dynamic_shared_size_bytes < shared:
            function.loaded.max_dynamic_shared_size_bytes = shared
        given = [convert(argument) for convert, argument in zip(function.converters, arguments, strict=True)]
        return DriverLaunch(function.loaded, (ctas, 1, 1), (threads, 1, 1), shared, given), given

    def _function(self, entry: str, arguments: tuple[Any, ...]) -> _Function:
        """The function, loaded on first use; ``arguments`` are those of a launch."""
        import cupy

        key = (cupy.cuda.runtime.getDevice(), entry)
        if (known := self._functions.get(key)) is not None:
            return known
        if entry not in self.head.entries:
            raise FormatError(f"packer {self.head.name} has no function {entry}: it takes values of 2, 4 or 8 bytes")
        with _loading:
            if key not in self._functions:
                loaded = self._module.get_function(entry)
                _ = loaded.kernel  # CuPy loads the module on first use
                parameters = tuple(self.head.entries[entry])
                names = (f"argument {number}" for number in range(len(parameters)))
                converters = tuple(map(converter, repeat(self.head.name), names, parameters))
                launcher = Launcher(loaded, parameters, arguments)
                self._functions[key] = _Function(loaded, converters, launcher)
        return self._functions[key]
