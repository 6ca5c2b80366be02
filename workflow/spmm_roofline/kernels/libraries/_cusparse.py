"""Calling cuSPARSE's generic SpMM: descriptors through CuPy's binding, the repeated calls through ctypes.

CuPy has no binding of ``cusparseSpMM_preprocess`` and refuses every cuSPARSE call while a stream is captured, which
the library itself allows. The configuration is the best honest one for C = A·B with a narrow B: row-major B and C, the
buffer and the preprocess step once per matrix and width.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache
from typing import Any

from ...formats.coo import Coo
from ...formats.csr import Csr
from ..head import Head
from ..launch import Call
from ..operands import Dense

ORDER_COLUMN, ORDER_ROW = 1, 2
INDEX_32, BASE_ZERO, NON_TRANSPOSE = 2, 0, 0
#: cudaDataType of each dtype.
CUDA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}

_POINTER, _ENUM = ctypes.c_void_p, ctypes.c_int
#: cusparseSpMM and its two companions: handle, opA, opB, alpha, A, B, beta, C, compute type, algorithm, ...
_SPMM = [_POINTER, _ENUM, _ENUM, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _ENUM, _ENUM, _POINTER]


class CusparseError(RuntimeError):
    """A call that the library refused, with the library's message."""


def version() -> str:
    """Version of the loaded library."""
    from cupy_backends.cuda.libs import cusparse

    number = cusparse.getVersion(_handle())
    return f"cuSPARSE {number // 1000}.{number // 100 % 10}.{number % 100}"


def prepare_with(head: Head, a: Csr | Coo, b: Dense, c: Dense, algorithm: int) -> Call:
    """C = A·B by cusparseSpMM with one algorithm for the head's format, CSR or COO.

    Raises :class:`CusparseError` if the library refuses.
    """
    return product(a, head.dtype["a"], b, c, head.dtype["accumulator"], algorithm)


def product(a: Csr | Coo, dtype: str, b: Dense, c: Dense, accumulator: str, algorithm: int) -> Call:
    """The repeatable call; its ``preprocess_ms`` is the library's own analysis, device time included."""
    import cupy

    handle = _handle()
    descriptors = _Descriptors(_sparse(a, dtype), _dense(b), _dense(c))
    scalar = ctypes.c_double if accumulator == "float64" else ctypes.c_float
    alpha, beta = scalar(1.0), scalar(0.0)
    arguments = (
        handle, NON_TRANSPOSE, NON_TRANSPOSE, ctypes.addressof(alpha), descriptors.a, descriptors.b,
        ctypes.addressof(beta), descriptors.c, CUDA_TYPES[accumulator], algorithm,
    )  # fmt: skip
    _call("cusparseSetStream", handle, cupy.cuda.get_current_stream().ptr)
    size = ctypes.c_size_t()
    _call("cusparseSpMM_bufferSize", *arguments, ctypes.addressof(size))
    buffer = cupy.empty(max(size.value, 16), dtype="uint8")
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    _call("cusparseSpMM_preprocess", *arguments, buffer.data.ptr)
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3

    def enqueue(stream: Any) -> None:
        _call("cusparseSetStream", handle, stream.ptr)
        _call("cusparseSpMM", *arguments, buffer.data.ptr)

    return Call(enqueue, preprocess_ms, keeps=(descriptors, alpha, beta, buffer, a, b, c))


class _Descriptors:
    """cuSPARSE descriptors of A, B and C, destroyed with the object."""

    def __init__(self, a: int, b: int, c: int) -> None:
        self.a, self.b, self.c = a, b, c

    def __del__(self) -> None:
        from cupy_backends.cuda.libs import cusparse

        cusparse.destroySpMat(self.a)
        cusparse.destroyDnMat(self.b)
        cusparse.destroyDnMat(self.c)


def _sparse(a: Csr | Coo, dtype: str) -> int:
    from cupy_backends.cuda.libs import cusparse

    (m, k), indices, kind = a.shape, [INDEX_32, BASE_ZERO], CUDA_TYPES[dtype]
    if isinstance(a, Coo):
        return cusparse.createCoo(m, k, a.nnz, a.row.data.ptr, a.col.data.ptr, a.data.data.ptr, *indices, kind)
    arrays = (a.indptr.data.ptr, a.indices.data.ptr, a.data.data.ptr)
    return cusparse.createCsr(m, k, a.nnz, *arrays, INDEX_32, *indices, kind)


def _dense(x: Dense) -> int:
    from cupy_backends.cuda.libs import cusparse

    order = ORDER_COLUMN if x.column_major else ORDER_ROW
    return cusparse.createDnMat(x.rows, x.columns, x.ld, x.storage.data.ptr, CUDA_TYPES[x.dtype], order)


def _handle() -> int:
    import cupy

    return cupy.cuda.device.get_cusparse_handle()


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        raise CusparseError(f"{name}: {_library().cusparseGetErrorString(status).decode()}")


@cache
def _library() -> ctypes.CDLL:
    # CuPy has loaded the library by now: asking for its soname gives the same copy, which owns the handle.
    from cupy_backends.cuda.libs import cusparse  # noqa: F401

    for soname in ("libcusparse.so.12", "libcusparse.so.13", "libcusparse.so"):
        try:
            library = ctypes.CDLL(soname)
        except OSError:
            continue
        library.cusparseSetStream.argtypes = [_POINTER, _POINTER]
        library.cusparseGetErrorString.restype = ctypes.c_char_p
        for name in ("cusparseSpMM_bufferSize", "cusparseSpMM_preprocess", "cusparseSpMM"):
            getattr(library, name).argtypes = _SPMM
        return library
    raise CusparseError("libcusparse was not found; install the extra cuda12 or cuda13")
