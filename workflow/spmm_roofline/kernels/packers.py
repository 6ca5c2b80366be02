"""Packers: kernels that make a format out of a CSR on a device. Their formats know the order of the launches."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..formats.base import Format, Packer
from ..paths import KERNELS
from . import registry
from .cubins import machine_code
from .head import Head
from .launch import load, number_type


def pack(form: type[Format], a: Any, dtype: str, options: dict[str, Any], packer: Packer | None) -> Format:
    """``a``, a canonical CSR on a device, in the format ``form``; ``packer`` is its packer if it has one."""
    return form.from_csr(a, dtype=dtype, **options, **({"packer": packer} if form.packer else {}))


def packer_of(form: type[Format]) -> Packer | None:
    """The packer of a format for the current device, its machine code found or compiled; None if it needs none."""
    return _packer(form.packer) if form.packer else None


@cache
def _packer(name: str) -> Packer:
    head = registry.head(name, KERNELS)
    return LoadedPacker(head, machine_code(head))


class LoadedPacker:
    """A packer's functions on the current device: ``pack("partition", ctas, *arguments)``; see formats.base.Packer."""

    def __init__(self, head: Head, cubin: Path) -> None:
        self.head = head
        self._module = load(cubin)
        self._functions: dict[tuple[int, str], Any] = {}

    def __call__(self, entry: str, ctas: int, *arguments: Any, threads: int = 256) -> None:
        """Enqueue ``entry`` on CuPy's current stream; whole numbers get the type that the code declares."""
        import cupy

        types = self.head.entries[entry]
        key = (cupy.cuda.runtime.getDevice(), entry)
        if key not in self._functions:
            self._functions[key] = self._module.get_function(entry)
        given = [
            number_type(declared).type(value) if isinstance(value, int) else value
            for declared, value in zip(types, arguments, strict=True)
        ]
        self._functions[key]((ctas,), (threads,), tuple(given))
