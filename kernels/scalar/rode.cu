/*---
name: rode
study: scalar
source: Pang et al. 2024 (RoDe, PPoPP), section 4; a rival of the cuTeSpMM study
idea: long rows are split into segments of equal length that run first, next to their residues and the short rows
after: sputnik
format: csr_segmented
format_options: {segment: 512}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
features: []
launches:
  - entry: clear
    grid: a.split_rows_count
    block: 128
    args: a.split_rows, c, n, c.ld
  - entry: rode
    grid: ceil_div(a.segments, 128 // min(32, power_of_two(ceil_div(n, 4)))), ceil_div(n, 128)
    block: min(32, power_of_two(ceil_div(n, 4))), 128 // min(32, power_of_two(ceil_div(n, 4)))
    args: a.segment_row, a.segment_start, a.segment_end, a.indices, a.data, b, c, a.segments, n, b.ld, c.ld
deviations:
  - "segments and residues share one launch; the original runs them on two streams"
  - "rows of one segment are stored; the original adds every segment to a C that has to be cleared"
  - "any number of columns; the original needs multiples of 32"
---*/
#include "tile/packet.cuh"

extern "C" __global__ void __launch_bounds__(128) clear(
    const int* __restrict__ rows, float* __restrict__ c, int n, int ldc) {
    for (int column = threadIdx.x; column < n; column += 128) c[static_cast<long long>(rows[blockIdx.x]) * ldc + column] = 0.f;
}

extern "C" __global__ void __launch_bounds__(128) rode(
    const int* __restrict__ segment_row, const int* __restrict__ segment_start, const int* __restrict__ segment_end,
    const int* __restrict__ indices, const float* __restrict__ data, const float* __restrict__ b, float* __restrict__ c,
    int segments, int n, int ldb, int ldc) {
    const int segment = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    if (segment >= segments || n0 >= n) return;
    const int row = segment_row[segment];
    float sums[4] = {};
    tile::gather(sums, indices, data, segment_start[segment], segment_end[segment], b + n0, ldb);
    float* target = c + static_cast<long long>(row < 0 ? ~row : row) * ldc + n0;
    if (row < 0) {
        tile::add_atomically(target, sums);
    } else {
        tile::Packet<float>::store(target, sums);
    }
}
