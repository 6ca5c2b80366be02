"""cuSPARSE SpMM on CSR, CSR algorithm 1.

---
name: cusparse_csr_alg1
study: cusparse
vendor: cusparse
unit: cuda
baseline: cusparse_best
source: "NVIDIA cuSPARSE documentation, section cusparseSpMM: CUSPARSE_SPMM_CSR_ALG1"
idea: CSR algorithm 1
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
requires: {}
features: []
variants:
  f16:
    idea: values in half precision, sums in single but for the parts of long rows
    after: cusparse_csr_alg1
    dtype: {a: float16, b: float16, partials: float16, c: float16}
  bf16:
    idea: values in bfloat16, sums in single but for the parts of long rows
    after: cusparse_csr_alg1
    dtype: {a: bfloat16, b: bfloat16, partials: bfloat16, c: bfloat16}
deviations: []
---
"""

from functools import partial

from ._cusparse import prepare_with

#: CUSPARSE_SPMM_CSR_ALG1
prepare = partial(prepare_with, algorithm=4)
