/*---
name: gespmm_par_row
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, parallel reduction balanced by rows; a rival of the cuTeSpMM study
idea: the lanes of a warp share the non-zeros of a row and reduce their sums, for narrow B
after: gespmm_seq_row
family: gespmm
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
features: []
launch:
  grid: ceil_div(m, 4), ceil_div(n, 4)
  block: 32, 4
  args: a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
deviations:
  - "any number of columns; a warp owns four of them, in 16-byte loads"
---*/
#include "tile/packet.cuh"

extern "C" __global__ void __launch_bounds__(128) gespmm_par_row(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int n, int ldb, int ldc) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = blockIdx.y * 4;
    if (row >= m) return;
    const int end = indptr[row + 1];
    float sums[4] = {};
    for (int p = indptr[row] + threadIdx.x; p < end; p += 32) {
        tile::Packet<float> packet;
        packet.load(b + static_cast<long long>(indices[p]) * ldb + n0);
        packet.add_to(sums, data[p]);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], distance);
    }
    if (threadIdx.x == 0) tile::Packet<float>::store(c + static_cast<long long>(row) * ldc + n0, sums);
}
