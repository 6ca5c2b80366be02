/*---
name: xw_tiles_swizzled
study: attention
source: Lagos 2025, chapter 6, item 3 "Row Swizzle Load Balancing"; Gale et al. 2020, section 5.3; beyond the thesis, which names it as future work
idea: beyond the thesis - columns of W by descending length, so that the threads of a warp end together and the longest columns begin first
after: xw_tiles
format: csr_swizzled
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {m: 8, n: 8}
features: []
launch:
  grid: ceil_div(m, tile.m), ceil_div(n, tile.n)
  block: tile.m, tile.n
  args: a.order, a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
deviations:
  - "there is no original"
---*/
#include "tile/product_xw.cuh"

extern "C" __global__ void __launch_bounds__(TILE_M * TILE_N) xw_tiles_swizzled(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const float* __restrict__ data, const float* __restrict__ x, float* __restrict__ y, int m, int n, int ldx, int ldy) {
    const int i = blockIdx.x * TILE_M + threadIdx.x, token = blockIdx.y * TILE_N + threadIdx.y;
    if (i >= m || token >= n) return;
    const int column = order[i];
    const float* row = x + static_cast<long long>(token) * ldx;
    y[static_cast<long long>(token) * ldy + column] =
        tile::product<1>(indices, data, indptr[column], indptr[column + 1], row);
}
