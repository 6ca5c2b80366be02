/*---
name: xw_row
study: attention
source: Lagos 2025, section 4.1 "Kernel 1", figure 4.1; dense times sparse, see tile/product_xw.cuh
idea: a block computes a row of X·W and a thread one of its elements, from a row of X in shared memory
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {m: 512, k: 4096}
features: []
launch:
  grid: n, ceil_div(m, tile.m)
  block: min(tile.m, 32 * ceil_div(m, 32))
  smem: 4 * min(k, tile.k)
  args: a.indptr, a.indices, a.data, b, c, m, k, b.ld, c.ld
deviations:
  - "any m, k and n: one block per 512 columns of W, and the row of X in chunks of 4,096 values; the original has 512 of both, one block and one chunk"
---*/
#include "tile/product_xw.cuh"

extern "C" __global__ void __launch_bounds__(TILE_M) xw_row(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int m, int k, int ldx, int ldy) {
    extern __shared__ float chunk[];
    const long long token = blockIdx.x;
    const int column = blockIdx.y * TILE_M + threadIdx.x;
    int first = 0, end = 0;
    if (column < m) first = indptr[column], end = indptr[column + 1];

    float sum = 0.f;
    for (int k0 = 0; k0 < k; k0 += TILE_K) {
        const int width = min(TILE_K, k - k0);
        for (int i = threadIdx.x; i < width; i += blockDim.x) chunk[i] = x[token * ldx + k0 + i];
        __syncthreads();
        const int stop = k0 + width < k ? tile::entry_from(indices, first, end, k0 + width) : end;
        sum += tile::product<1>(indices, data, first, stop, chunk, k0);
        first = stop;
        __syncthreads();
    }
    if (column < m) y[token * ldy + column] = sum;
}
