/*---
name: xw_unstaged
study: attention
source: Lagos 2025, section 4.3 "Kernel 3"; dense times sparse, see tile/product_xw.cuh
idea: read X directly where the non-zeros need it, and leave shared memory to the L1 cache, except for the sums of the warps
after: xw_nonzeros
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
features: []
launch:
  grid: m, n
  block: 64
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
deviations:
  - "any m and k, and up to 65,535 rows of X"
  - "shuffles name all lanes of the warp; see xw_nonzeros"
---*/
#include "tile/product_xw.cuh"

constexpr int THREADS = 64;

extern "C" __global__ void __launch_bounds__(THREADS) xw_unstaged(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int ldx, int ldy) {
    const long long token = blockIdx.y;
    const int column = blockIdx.x, thread = threadIdx.x;
    float sum = tile::product<THREADS>(indices, data, indptr[column] + thread, indptr[column + 1], x + token * ldx);
    sum = tile::sum_of_block<THREADS>(sum);
    if (thread == 0) y[token * ldy + column] = sum;
}
