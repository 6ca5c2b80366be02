/*---
name: xw_tiles
study: attention
source: Lagos 2025, section 4.6 "Kernel 6", figure 4.15; dense times sparse, see tile/product_xw.cuh
idea: a block computes a tile of 8x8 elements, one per thread, so that eight rows of X and eight columns of W are each used eight times
after: xw_columns
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {m: 8, n: 8}
features: []
launch:
  grid: ceil_div(m, tile.m), ceil_div(n, tile.n)
  block: tile.m, tile.n
  args: a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
deviations:
  - "any m, k and n"
---*/
#include "tile/product_xw.cuh"

extern "C" __global__ void __launch_bounds__(TILE_M * TILE_N) xw_tiles(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int m, int n, int ldx, int ldy) {
    const int column = blockIdx.x * TILE_M + threadIdx.x, token = blockIdx.y * TILE_N + threadIdx.y;
    if (column >= m || token >= n) return;
    const float* row = x + static_cast<long long>(token) * ldx;
    y[static_cast<long long>(token) * ldy + column] =
        tile::product<1>(indices, data, indptr[column], indptr[column + 1], row);
}
