/*---
name: xw_columns
study: attention
source: Lagos 2025, section 4.5 "Kernel 5", figure 4.13; dense times sparse, see tile/product_xw.cuh
idea: a warp computes sixteen elements of a row, one column of W after the other, so that its row of X stays in L1
after: xw_unstaged
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {m: 16}
features: []
launch:
  grid: ceil_div(m, tile.m), n
  block: 32
  args: a.indptr, a.indices, a.data, b, c, m, b.ld, c.ld
deviations:
  - "any m and k, and up to 65,535 rows of X"
  - "each lane keeps the sum of one column and all are stored at once"
  - "shuffles name all lanes of the warp; see xw_nonzeros"
---*/
#include "tile/product_xw.cuh"

static_assert(TILE_M <= 32, "a lane keeps the sum of one column");

extern "C" __global__ void __launch_bounds__(32) xw_columns(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int m, int ldx, int ldy) {
    const long long token = blockIdx.y;
    const int m0 = blockIdx.x * TILE_M, lane = threadIdx.x;
    const int columns = min(TILE_M, m - m0);

    float own = 0.f;
    for (int j = 0; j < columns; ++j) {
        const float sum = tile::sum_of_warp(
            tile::product<32>(indices, data, indptr[m0 + j] + lane, indptr[m0 + j + 1], x + token * ldx));
        if (lane == j) own = sum;
    }
    if (lane < columns) y[token * ldy + m0 + lane] = own;
}
