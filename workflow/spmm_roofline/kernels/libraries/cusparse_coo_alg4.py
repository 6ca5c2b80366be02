"""cuSPARSE SpMM on COO, algorithm 4, which NVIDIA documents as the one for row-major operands.

---
name: cusparse_coo_alg4
study: cusparse
vendor: cusparse
unit: cuda
baseline: cusparse_best
source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_COO_ALG4"
idea: coordinates instead of row pointers, COO algorithm 4, which NVIDIA documents as the one for row-major operands
format: coo
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
requires: {}
features: []
variants:
  f16:
    idea: values in half precision, sums in single precision except the partial sums of long rows
    after: cusparse_coo_alg4
    dtype: {a: float16, b: float16, partials: float16, c: float16}
  bf16:
    idea: values in bfloat16, sums in single precision except the partial sums of long rows
    after: cusparse_coo_alg4
    dtype: {a: bfloat16, b: bfloat16, partials: bfloat16, c: bfloat16}
deviations: []
---
"""

from functools import partial

from ._cusparse import prepare_with

#: CUSPARSE_SPMM_COO_ALG4
prepare = partial(prepare_with, algorithm=5)
