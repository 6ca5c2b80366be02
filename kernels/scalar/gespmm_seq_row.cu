/*---
name: gespmm_seq_row
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, sequential reduction balanced by rows; a rival of the cuTeSpMM study
idea: a thread sums four columns of a row of C, one non-zero after the other
family: gespmm
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
features: []
launch:
  grid: ceil_div(m, 128 // min(32, power_of_two(ceil_div(n, 4)))), ceil_div(n, 128)
  block: min(32, power_of_two(ceil_div(n, 4))), 128 // min(32, power_of_two(ceil_div(n, 4)))
  args: a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
deviations:
  - "any number of columns; a thread owns four of them, in 16-byte loads"
---*/
#include "tile/packet.cuh"

extern "C" __global__ void __launch_bounds__(128) gespmm_seq_row(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int n, int ldb, int ldc) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    if (row >= m || n0 >= n) return;
    const int end = indptr[row + 1];
    float sums[4] = {};
#pragma unroll 4
    for (int p = indptr[row]; p < end; ++p) {
        tile::Packet<float> packet;
        packet.load(b + static_cast<long long>(indices[p]) * ldb + n0);
        packet.add_to(sums, data[p]);
    }
    tile::Packet<float>::store(c + static_cast<long long>(row) * ldc + n0, sums);
}
