/*---
name: rode
study: scalar
source: Pang et al. 2024 (RoDe, PPoPP), section 4; a rival of the cuTeSpMM study
idea: long rows are cut into segments of one length that run first, beside what is left of them and the short rows
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
    grid: ceil_div(a.pieces, 128 // min(32, power_of_two(ceil_div(n, 4)))), ceil_div(n, 128)
    block: min(32, power_of_two(ceil_div(n, 4))), 128 // min(32, power_of_two(ceil_div(n, 4)))
    args: a.piece_row, a.piece_start, a.piece_end, a.indices, a.data, b, c, a.pieces, n, b.ld, c.ld
deviations:
  - "segments and residues share one launch; the original runs them on two streams"
  - "rows of one piece are stored; the original adds every part to a C that has to be cleared"
  - "any number of columns; the original wants multiples of 32"
---*/
#include "tile/packet.cuh"

extern "C" __global__ void __launch_bounds__(128) clear(
    const int* __restrict__ rows, float* __restrict__ c, int n, int ldc) {
    for (int column = threadIdx.x; column < n; column += 128) c[static_cast<long long>(rows[blockIdx.x]) * ldc + column] = 0.f;
}

extern "C" __global__ void __launch_bounds__(128) rode(
    const int* __restrict__ piece_row, const int* __restrict__ piece_start, const int* __restrict__ piece_end,
    const int* __restrict__ indices, const float* __restrict__ data, const float* __restrict__ b, float* __restrict__ c,
    int pieces, int n, int ldb, int ldc) {
    const int piece = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    if (piece >= pieces || n0 >= n) return;
    const int row = piece_row[piece];
    float sums[4] = {};
    tile::gather(sums, indices, data, piece_start[piece], piece_end[piece], b + n0, ldb);
    float* target = c + static_cast<long long>(row < 0 ? ~row : row) * ldc + n0;
    if (row < 0) {
        tile::add_atomically(target, sums);
    } else {
        tile::Packet<float>::store(target, sums);
    }
}
