"""cuSPARSE SpMM as the attention thesis called it, with both operands transposed by the library.

---
name: cusparse_transposed_alg1
study: cusparse
vendor: cusparse
unit: cuda
baseline: attention
source: "Lagos 2025, section 5.3.1 and its program; NVIDIA cuSPARSE documentation, cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
idea: CSR algorithm 1 on the CSR of W with W and X transposed on the way, the baseline of the attention thesis
format: csc
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
requires: {}
features: []
deviations:
  - "buffer and preprocess step once per matrix and width, as for the other rows of the library"
---
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ...formats.csc import Csc
from ..head import Head
from ..launch import Call
from ..operands import Dense
from . import _cusparse

TRANSPOSE = 1
#: CUSPARSE_SPMM_CSR_ALG1
ALGORITHM = 4


def prepare(head: Head, a: Csc, b: Dense, c: Dense) -> Call:
    """C = A·B with A = Wᵀ from the CSR of W, which is the CSC of A, and B = Xᵀ from X in row-major order.

    Raises :class:`~._cusparse.CusparseError` if the library refuses.
    """
    import cupy
    from cupy_backends.cuda.libs import cusparse

    handle, kind = _cusparse._handle(), _cusparse.CUDA_TYPES[head.dtype["a"]]
    m, k = a.shape
    arrays = (a.indptr.data.ptr, a.indices.data.ptr, a.data.data.ptr)
    index = (_cusparse.INDEX_32, _cusparse.INDEX_32, _cusparse.BASE_ZERO)
    descriptors = _cusparse._Descriptors(
        cusparse.createCsr(k, m, a.nnz, *arrays, *index, kind),
        cusparse.createDnMat(b.columns, b.rows, b.ld, b.storage.data.ptr, kind, _cusparse.ORDER_ROW),
        _cusparse._dense(c),
    )
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    arguments = (
        handle, TRANSPOSE, TRANSPOSE, ctypes.addressof(alpha), descriptors.a, descriptors.b,
        ctypes.addressof(beta), descriptors.c, kind, ALGORITHM,
    )  # fmt: skip
    _cusparse._call("cusparseSetStream", handle, cupy.cuda.get_current_stream().ptr)
    size = ctypes.c_size_t()
    _cusparse._call("cusparseSpMM_bufferSize", *arguments, ctypes.addressof(size))
    buffer = cupy.empty(max(size.value, 16), dtype="uint8")
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    _cusparse._call("cusparseSpMM_preprocess", *arguments, buffer.data.ptr)
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3

    def enqueue(stream: Any) -> None:
        _cusparse._call("cusparseSetStream", handle, stream.ptr)
        _cusparse._call("cusparseSpMM", *arguments, buffer.data.ptr)

    return Call(enqueue, preprocess_ms, keeps=(descriptors, alpha, beta, buffer, a, b, c))
