"""Calling cuBLASLt, NVIDIA's library for dense products whose algorithm the caller chooses, through ctypes."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ...formats.dense import DenseMatrix
from ..head import Head
from ..launch import Call, Unsupported
from ..operands import Dense

#: cudaDataType of each dtype, and that of the factors alpha and beta.
CUDA_TYPES = {"float8_e4m3": 28, "float16": 2, "bfloat16": 14, "float32": 0}
CUDA_R_32F = 0
#: CUBLAS_COMPUTE_32F
COMPUTE_32F = 68
#: Attributes of a product (cublasLtMatmulDescAttributes_t) and of a preference, and CUBLAS_OP_T.
TRANSPOSE_A, FAST_ACCUMULATION, WORKSPACE = 3, 25, 1
TRANSPOSE = 1
#: Workspace that NVIDIA recommends for Hopper; older devices need less.
WORKSPACE_BYTES = 32 << 20
#: Algorithms that are asked of the library's heuristic, and timed calls of each.
CANDIDATES, TRIALS = 16, 5


class CublasLtError(RuntimeError):
    """A call that the library refused, with its status."""


class _Candidate(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def version() -> str:
    """Version of the loaded library."""
    number = _library().cublasLtGetVersion()
    return f"cuBLASLt {number // 10000}.{number // 100 % 100}.{number % 100}"


def prepare_columns(head: Head, a: DenseMatrix, b: Dense, c: Dense, fast: bool) -> Call:
    """C = A·B for A in the format ``dense`` and B in column-major order; sums in float32, all scales 1.

    The library assumes column-major order: it computes Cᵀ = Bᵀ·Aᵀ on the same memory, its first operand transposed, the
    only layout that it has for 8-bit values on Hopper and Ada. ``fast``: sums stay in the tensor cores, whose sums of
    8-bit products keep 13 bits of their fraction; otherwise the library adds them up in float32 every few products. The
    algorithms that the library's heuristic proposes are timed on these operands, and the fastest is kept;
    ``preprocess_ms`` is that search. Raises :class:`Unsupported` if the heuristic proposes none, :class:`CublasLtError`
    if a call fails.
    """
    import cupy

    (m, k), n = a.shape, c.ld
    if not (m and n and k):
        return Call(lambda stream: c.storage.data.memset_async(0, c.nbytes, stream), keeps=(c,))
    of_a, of_b, of_c = (CUDA_TYPES[head.dtype[operand]] for operand in "abc")
    product = _created("cublasLtMatmulDescCreate", COMPUTE_32F, CUDA_R_32F)
    _set("cublasLtMatmulDescSetAttribute", product, TRANSPOSE_A, ctypes.c_int32(TRANSPOSE))
    _set("cublasLtMatmulDescSetAttribute", product, FAST_ACCUMULATION, ctypes.c_int8(fast))
    layouts = [
        _created(
            "cublasLtMatrixLayoutCreate", kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(ld)
        )
        for kind, rows, columns, ld in ((of_b, k, n, b.ld), (of_a, k, m, k), (of_c, n, m, c.ld))
    ]
    of_first, of_second, of_result = layouts
    workspace = cupy.empty(WORKSPACE_BYTES, dtype="uint8")
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    first, second, result = (ctypes.c_void_p(x) for x in (b.storage.data.ptr, a.data.data.ptr, c.storage.data.ptr))

    def multiply(candidate: _Candidate, stream: Any) -> None:
        _call(
            "cublasLtMatmul", _handle(), product, ctypes.byref(alpha), first, of_first, second, of_second,
            ctypes.byref(beta), result, of_result, result, of_result, ctypes.byref(candidate.algorithm),
            ctypes.c_void_p(workspace.data.ptr), ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(stream.ptr),
        )  # fmt: skip

    device, stream = cupy.cuda.Device(), cupy.cuda.get_current_stream()
    device.synchronize()
    start = time.perf_counter()
    candidates = list(_candidates(product, of_first, of_second, of_result))
    if not candidates:
        raise Unsupported(f"cuBLASLt has no algorithm for {m}×{k} times {k}×{n} in {head.dtype['a']}")
    best = min(candidates, key=lambda candidate: _time_ms(lambda: multiply(candidate, stream), stream))
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3
    keeps = (product, layouts, workspace, alpha, beta, best, a, b, c)
    return Call(lambda stream: multiply(best, stream), preprocess_ms, keeps=keeps)


def _candidates(product: Any, *layouts: Any) -> Iterator[_Candidate]:
    """What the heuristic proposes for operands of these layouts, the most promising first."""
    of_first, of_second, of_result = layouts
    preference = _created("cublasLtMatmulPreferenceCreate")
    _set("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
    found, count = (_Candidate * CANDIDATES)(), ctypes.c_int()
    status = _library().cublasLtMatmulAlgoGetHeuristic(
        _handle(), product, of_first, of_second, of_result, of_result, preference, CANDIDATES, found,
        ctypes.byref(count),
    )  # fmt: skip
    # The status says "not supported" where there is no algorithm.
    return (found[i] for i in range(count.value if status == 0 else 0) if found[i].state == 0)


def _time_ms(multiply: Callable[[], None], stream: Any) -> float:
    """Least time of a few calls, the first one not counted; infinite for an algorithm that does not run."""
    import cupy

    events = [cupy.cuda.Event() for _ in range(TRIALS + 1)]
    try:
        multiply()
        for event in events[:-1]:
            event.record(stream)
            multiply()
        events[-1].record(stream)
    except CublasLtError:
        return float("inf")
    events[-1].synchronize()
    return min(map(cupy.cuda.get_elapsed_time, events[:-1], events[1:]))


@cache
def _handle() -> ctypes.c_void_p:
    return _created("cublasLtCreate")


def _created(name: str, *arguments: Any) -> ctypes.c_void_p:
    """The object that a function of the library creates; it lives as long as the process."""
    created = ctypes.c_void_p()
    _call(name, ctypes.byref(created), *arguments)
    return created


def _set(name: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
    _call(name, of, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        raise CublasLtError(f"{name}: status {status}")


@cache
def _library() -> ctypes.CDLL:
    # CuPy has loaded cuBLAS by now, and with it this library: asking for its soname gives the same copy.
    from cupy_backends.cuda.libs import cublas  # noqa: F401

    for soname in ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"):
        try:
            library = ctypes.CDLL(soname)
        except OSError:
            continue
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        return library
    raise Unsupported("libcublasLt was not found; install the extra cuda12 or cuda13")
