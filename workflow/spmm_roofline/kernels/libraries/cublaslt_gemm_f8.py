"""cuBLASLt on all of A in FP8, zeros included: what 2:4 sparsity in FP8 has to beat.

---
name: cublaslt_gemm_f8
study: cublas
vendor: cublaslt
unit: tensor
source: "NVIDIA cuBLAS documentation, sections cublasLtMatmul and cublasLtMatmulAlgoGetHeuristic"
idea: the dense product of FP8 (e4m3), its sums promoted to single precision, by the fastest algorithm proposed
format: dense
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: bfloat16}
layout: {b: column_major, c: row_major}
pads: {k: 16, n: 16}
requires: {m: 16, k: 16}
features: []
deviations: []
---
"""

from __future__ import annotations

from ...formats.dense import DenseMatrix
from ..head import Head
from ..launch import Call
from ..operands import Dense
from ._cublaslt import prepare_columns

__all__ = ["prepare"]


def prepare(head: Head, a: DenseMatrix, b: Dense, c: Dense) -> Call:
    """See :func:`._cublaslt.prepare_columns`."""
    return prepare_columns(head, a, b, c, fast=False)
