"""Launch: the only module that runs kernels on a device, compiled ones and library calls alike."""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..formats.base import Format
from . import expressions
from .head import NUMBER_TYPES, Head, Launch
from .operands import Dense

#: Largest grid in y and z.
GRID_LIMIT = 65535


class Unsupported(ValueError):
    """A case that a kernel does not take, with the reason; the row gets the status ``unsupported``."""


@dataclass(frozen=True)
class Call:
    """One multiplication, ready to be repeated: ``call(stream)`` enqueues it and returns at once."""

    enqueue: Callable[[Any], None]
    preprocess_ms: float = 0.0
    #: What must stay alive as long as the call: buffers, descriptors.
    keeps: tuple[Any, ...] = field(default=(), repr=False)
    #: Bytes of A on the device where they are not those of the packed format: a library may keep it in a format of its
    #: own, and a work list may be that of the launch.
    format_bytes: int | None = None
    #: ``bind(b, c, alpha, beta)`` gives an ``enqueue`` for other arrays of the same shapes, by their addresses, and for
    #: other factors; None if the call is bound to its arrays. Two of them may not run at the same time: they use the
    #: same scratch.
    bind: Callable[[int, int, float, float], Callable[[Any], None]] | None = field(default=None, repr=False)

    def __call__(self, stream: Any) -> None:
        self.enqueue(stream)


def check_case(head: Head, m: int, n: int, k: int) -> None:
    """Raise :class:`Unsupported` if the head's ``requires`` or ``steps`` exclude these sizes."""
    if head.steps > 1 and m != k:
        raise Unsupported(f"{head.name} multiplies {head.steps} times by A, so A must be square, not {m} x {k}")
    sizes = {"m": m, "n": n, "k": k}
    for name, multiple in head.requires.items():
        if sizes[name] % multiple:
            raise Unsupported(f"{head.name} needs {name} to be a multiple of {multiple}, not {sizes[name]}")


def prepare(
    head: Head, cubin: Path | None, a: Format | None, b: Dense, c: Dense, alpha: float = 1.0, beta: float = 0.0
) -> Call:
    """A repeatable call of ``head`` on device operands: C = A·B.

    ``cubin`` is the compiled kernel (None for a library); ``alpha`` and ``beta`` are the values of the head's arguments
    of these names. Raises :class:`Unsupported`, or CuPy's own errors if the driver refuses the launch.
    """
    if head.vendor:
        return _library(head).prepare(head, a, b, c)
    m, k = a.shape if a is not None else (c.rows, b.rows)
    import cupy

    if cubin is None:
        raise ValueError(f"{head.name} is no library: a launch needs its machine code")
    module = load(cubin)
    device = cupy.cuda.Device().attributes
    names: dict[str, Any] = {
        "m": m,
        "k": k,
        "n": c.columns,
        "nnz": a.nnz if a is not None else 0,
        "a": _names_of(a),
        "b": expressions.namespace(operand=b, array=b.storage, ld=b.ld, nbytes=b.nbytes),
        "c": expressions.namespace(operand=c, array=c.storage, ld=c.ld),
        "tile": expressions.namespace(**head.tile),
        "steps": head.steps,
        "device": expressions.namespace(multiprocessors=device["MultiProcessorCount"], l2_bytes=device["L2CacheSize"]),
    }
    preprocess_ms = 0.0
    if head.waves and a is not None:
        resident = {launch.entry: _resident(launch, module, names) for launch in head.launches}
        names["resident"] = expressions.namespace(**resident)
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        a = scheduled(head, a, names)
        cupy.cuda.Device().synchronize()
        preprocess_ms = (time.perf_counter() - start) * 1e3
        names["a"] = _names_of(a)
    if head.scratch:
        (size,) = expressions.evaluate(head.scratch, names)
        # All bits set are NaN: a partial sum that was never written shows in C.
        names["scratch"] = cupy.empty(max(int(size), 1), dtype="uint8")
        names["scratch"].data.memset_async(0xFF, names["scratch"].nbytes, cupy.cuda.get_current_stream())
    launches = [_Launch.of(head, launch, module, names) for launch in head.launches]

    storage = c.storage

    def bind(b: int, c: int, alpha: float, beta: float) -> Callable[[Any], None]:
        given = {"b": b, "c": c, "alpha": alpha, "beta": beta}
        bound = [(launch, launch.arguments_with(given)) for launch in launches]

        def enqueue(stream: Any) -> None:
            if head.clear_c:
                storage.data.memset_async(0, storage.nbytes, stream)
            for launch, arguments in bound:
                launch.on(stream, arguments)

        return enqueue

    enqueue = bind(b.storage.data.ptr, c.storage.data.ptr, alpha, beta)
    keeps = (module, a, b, c, names.get("scratch"))
    return Call(
        enqueue,
        preprocess_ms,
        keeps,
        format_bytes=a.nbytes if a is not None and head.waves else None,
        bind=None if head.tensor_maps or head.clear_c else bind,
    )


def scheduled(head: Head, a: Format, names: Mapping[str, Any]) -> Format:
    """``a`` with its work list made for the waves of a launch, whose number follows from ``names``."""
    (waves,) = expressions.evaluate(head.waves, names)
    return a.with_waves(waves)


def load(cubin: Path) -> Any:
    """A loaded module; its bytes are read once."""
    import cupy

    return cupy.RawModule(path=str(cubin))


def _names_of(a: Format | None) -> Any:
    """``a.<name>`` of expressions."""
    return expressions.namespace(**(a.arrays() | a.counts() if a is not None else {}))


def _configured(launch: Launch, module: Any, names: Mapping[str, Any]) -> tuple[Any, tuple[int, int, int], int]:
    """The function of a launch, its block and its dynamic shared memory in bytes, which the function is allowed."""
    function = module.get_function(launch.entry)
    (smem,) = expressions.evaluate(launch.smem, names)
    if smem + function.shared_size_bytes > 48 * 1024:
        function.max_dynamic_shared_size_bytes = smem
    return function, _three(expressions.evaluate(launch.block, names)), int(smem)


def _resident(launch: Launch, module: Any, names: Mapping[str, Any]) -> int:
    """CTAs of a launch that a multiprocessor holds at once, by the driver: registers, shared memory, warps and CTAs."""
    from cupy.cuda import driver

    function, block, smem = _configured(launch, module, names)
    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.kernel.ptr, math.prod(block), smem))


@dataclass(frozen=True)
class _Launch:
    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem: int
    arguments: tuple[Any, ...]
    #: The arguments that stand for B, C, alpha and beta: position, name, and type of a number.
    given: tuple[tuple[int, str, Any], ...]

    @classmethod
    def of(cls, head: Head, launch: Launch, module: Any, names: dict[str, Any]) -> _Launch:
        import numpy as np

        grid = _three(expressions.evaluate(launch.grid, names))
        if grid[1] > GRID_LIMIT or grid[2] > GRID_LIMIT:
            raise Unsupported(f"{head.name} would need a grid of {grid}; y and z are limited to {GRID_LIMIT}")
        arguments: list[Any] = []
        given = []
        for text, declared in zip(launch.args, launch.types, strict=True):
            if text in head.tensor_maps:
                rows, columns = expressions.evaluate(head.tensor_maps[text]["box"], names)
                arguments.append(names[head.tensor_maps[text]["of"]].operand.tensor_map(rows, columns))
                continue
            number = number_type(declared)
            if text in ("b", "c", *expressions.FACTORS):
                given.append((len(arguments), text, number))
                arguments.append(None)
                continue
            (value,) = expressions.evaluate(text, names)
            if number is not None:
                if number.kind in "iu" and not np.iinfo(number).min <= value <= np.iinfo(number).max:
                    raise Unsupported(f"{head.name} takes {text} as {declared}, and {value} does not fit")
                value = number.type(value)
            arguments.append(value)
        function, block, smem = _configured(launch, module, names)
        return cls(function, grid, block, smem, tuple(arguments), tuple(given))

    def arguments_with(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments, with B, C, alpha and beta of ``given``."""
        arguments = list(self.arguments)
        for position, name, number in self.given:
            # CuPy passes an integer as 64 bits, which is what a pointer has.
            arguments[position] = given[name] if number is None else number.type(given[name])
        return tuple(arguments)

    def on(self, stream: Any, arguments: tuple[Any, ...]) -> None:
        if 0 in self.grid:
            return
        with stream:
            self.function(self.grid, self.block, arguments, shared_mem=self.smem)


def number_type(declared: str) -> Any:
    """NumPy dtype of a parameter that the code declares as a number; None for a pointer or a struct."""
    import numpy as np

    name = NUMBER_TYPES.get(re.sub(r"\bconst\b", "", declared).strip())
    return None if name is None else np.dtype(name)


def _three(values: list[Any]) -> tuple[int, int, int]:
    x, y, z = ([int(v) for v in values] + [1, 1])[:3]
    return x, y, z


def library_version(head: Head) -> str:
    """Name and version of the library behind an adapter, as loaded; of an external one its file name."""
    if head.external:
        return head.path.name
    return importlib.import_module(f".libraries._{head.vendor}", __package__).version()


def _library(head: Head) -> Any:
    return importlib.import_module(f".libraries.{'_external' if head.external else head.path.stem}", __package__)
