"""Launch: the only module that runs kernels on a device, compiled ones and library calls alike."""

from __future__ import annotations

import ctypes
import importlib
import math
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..formats.base import Format
from . import expressions
from .head import EPILOGUE, NUMBER_TYPES, Head, Launch
from .operands import Dense

#: Arguments that may differ from call to call: the addresses of B and C, two factors, and what an epilogue takes.
GIVEN = ("b", "c", *expressions.FACTORS, *EPILOGUE)

#: Status of the driver for a thread without a context.
INVALID_CONTEXT = 201

#: Largest grid in y and z.
GRID_LIMIT = 65535


class Unsupported(ValueError):
    """A case that a kernel does not take, with the reason; the row gets the status ``unsupported``."""


#: Stream, B, C, alpha, beta, bias or 0, and whether to apply ReLU; arrays and the stream by address.
Repeat = Callable[[int, int, int, float, float, int, bool], None]


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
    #: ``repeat(stream, b, c, alpha, beta, bias, relu)`` enqueues the multiplication of other arrays of the same shapes,
    #: by their addresses, with other factors, on a stream by its handle; None if the call is bound to its arrays. It
    #: may be called as long as the call exists, which keeps its scratch. Two threads may not call it at the same time,
    #: and two such multiplications may not run at the same time: they use the same scratch.
    repeat: Repeat | None = field(default=None, repr=False)
    #: ``again(empty)`` is the same call with scratch of its own, an array of bytes that ``empty(size)`` gives. Nothing
    #: else is allocated, and filling it is all that the current stream does.
    again: Callable[[Callable[[int], Any]], Call] | None = field(default=None, repr=False)

    def __call__(self, stream: Any) -> None:
        self.enqueue(stream)


def format_options(head: Head) -> dict[str, Any]:
    """Options of the format's ``from_csr`` on the current device."""
    import cupy

    device = cupy.cuda.Device().attributes
    return head.options(device["MultiProcessorCount"], device["L2CacheSize"])


def check_case(head: Head, m: int, n: int, k: int) -> None:
    """Raise :class:`Unsupported` if the head's ``requires`` or ``steps`` exclude these sizes."""
    if head.steps > 1 and m != k:
        raise Unsupported(f"{head.name} multiplies {head.steps} times by A, so A must be square, not {m} x {k}")
    sizes = {"m": m, "n": n, "k": k}
    for name, multiple in head.requires.items():
        if sizes[name] % multiple:
            raise Unsupported(f"{head.name} needs {name} to be a multiple of {multiple}, not {sizes[name]}")


def prepare(
    head: Head,
    cubin: Path | None,
    a: Format | None,
    b: Dense,
    c: Dense,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: int = 0,
    relu: bool = False,
    rows: Any = None,
) -> Call:
    """A repeatable call of ``head`` on device operands: C = A·B.

    ``cubin`` is the compiled kernel (None for a library); ``alpha`` and ``beta`` are the values of the head's arguments
    of these names, ``bias`` (an address, or 0) and ``relu`` those of its epilogue. ``rows`` int32[m] is the row of C of
    each row of A, for a kernel that is :meth:`~.head.Head.reordered`. Raises :class:`Unsupported`, or CuPy's own errors
    if the driver refuses the launch.
    """
    if head.vendor:
        factors = (alpha, beta, bias, relu) if head.takes_factors else ()
        return _library(head).prepare(head, a, b, c, *factors)
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
        "rows": rows,
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
    storage = c.storage
    own = b.storage.data.ptr, storage.data.ptr, alpha, beta, bias, relu

    def call(empty: Callable[[int], Any]) -> Call:
        scratch = None
        if head.scratch:
            (size,) = expressions.evaluate(head.scratch, names)
            # All bits set are what counters start from, and NaN: a partial sum that was never written shows in C.
            scratch = empty(max(int(size), 1))
            scratch.data.memset_async(0xFF, scratch.nbytes, cupy.cuda.get_current_stream())
        launches = [_Launch(head, launch, module, names | {"scratch": scratch}) for launch in head.launches]

        def repeat(stream: int, *given: Any) -> None:
            for launch in launches:
                launch.on(stream, given)

        def enqueue(stream: Any) -> None:
            if head.clear_c:
                storage.data.memset_async(0, storage.nbytes, stream)
            repeat(stream.ptr, *own)

        return Call(
            enqueue,
            preprocess_ms,
            (module, a, b, c, scratch, rows),
            a.nbytes if a is not None and head.waves else None,
            None if head.tensor_maps or head.clear_c else repeat,
            call,
        )

    return call(lambda size: cupy.empty(size, dtype="uint8"))


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
    """The function of a launch, its block and its dynamic shared memory in bytes, which the function is allowed.

    Raises :class:`Unsupported` if it is more than the device has.
    """
    import cupy

    function = module.get_function(launch.entry)
    (smem,) = expressions.evaluate(launch.smem, names)
    needed = smem + function.shared_size_bytes
    if needed > 48 * 1024:
        most = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        if needed > most:
            raise Unsupported(f"a CTA of {launch.entry} needs {needed:,} bytes of shared memory, of {most:,} here")
        function.max_dynamic_shared_size_bytes = smem
    return function, _three(expressions.evaluate(launch.block, names)), int(smem)


def _resident(launch: Launch, module: Any, names: Mapping[str, Any]) -> int:
    """CTAs of a launch that a multiprocessor holds at once, by the driver: registers, shared memory, warps and CTAs."""
    from cupy.cuda import driver

    function, block, smem = _configured(launch, module, names)
    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.kernel.ptr, math.prod(block), smem))


class _Launch:
    """One kernel launch with all its arguments; those of :data:`GIVEN` may differ from call to call.

    It calls the driver itself: where a multiplication takes microseconds, converting sixteen arguments anew for every
    call would take as long.
    """

    def __init__(self, head: Head, launch: Launch, module: Any, names: dict[str, Any]) -> None:
        grid = _three(expressions.evaluate(launch.grid, names))
        if grid[1] > GRID_LIMIT or grid[2] > GRID_LIMIT:
            raise Unsupported(f"{head.name} would need a grid of {grid}; y and z are limited to {GRID_LIMIT}")
        arguments = []
        #: The arguments that differ: where the driver reads the value, and which of :data:`GIVEN` it is.
        self._given: list[tuple[Any, int]] = []
        for text, declared in zip(launch.args, launch.types, strict=True):
            if text in head.tensor_maps:
                rows, columns = expressions.evaluate(head.tensor_maps[text]["box"], names)
                encoded = names[head.tensor_maps[text]["of"]].operand.tensor_map(rows, columns)
                arguments.append(aligned_copy(encoded))
                continue
            if text in GIVEN:
                number = number_type(declared)
                value = np.ctypeslib.as_ctypes_type(np.dtype(np.uint64) if number is None else number)()
                self._given.append((value, GIVEN.index(text)))
                arguments.append(value)
                continue
            (given,) = expressions.evaluate(text, names)
            arguments.append(converter(head.name, text, declared)(given))
        function, block, smem = _configured(launch, module, names)
        self._launch = DriverLaunch(function, grid, block, smem, arguments)

    def on(self, stream: int, given: tuple[Any, ...]) -> None:
        """Enqueue on the stream of a handle; ``given`` are the values of :data:`GIVEN`."""
        for value, which in self._given:
            value.value = given[which]
        self._launch(stream)


class DriverLaunch:
    """A launch of a function of CuPy by the driver: ``launch(stream)`` enqueues it on the stream of a handle.

    ``arguments`` are objects of ctypes. The driver reads their values in every launch, so they may change in between.
    """

    def __init__(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        self._is_empty = 0 in grid
        self._keeps = function, arguments
        self._values = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self._config = LaunchConfig(*grid, *block, shared)
        self._given = ctypes.byref(self._config), function.kernel.ptr, self._values, None
        self._enqueue = driver_launch()

    def sized(self, ctas: int, threads: int) -> None:
        """Let the next launches have so many CTAs, at least one, of so many threads."""
        self._config.grid_x, self._config.block_x = ctas, threads

    def __call__(self, stream: int) -> None:
        if self._is_empty:
            return
        self._config.stream = stream
        status = self._enqueue(*self._given)
        if status == INVALID_CONTEXT:
            import cupy

            # A new thread has no context until a call of the runtime gives it that of its current device.
            cupy.cuda.runtime.setDevice(cupy.cuda.runtime.getDevice())
            status = self._enqueue(*self._given)
        if status:
            from cupy.cuda import driver

            raise driver.CUDADriverError(status)


class Launcher:
    """A function that is launched with other arguments each time: all launches write theirs to one place.

    To make objects of ctypes for the arguments of one launch takes longer than the launch. ``parameters`` are the types
    that the code declares, and ``arguments`` an example of what is given; of a struct, the size counts.
    """

    def __init__(self, function: Any, parameters: Sequence[str], arguments: Sequence[Any]) -> None:
        codes, self._readers = [], list[Callable[[Any], Any] | None]()
        for declared, given in zip(parameters, arguments, strict=True):
            number = number_type(declared)
            if number is not None:
                codes.append(f"{number.char}{-number.itemsize % 8}x")
                self._readers.append(None)
            elif type(given) is np.ndarray:
                codes.append(f"{given.nbytes}s{-given.nbytes % 8}x")
                self._readers.append(np.ndarray.tobytes)
            else:
                codes.append("Q")
                self._readers.append(_pointer)
        self._layout = struct.Struct("@" + "".join(codes))
        self._room = (ctypes.c_char * self._layout.size)()
        offsets = accumulate((struct.calcsize(f"@{code}") for code in codes[:-1]), initial=0)
        places = [ctypes.c_char.from_buffer(self._room, offset) for offset in offsets] if codes else []
        self._launch = DriverLaunch(function, (1, 1, 1), (1, 1, 1), 0, places)
        self._lock = Lock()

    def __call__(self, stream: int, ctas: int, threads: int, arguments: Sequence[Any]) -> None:
        """Enqueue on the stream of a handle. Raises ``struct.error`` for a number that does not fit."""
        given = [read(x) if read else x for read, x in zip(self._readers, arguments, strict=True)]
        if not ctas:
            return
        with self._lock:
            self._layout.pack_into(self._room, 0, *given)
            self._launch.sized(ctas, threads)
            self._launch(stream)


def _pointer(value: Any) -> int:
    """The address of an array, which may be given by it."""
    return value if type(value) is int else int(value.data.ptr)


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` of the CUDA driver, without attributes."""

    _fields_ = (
        *((f"{size}_{axis}", ctypes.c_uint) for size in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@cache
def driver_launch() -> Callable[..., int]:
    """``cuLaunchKernelEx`` of the CUDA driver."""
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    launch.argtypes = [ctypes.c_void_p] * 4
    return launch


def capture_of(stream: int) -> int:
    """Number of the capture that a stream takes part in, which no other capture of the process has; 0 if in none."""
    number, status = ctypes.c_uint64(), ctypes.c_int()
    pointers = ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None
    if failed := _capture_info()(*pointers):
        from cupy.cuda import driver

        raise driver.CUDADriverError(failed)
    return number.value if status.value else 0


@cache
def _capture_info() -> Callable[..., int]:
    """``cuStreamGetCaptureInfo`` of the CUDA driver, without the graph and its nodes."""
    info = ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo_v2
    info.argtypes = [ctypes.c_void_p] * 6
    return info


@cache
def converter(kernel: str, text: str, declared: str) -> Callable[[Any], Any]:
    """What makes an argument one that the driver reads: a number of the type ``declared``, or :func:`address`.

    The function raises :class:`Unsupported` for a number that does not fit.
    """
    number = number_type(declared)
    if number is None:
        return address
    own: Any = np.ctypeslib.as_ctypes_type(number)
    if number.kind not in "iu":
        return own
    limits = np.iinfo(number)
    least, most = int(limits.min), int(limits.max)

    def fitting(value: int) -> Any:
        if not least <= value <= most:
            raise Unsupported(f"{kernel} takes {text} as {declared}, and {value} does not fit")
        return own(value)

    return fitting


def address(value: Any) -> Any:
    """The address of an array, which may be given by it, or the bytes of a struct of NumPy."""
    if type(value) is np.ndarray:
        return aligned_copy(value)
    return ctypes.c_uint64(value if isinstance(value, int) else value.data.ptr)


def aligned_copy(value: np.ndarray) -> Any:
    """The bytes of a struct, at an address that is a multiple of 64, as a tensor map must be passed."""
    room = (ctypes.c_char * (value.nbytes + 64))()
    copy = (ctypes.c_char * value.nbytes).from_buffer(room, -ctypes.addressof(room) % 64)
    ctypes.memmove(copy, value.ctypes.data, value.nbytes)
    return copy


def number_type(declared: str) -> Any:
    """NumPy dtype of a parameter that the code declares as a number; None for a pointer or a struct."""
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
