/*---
name: gespmm_cached_nnz
study: scalar
source: Huang et al. 2020 (GE-SpMM) and its library dgSPARSE, row caching balanced by non-zeros; a rival of the cuTeSpMM study
idea: partitions of 32 staged non-zeros instead of rows; rows that are split between partitions are added up atomically
after: gespmm_cached_row
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
  grid: ceil_div(nnz, 128), ceil_div(n, 32 * (1 if n <= 32 else 2 if n <= 64 else 4))
  block: 32, 4
  args: a.indptr, a.indices, a.data, b, c, m, nnz, n, b.ld, c.ld
deviations:
  - "a row that lies within one partition is stored, not added"
---*/
#include "schedule/row_of.cuh"
#include "tile/columns.cuh"

template <int WIDTH>
__device__ __forceinline__ void multiply_partition(
    tile::Entry (&staged)[tile::STAGED], const int* __restrict__ indptr, const int* __restrict__ indices,
    const float* __restrict__ data, const float* __restrict__ b, float* __restrict__ c, int begin, int m, int nnz, int n,
    int ldb, int ldc) {
    const int lane = threadIdx.x, n0 = (blockIdx.y * 32 + lane) * WIDTH;
    const int end = min(begin + tile::STAGED, nnz);
    tile::stage(staged, indices, data, begin, end, ldb, lane);
    if (n0 >= n) return;
    int row = schedule::row_of(indptr, m, begin);
    for (int p = begin; p < end; ++row) {
        const int row_end = indptr[row + 1], stop = min(row_end, end);
        const bool whole = p == indptr[row] && stop == row_end;
        if (p == stop) continue;
        tile::Columns<WIDTH> columns;
#pragma unroll 4
        for (; p < stop; ++p) columns.add(staged[p - begin].value, b + staged[p - begin].offset + n0);
        float* target = c + static_cast<long long>(row) * ldc + n0;
        if (whole) {
            columns.store(target);
        } else {
            columns.add_atomically(target);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) gespmm_cached_nnz(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ b, float* __restrict__ c, int m, int nnz, int n, int ldb, int ldc) {
    __shared__ tile::Entry staged[4][tile::STAGED];
    const int begin = (blockIdx.x * 4 + threadIdx.y) * tile::STAGED;
    if (begin >= nnz) return;
    if (n <= 32) {
        multiply_partition<1>(staged[threadIdx.y], indptr, indices, data, b, c, begin, m, nnz, n, ldb, ldc);
    } else if (n <= 64) {
        multiply_partition<2>(staged[threadIdx.y], indptr, indices, data, b, c, begin, m, nnz, n, ldb, ldc);
    } else {
        multiply_partition<4>(staged[threadIdx.y], indptr, indices, data, b, c, begin, m, nnz, n, ldb, ldc);
    }
}
