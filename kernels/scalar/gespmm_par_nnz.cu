/*---
name: gespmm_par_nnz
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, parallel reduction balanced by non-zeros; a rival of the cuTeSpMM study
idea: one non-zero per lane, whatever its row; runs of one row are reduced by a segmented scan
after: gespmm_par_row
family: gespmm
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
clear_c: true
features: []
launch:
  grid: ceil_div(nnz, 128), ceil_div(n, 32)
  block: 32, 4
  args: a.indptr, a.indices, a.data, b, c, m, nnz, n, b.ld, c.ld
deviations:
  - "any number of columns; the original is only correct for powers of two"
  - "lanes after the last entry multiply zero by its row of B, so that an infinity there becomes NaN in its row of C"
---*/
#include "schedule/row_of.cuh"
#include "tile/packet.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int PACKETS = 8;

extern "C" __global__ void __launch_bounds__(128) gespmm_par_nnz(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int nnz, int n, int ldb, int ldc) {
    const int lane = threadIdx.x;
    const int first = (blockIdx.x * blockDim.y + threadIdx.y) * 32;
    if (first >= nnz) return;
    // Lanes after the last entry repeat it with value zero.
    const int entry = min(first + lane, nnz - 1);
    const float value = first + lane < nnz ? data[entry] : 0.f;
    const int row = schedule::row_of(indptr, m, entry);
    const float* source = b + static_cast<long long>(indices[entry]) * ldb;
    const int before = __shfl_up_sync(ALL, row, 1);
    const bool leads = lane == 0 || before != row;

    for (int i = 0; i < PACKETS; ++i) {
        const int n0 = (blockIdx.y * PACKETS + i) * 4;
        if (n0 >= n) return;
        float sums[4] = {};
        tile::Packet<float> packet;
        packet.load(source + n0);
        packet.add_to(sums, value);
        // Sum each run of entries of one row into its first lane.
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int other = __shfl_down_sync(ALL, row, distance);
            const bool joins = lane + distance < 32 && other == row;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float more = __shfl_down_sync(ALL, sums[j], distance);
                if (joins) sums[j] += more;
            }
        }
        if (leads) tile::add_atomically(c + static_cast<long long>(row) * ldc + n0, sums);
    }
}
