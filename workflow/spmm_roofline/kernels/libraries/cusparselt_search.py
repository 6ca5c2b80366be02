"""cuSPARSELt on a whole matrix in 2:4, with the algorithm that its search finds fastest.

---
name: cusparselt_search
study: cusparselt
vendor: cusparselt
unit: tensor_sparse24
source: "NVIDIA cuSPARSELt documentation, sections cusparseLtMatmul and cusparseLtMatmulSearch"
idea: the library's own 2:4 product of bfloat16 with sums in single precision, its algorithm searched for each case
format: sparse24
dtype: {a: bfloat16, b: bfloat16, accumulator: float32, c: bfloat16}
layout: {b: row_major, c: row_major}
pads: {m: 16, k: 64, n: 16}
requires: {}
features: []
variants:
  f16:
    idea: the same in half precision
    after: cusparselt_search
    dtype: {a: float16, b: float16, c: float16}
deviations: []
---
"""

from ._cusparselt import prepare_searched as prepare

__all__ = ["prepare"]
