"""cuSPARSE SpMM on CSR, with each of its algorithms.

---
name: cusparse_csr
study: cusparse
vendor: cusparse
unit: cuda
baseline: cusparse_best
source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_ALG_DEFAULT"
idea: the algorithm that the library chooses by itself
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
requires: {}
features: []
constants: {algorithm: 0}
variants:
  f16:
    idea: values in half precision, sums in single precision except the partial sums of long rows
    after: cusparse_csr
    dtype: {a: float16, b: float16, partials: float16, c: float16}
  bf16:
    idea: values in bfloat16, sums in single precision except the partial sums of long rows
    after: cusparse_csr
    dtype: {a: bfloat16, b: bfloat16, partials: bfloat16, c: bfloat16}
  alg1:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
    idea: CSR algorithm 1
    constants: {algorithm: 4}
  alg1_f16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
    idea: values in half precision, sums in single precision except the partial sums of long rows
    after: cusparse_csr_alg1
    dtype: {a: float16, b: float16, partials: float16, c: float16}
    constants: {algorithm: 4}
  alg1_bf16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
    idea: values in bfloat16, sums in single precision except the partial sums of long rows
    after: cusparse_csr_alg1
    dtype: {a: bfloat16, b: bfloat16, partials: bfloat16, c: bfloat16}
    constants: {algorithm: 4}
  alg2:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG2"
    idea: CSR algorithm 2, which NVIDIA documents as the one for row-major operands
    constants: {algorithm: 6}
  alg2_f16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG2"
    idea: values in half precision, sums in single precision except the partial sums of long rows
    after: cusparse_csr_alg2
    dtype: {a: float16, b: float16, partials: float16, c: float16}
    constants: {algorithm: 6}
  alg2_bf16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG2"
    idea: values in bfloat16, sums in single precision except the partial sums of long rows
    after: cusparse_csr_alg2
    dtype: {a: bfloat16, b: bfloat16, partials: bfloat16, c: bfloat16}
    constants: {algorithm: 6}
  alg3:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG3"
    idea: CSR algorithm 3, the deterministic one
    constants: {algorithm: 12}
  alg3_f16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG3"
    idea: values in half precision, sums in single precision
    after: cusparse_csr_alg3
    dtype: {a: float16, b: float16, c: float16}
    constants: {algorithm: 12}
  alg3_bf16:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG3"
    idea: values in bfloat16, sums in single precision
    after: cusparse_csr_alg3
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {algorithm: 12}
deviations: []
---
"""

from __future__ import annotations

from ...formats.csr import Csr
from ..head import Head
from ..launch import Call
from ..operands import Dense
from ._cusparse import prepare_with


def prepare(head: Head, a: Csr, b: Dense, c: Dense) -> Call:
    """C = A·B by the algorithm of the head; see :func:`._cusparse.prepare_with`."""
    return prepare_with(head, a, b, c, head.constants["algorithm"])
