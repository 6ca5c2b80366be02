"""cuSPARSE SpMM on CSR in double precision, with each of its algorithms.

---
name: cusparse_spmm_f64
study: cusparse
vendor: cusparse
unit: cuda
baseline: cusparse_best
source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_ALG_DEFAULT"
idea: the algorithm that the library chooses by itself, in double precision
format: csr
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
requires: {}
features: []
constants: {algorithm: 0}
variants:
  alg1:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
    idea: CSR algorithm 1, in double precision
    constants: {algorithm: 4}
  alg2:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG2"
    idea: CSR algorithm 2, in double precision
    constants: {algorithm: 6}
  alg3:
    source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG3"
    idea: CSR algorithm 3, in double precision
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
