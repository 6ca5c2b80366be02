/*---
name: xw_tiles_split
study: attention
source: Lagos 2025, chapter 6, item 1 "Solve Work Imbalance with a Partition Step"; beyond the thesis, which names it as future work
idea: beyond the thesis - columns of W of more than 128 non-zeros are split into segments of that length, whose sums are added atomically
after: xw_tiles
format: csr_segmented
format_options: {segment: 128}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {m: 8, n: 8}
features: []
launches:
  - entry: clear
    grid: ceil_div(a.split_rows_count, 32), ceil_div(n, 8)
    block: 32, 8
    args: a.split_rows, c, a.split_rows_count, n, c.ld
  - entry: xw_tiles_split
    grid: ceil_div(a.segments, tile.m), ceil_div(n, tile.n)
    block: tile.m, tile.n
    args: a.segment_row, a.segment_start, a.segment_end, a.indices, a.data, b, c, a.segments, n, b.ld, c.ld
deviations:
  - "there is no original"
---*/
#include "tile/product_xw.cuh"

extern "C" __global__ void __launch_bounds__(256) clear(
    const int* __restrict__ columns, float* __restrict__ y, int count, int n, int ldy) {
    const int i = blockIdx.x * 32 + threadIdx.x, token = blockIdx.y * 8 + threadIdx.y;
    if (i < count && token < n) y[static_cast<long long>(token) * ldy + columns[i]] = 0.f;
}

extern "C" __global__ void __launch_bounds__(TILE_M * TILE_N) xw_tiles_split(
    const int* __restrict__ segment_column, const int* __restrict__ segment_start, const int* __restrict__ segment_end,
    const int* __restrict__ indices, const float* __restrict__ data, const float* __restrict__ x, float* __restrict__ y,
    int segments, int n, int ldx, int ldy) {
    const int segment = blockIdx.x * TILE_M + threadIdx.x, token = blockIdx.y * TILE_N + threadIdx.y;
    if (segment >= segments || token >= n) return;
    const int coded = segment_column[segment];
    const float sum =
        tile::product<1>(indices, data, segment_start[segment], segment_end[segment], x + static_cast<long long>(token) * ldx);
    float* target = y + static_cast<long long>(token) * ldy + (coded < 0 ? ~coded : coded);
    if (coded < 0) {
        atomicAdd(target, sum);
    } else {
        *target = sum;
    }
}
