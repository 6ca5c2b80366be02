/*---
name: rode
study: scalar
source: Pang et al. 2024 (RoDe, PPoPP), section 4; a rival of the cuTeSpMM study
idea: long rows are split into segments of equal length that run first, next to their residues and the short rows
after: sputnik
format: csr_segmented
format_options: {segment: 256}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {fours: 2, lanes: 32, threads: 128, ctas: 8}
features: [cp_async, cp_async_ca, mov]
launches:
  - entry: clear
    grid: a.split_rows_count
    block: 128
    args: a.split_rows, c, n, c.ld
  - entry: rode
    grid: ceil_div(a.segments, tile.threads // max(4, min(tile.lanes, power_of_two(ceil_div(n, 4))))), ceil_div(n, 4 * tile.lanes)
    block: max(4, min(tile.lanes, power_of_two(ceil_div(n, 4)))), tile.threads // max(4, min(tile.lanes, power_of_two(ceil_div(n, 4))))
    args: a.segment_row, a.segment_start, a.segment_end, a.indices, a.data, b, c, a.segments, n, b.ld, c.ld
deviations:
  - "segments and residues share one launch; the original runs them on two streams"
  - "rows of one segment are stored; the original adds every segment to a C that has to be cleared"
  - "segments of 256 entries; the original has 512, and waits longer for its longest ones"
  - "any number of columns; the original needs multiples of 32"
---*/
#include "tile/rolling_row.cuh"

extern "C" __global__ void __launch_bounds__(128) clear(
    const int* __restrict__ rows, float* __restrict__ c, int n, int ldc) {
    for (int column = threadIdx.x; column < n; column += 128) c[static_cast<long long>(rows[blockIdx.x]) * ldc + column] = 0.f;
}

extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) rode(
    const int* __restrict__ segment_row, const int* __restrict__ segment_start, const int* __restrict__ segment_end,
    const int* __restrict__ indices, const float* __restrict__ data, const float* __restrict__ b, float* __restrict__ c,
    int segments, int n, int ldb, int ldc) {
    __shared__ tile::RollingFours<TILE_THREADS> staged;
    const int segment = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    const bool exists = segment < segments;
    const int start = exists ? segment_start[segment] : 0, end = exists ? segment_end[segment] : 0;
    float sums[4] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const float* own = b + (n0 < n ? n0 : 0);
    tile::add_rolling<tile::Packet<float>, TILE_FOURS>(
        sums, staged, indices, data, start, end, own, ldb * static_cast<int>(sizeof(float)));
    if (!exists || n0 >= n) return;
    const int row = segment_row[segment];
    float* target = c + static_cast<long long>(row < 0 ? ~row : row) * ldc + n0;
    if (row < 0) {
        tile::add_atomically(target, sums);
    } else {
        tile::Packet<float>::store(target, sums);
    }
}
