"""cuSPARSE SpMV on CSR in double precision, with each of its algorithms: the fair call where B is one vector.

---
name: cusparse_spmv
study: cusparse
vendor: cusparse
unit: cuda
baseline: cusparse_best
source: "NVIDIA cuSPARSE documentation, section cusparseSpMV: CUSPARSE_SPMV_ALG_DEFAULT"
idea: matrix times vector by the algorithm that the library chooses by itself
format: csr
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
requires: {}
one_column: true
features: []
constants: {algorithm: 0}
variants:
  alg1:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMV: CUSPARSE_SPMV_CSR_ALG1"
    idea: matrix times vector, CSR algorithm 1
    constants: {algorithm: 2}
  alg2:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMV: CUSPARSE_SPMV_CSR_ALG2"
    idea: matrix times vector, CSR algorithm 2, which gives the same bits in every run
    constants: {algorithm: 3}
deviations:
  - "one call per column of B"
---
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ...formats.csr import Csr
from ..head import Head
from ..launch import Call
from ..operands import Dense
from . import _cusparse

_POINTER, _ENUM = ctypes.c_void_p, ctypes.c_int
#: cusparseSpMV and its companions: handle, opA, alpha, A, x, beta, y, compute type, algorithm, buffer or its size.
_SPMV = [_POINTER, _ENUM, *[_POINTER] * 5, _ENUM, _ENUM, _POINTER]


def prepare(head: Head, a: Csr, b: Dense, c: Dense) -> Call:
    """C = A·B by cusparseSpMV, one call per column, after the library's analysis of A where it has one.

    Raises :class:`~._cusparse.CusparseError` if the library refuses.
    """
    import cupy

    for name in ("cusparseSpMV_bufferSize", "cusparseSpMV", *([_PREPROCESS] if _preprocesses() else [])):
        getattr(_cusparse._library(), name).argtypes = _SPMV
    handle, dtype = _cusparse._handle(), _cusparse.CUDA_TYPES[head.dtype["accumulator"]]
    descriptors = _Descriptors(_cusparse._sparse(a, head.dtype["a"]), _vectors(b), _vectors(c))
    alpha, beta = ctypes.c_double(1.0), ctypes.c_double(0.0)
    of_a = (handle, _cusparse.NON_TRANSPOSE, ctypes.addressof(alpha), descriptors.a)
    vectors = zip(descriptors.x, descriptors.y, strict=True)
    columns = [(*of_a, x, ctypes.addressof(beta), y, dtype, head.constants["algorithm"]) for x, y in vectors]
    _cusparse._call("cusparseSetStream", handle, cupy.cuda.get_current_stream().ptr)
    size = ctypes.c_size_t()
    _cusparse._call("cusparseSpMV_bufferSize", *columns[0], ctypes.addressof(size))
    buffer = cupy.empty(max(size.value, 16), dtype="uint8")
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    if _preprocesses():
        _cusparse._call(_PREPROCESS, *columns[0], buffer.data.ptr)
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3

    def enqueue(stream: Any) -> None:
        _cusparse._call("cusparseSetStream", handle, stream.ptr)
        for arguments in columns:
            _cusparse._call("cusparseSpMV", *arguments, buffer.data.ptr)

    return Call(enqueue, preprocess_ms, keeps=(descriptors, alpha, beta, buffer, a, b, c))


#: Exists since CUDA 12.4.
_PREPROCESS = "cusparseSpMV_preprocess"


def _preprocesses() -> bool:
    return hasattr(_cusparse._library(), _PREPROCESS)


class _Descriptors:
    """cuSPARSE descriptors of A and of the columns of B and C, destroyed with the object."""

    def __init__(self, a: int, x: list[int], y: list[int]) -> None:
        self.a, self.x, self.y = a, x, y

    def __del__(self) -> None:
        from cupy_backends.cuda.libs import cusparse

        cusparse.destroySpMat(self.a)
        for vector in (*self.x, *self.y):
            cusparse.destroyDnVec(vector)


def _vectors(dense: Dense) -> list[int]:
    """A descriptor of each column of a column-major operand."""
    from cupy_backends.cuda.libs import cusparse

    kind = _cusparse.CUDA_TYPES[dense.dtype]
    return [cusparse.createDnVec(dense.rows, column.data.ptr, kind) for column in dense.storage[: dense.columns]]
