"""cuBLAS on all of A, zeros included: what sparsity has to beat.

---
name: cublas_gemm
study: cublas
vendor: cublas
unit: cuda
source: "NVIDIA cuBLAS documentation, section cublasGemmEx"
idea: the dense product in single precision, on CUDA cores
format: dense
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
requires: {}
features: []
variants:
  tf32:
    unit: tensor
    idea: the dense product through TF32 tensor cores
    after: cublas_gemm
    dtype: {a: tf32, b: tf32}
  f16:
    unit: tensor
    idea: the dense product of half precision with sums in single
    after: cublas_gemm
    dtype: {a: float16, b: float16, c: float16}
  bf16:
    unit: tensor
    idea: the dense product of bfloat16 with sums in single precision
    after: cublas_gemm
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
deviations: []
---
"""

from ._cublas import prepare_gemm as prepare

__all__ = ["prepare"]
