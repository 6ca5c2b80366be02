/*---
name: gespmm_cached_row
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, coalesced row caching, section 4; a rival of the cuTeSpMM study
idea: a warp stages 32 non-zeros of its row in shared memory, so that they are loaded once and coalesced
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
  grid: ceil_div(m, 4), ceil_div(n, 32 * (1 if n <= 32 else 2 if n <= 64 else 4))
  block: 32, 4
  args: a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
deviations:
  - "any number of columns; a lane owns one, two or, beyond 64 columns, four of them, where the original stops at two"
---*/
#include "tile/columns.cuh"

template <int WIDTH>
__device__ __forceinline__ void row_of_c(
    tile::Entry (&staged)[tile::STAGED], const int* __restrict__ indptr, const int* __restrict__ indices,
    const float* __restrict__ data, const float* __restrict__ b, float* __restrict__ c, int row, int n, int ldb, int ldc) {
    const int lane = threadIdx.x, n0 = (blockIdx.y * 32 + lane) * WIDTH;
    const int begin = indptr[row], end = indptr[row + 1];
    tile::Columns<WIDTH> columns;
    for (int first = begin; first < end; first += tile::STAGED) {
        tile::stage(staged, indices, data, first, end, ldb, lane);
        if (n0 >= n) continue;
        const int count = min(tile::STAGED, end - first);
#pragma unroll 4
        for (int i = 0; i < count; ++i) columns.add(staged[i].value, b + staged[i].offset + n0);
    }
    if (n0 < n) columns.store(c + static_cast<long long>(row) * ldc + n0);
}

extern "C" __global__ void __launch_bounds__(128) gespmm_cached_row(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int n, int ldb, int ldc) {
    __shared__ tile::Entry staged[4][tile::STAGED];
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= m) return;
    if (n <= 32) {
        row_of_c<1>(staged[threadIdx.y], indptr, indices, data, b, c, row, n, ldb, ldc);
    } else if (n <= 64) {
        row_of_c<2>(staged[threadIdx.y], indptr, indices, data, b, c, row, n, ldb, ldc);
    } else {
        row_of_c<4>(staged[threadIdx.y], indptr, indices, data, b, c, row, n, ldb, ldc);
    }
}
