"""Calling cuSPARSELt, NVIDIA's library for 2:4 matrices, through ctypes: CuPy has no binding for it."""

from __future__ import annotations

import ctypes
import importlib.util
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.sparse24 import Sparse24
from ..head import Head
from ..launch import Call, Unsupported
from ..operands import Dense

ORDER_ROW, NON_TRANSPOSE, HALF_IS_ZERO, DEFAULT_ALGORITHM = 2, 0, 0, 0
#: CUSPARSE_COMPUTE_32F
COMPUTE_32F = 2
#: cudaDataType of each dtype.
CUDA_TYPES = {"float16": 2, "bfloat16": 14}
#: Alignment of the addresses of all operands, in bytes.
ALIGNMENT = 16
#: Room for the handle and for every descriptor: 512 bytes each since version 0.8, up to 11,024 before.
OPAQUE_BYTES = 16384


class CusparseLtError(RuntimeError):
    """A call that the library refused, with the library's message."""


def version() -> str:
    """Version of the loaded library."""
    numbers = []
    for part in range(3):
        value = ctypes.c_int()
        _call("cusparseLtGetProperty", part, ctypes.byref(value))
        numbers.append(str(value.value))
    return f"cuSPARSELt {'.'.join(numbers)}"


def prepare_searched(head: Head, a: Sparse24, b: Dense, c: Dense) -> Call:
    """C = A·B by cusparseLtMatmul with the algorithm that its own search finds fastest on these operands.

    ``preprocess_ms`` is compression and search. Raises :class:`Unsupported` if the library is not installed or
    refuses the sizes, :class:`CusparseLtError` if it fails later.
    """
    import cupy

    handle = _handle()
    (m, k), n = a.data.shape, c.ld
    k *= 2
    stream = cupy.cuda.get_current_stream()
    kind = CUDA_TYPES[head.dtype["a"]]
    of_a, of_b, of_c, product, selection, plan = (_opaque() for _ in range(6))
    common = (ALIGNMENT, kind, ORDER_ROW)
    try:
        _call("cusparseLtStructuredDescriptorInit", handle, of_a, m, k, k, *common, HALF_IS_ZERO)
        _call("cusparseLtDenseDescriptorInit", handle, of_b, k, n, b.ld, *common)
        _call("cusparseLtDenseDescriptorInit", handle, of_c, m, n, c.ld, *common)
        _call(
            "cusparseLtMatmulDescriptorInit", handle, product, NON_TRANSPOSE, NON_TRANSPOSE,
            of_a, of_b, of_c, of_c, COMPUTE_32F,
        )  # fmt: skip
        _call("cusparseLtMatmulAlgSelectionInit", handle, selection, product, DEFAULT_ALGORITHM)
        _call("cusparseLtMatmulPlanInit", handle, plan, product, selection)
    except CusparseLtError as error:
        raise Unsupported(f"cuSPARSELt refuses {m}×{k} times {k}×{n}: {error}") from error
    unpacked = a.unpacked()
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    size, buffer_size = ctypes.c_size_t(), ctypes.c_size_t()
    _call("cusparseLtSpMMACompressedSize", handle, plan, ctypes.byref(size), ctypes.byref(buffer_size))
    compressed, buffer = (cupy.empty(max(bytes_.value, 16), dtype="uint8") for bytes_ in (size, buffer_size))
    _call("cusparseLtSpMMACompress", handle, plan, unpacked.data.ptr, compressed.data.ptr, buffer.data.ptr, stream.ptr)
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    scalars = (ctypes.byref(alpha), ctypes.byref(beta))
    operands = (compressed.data.ptr, b.storage.data.ptr, c.storage.data.ptr)

    def arguments(workspace: int | None, streams: Any) -> tuple[Any, ...]:
        of_alpha, of_beta = scalars
        in_a, in_b, in_c = operands
        return (handle, plan, of_alpha, in_a, in_b, of_beta, in_c, in_c, workspace, streams, 1)

    streams = (ctypes.c_void_p * 1)(stream.ptr)
    _call("cusparseLtMatmulSearch", *arguments(None, streams))
    _call("cusparseLtMatmulGetWorkspace", handle, plan, ctypes.byref(size))
    workspace = cupy.empty(max(size.value, 16), dtype="uint8")
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3

    def enqueue(stream: Any) -> None:
        _call("cusparseLtMatmul", *arguments(workspace.data.ptr, (ctypes.c_void_p * 1)(stream.ptr)))

    keeps = (of_a, of_b, of_c, product, selection, plan, compressed, alpha, beta, workspace, b, c)
    return Call(enqueue, preprocess_ms, keeps=keeps, format_bytes=int(compressed.nbytes))


def _opaque() -> np.ndarray:
    """Memory for a descriptor of any kind; NumPy aligns it as the library requires."""
    return np.zeros(OPAQUE_BYTES, dtype=np.uint8)


@cache
def _handle() -> np.ndarray:
    handle = _opaque()
    _call("cusparseLtInit", handle)
    return handle


def _call(name: str, *arguments: Any) -> None:
    library = _library()
    pointers = [ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else x for x in arguments]
    # The variadic default of ctypes truncates integers to 32 bits.
    whole = [ctypes.c_int64(x) if isinstance(x, int) else x for x in pointers]
    status = getattr(library, name)(*whole)
    if status != 0:
        raise CusparseLtError(f"{name}: {library.cusparseLtGetErrorString(status).decode()}")


@cache
def _library() -> ctypes.CDLL:
    """The installed library: from NVIDIA's wheel, otherwise as the system's loader finds it."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(root) for root in ((spec and spec.submodule_search_locations) or [])]
    candidates = [str(path) for root in wheels for path in root.glob("*/lib/libcusparseLt.so.0")]
    for path in [*candidates, "libcusparseLt.so.0"]:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        library.cusparseLtGetErrorString.restype = ctypes.c_char_p
        return library
    raise Unsupported("libcusparseLt.so.0 was not found; install the extra cuda12 or cuda13")
