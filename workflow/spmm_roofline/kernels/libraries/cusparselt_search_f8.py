"""cuSPARSELt on a whole matrix in 2:4 in FP8, with the algorithm that its search finds fastest.

---
name: cusparselt_search_f8
study: cusparselt
vendor: cusparselt
unit: tensor_sparse24
source: "NVIDIA cuSPARSELt documentation, sections cusparseLtMatmul and cusparseLtMatmulSearch"
idea: the library's own 2:4 product of FP8 (e4m3) with sums in single precision, its algorithm searched for each case
after: cusparselt_search
format: sparse24
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: bfloat16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 64, n: 16}
requires: {}
features: []
deviations: []
---
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ...formats.sparse24 import Sparse24
from ..head import Head
from ..launch import Call, Unsupported
from ..operands import Dense
from . import _cusparselt as lt

__all__ = ["prepare"]

TRANSPOSE = 1
#: cudaDataType of operands and result.
E4M3, BFLOAT16 = 28, 14


def prepare(head: Head, a: Sparse24, b: Dense, c: Dense) -> Call:
    """C = A·B as :func:`._cusparselt.prepare_searched` does it, with B as the transpose of its rows.

    The library takes 8-bit operands along k only. Raises :class:`Unsupported` if it is not installed or refuses the
    sizes, :class:`._cusparselt.CusparseLtError` if it fails later.
    """
    import cupy

    handle = lt._handle()
    (m, half_k), n = a.data.shape, c.ld
    k = 2 * half_k
    stream = cupy.cuda.get_current_stream()
    of_a, of_b, of_c, product, selection, plan = (lt._opaque() for _ in range(6))
    of_operand, of_result = ((lt.ALIGNMENT, kind, lt.ORDER_ROW) for kind in (E4M3, BFLOAT16))
    try:
        lt._call("cusparseLtStructuredDescriptorInit", handle, of_a, m, k, k, *of_operand, lt.HALF_IS_ZERO)
        lt._call("cusparseLtDenseDescriptorInit", handle, of_b, n, k, b.ld, *of_operand)
        lt._call("cusparseLtDenseDescriptorInit", handle, of_c, m, n, c.ld, *of_result)
        lt._call(
            "cusparseLtMatmulDescriptorInit", handle, product, lt.NON_TRANSPOSE, TRANSPOSE,
            of_a, of_b, of_c, of_c, lt.COMPUTE_32F,
        )  # fmt: skip
        lt._call("cusparseLtMatmulAlgSelectionInit", handle, selection, product, lt.DEFAULT_ALGORITHM)
        lt._call("cusparseLtMatmulPlanInit", handle, plan, product, selection)
    except lt.CusparseLtError as error:
        raise Unsupported(f"cuSPARSELt refuses {m}×{k} times {k}×{n} in {head.dtype['a']}: {error}") from error
    unpacked = a.unpacked()
    device = cupy.cuda.Device()
    device.synchronize()
    start = time.perf_counter()
    size, buffer_size = ctypes.c_size_t(), ctypes.c_size_t()
    lt._call("cusparseLtSpMMACompressedSize", handle, plan, ctypes.byref(size), ctypes.byref(buffer_size))
    compressed, buffer = (cupy.empty(max(bytes_.value, 16), dtype="uint8") for bytes_ in (size, buffer_size))
    pointers = (unpacked.data.ptr, compressed.data.ptr, buffer.data.ptr)
    lt._call("cusparseLtSpMMACompress", handle, plan, *pointers, stream.ptr)
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def call(name: str, workspace: int | None, stream: Any) -> None:
        in_a, in_b, in_c = compressed.data.ptr, b.storage.data.ptr, c.storage.data.ptr
        streams = (ctypes.c_void_p * 1)(stream.ptr)
        scalars = (ctypes.byref(alpha), ctypes.byref(beta))
        lt._call(name, handle, plan, scalars[0], in_a, in_b, scalars[1], in_c, in_c, workspace, streams, 1)

    call("cusparseLtMatmulSearch", None, stream)
    lt._call("cusparseLtMatmulGetWorkspace", handle, plan, ctypes.byref(size))
    workspace = cupy.empty(max(size.value, 16), dtype="uint8")
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3
    keeps = (of_a, of_b, of_c, product, selection, plan, compressed, alpha, beta, workspace, b, c)
    return Call(
        lambda stream: call("cusparseLtMatmul", workspace.data.ptr, stream),
        preprocess_ms,
        keeps=keeps,
        format_bytes=int(compressed.nbytes),
    )
