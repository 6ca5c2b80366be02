/*---
name: xw_nonzeros
study: attention
source: Lagos 2025, section 4.2 "Kernel 2", listing 4.1, figures 4.5 and 4.6; dense times sparse, see tile/product_xw.cuh
idea: a block computes one element, its threads read neighbouring non-zeros of the column of W and add up their sums
after: xw_row
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
tile: {k: 4096}
features: []
launch:
  grid: m, n
  block: 64
  smem: 4 * min(k, tile.k)
  args: a.indptr, a.indices, a.data, b, c, k, b.ld, c.ld
deviations:
  - "any m and k, and up to 65,535 rows of X; the row of X in chunks of 4,096 values; the original has one chunk of 512"
  - "shuffles name all lanes of the warp, and a block adds one sum per warp; the original names eight lanes and reads past the end of its sums"
---*/
#include "tile/product_xw.cuh"

constexpr int THREADS = 64;

extern "C" __global__ void __launch_bounds__(THREADS) xw_nonzeros(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const float* __restrict__ x, float* __restrict__ y, int k, int ldx, int ldy) {
    extern __shared__ float chunk[];
    const long long token = blockIdx.y;
    const int column = blockIdx.x, thread = threadIdx.x;
    int first = indptr[column];
    const int end = indptr[column + 1];

    float sum = 0.f;
    for (int k0 = 0; k0 < k; k0 += TILE_K) {
        const int width = min(TILE_K, k - k0);
        for (int i = thread; i < width; i += THREADS) chunk[i] = x[token * ldx + k0 + i];
        __syncthreads();
        const int stop = k0 + width < k ? tile::entry_from(indices, first, end, k0 + width) : end;
        sum += tile::product<THREADS>(indices, data, first + thread, stop, chunk, k0);
        first = stop;
        __syncthreads();
    }
    sum = tile::sum_of_block<THREADS>(sum);
    if (thread == 0) y[token * ldy + column] = sum;
}
