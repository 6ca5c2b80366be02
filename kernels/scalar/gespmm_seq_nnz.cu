/*---
name: gespmm_seq_nnz
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, sequential reduction balanced by non-zeros; a rival of the cuTeSpMM study
idea: partitions of equally many non-zeros instead of rows; rows that are split between partitions are added up atomically
after: gespmm_seq_row
family: gespmm
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
clear_c: true
tile: {entries: 32}
features: []
launch:
  grid: ceil_div(nnz, tile.entries * (128 // min(32, power_of_two(ceil_div(n, 4))))), ceil_div(n, 128)
  block: min(32, power_of_two(ceil_div(n, 4))), 128 // min(32, power_of_two(ceil_div(n, 4)))
  args: a.indptr, a.indices, a.data, b, c, m, nnz, n, b.ld, c.ld
deviations:
  - "a row that lies within one partition is stored, not added"
---*/
#include "schedule/row_of.cuh"
#include "tile/packet.cuh"

// Entries that one lane group sums; a row that reaches beyond them is added to C atomically.
constexpr int PARTITION = TILE_ENTRIES;

extern "C" __global__ void __launch_bounds__(128) gespmm_seq_nnz(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int nnz, int n, int ldb, int ldc) {
    const int begin = (blockIdx.x * blockDim.y + threadIdx.y) * PARTITION;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    if (begin >= nnz || n0 >= n) return;
    const int end = min(begin + PARTITION, nnz);
    int row = schedule::row_of(indptr, m, begin);
    for (int p = begin; p < end; ++row) {
        const int row_end = indptr[row + 1], stop = min(row_end, end);
        const bool whole = p == indptr[row] && stop == row_end;
        if (p == stop) continue;
        float sums[4] = {};
#pragma unroll 4
        for (; p < stop; ++p) {
            tile::Packet<float> packet;
            packet.load(b + static_cast<long long>(indices[p]) * ldb + n0);
            packet.add_to(sums, data[p]);
        }
        float* target = c + static_cast<long long>(row) * ldc + n0;
        if (whole) {
            tile::Packet<float>::store(target, sums);
        } else {
            tile::add_atomically(target, sums);
        }
    }
}
