/*---
name: tcgnn
study: tcgnn
source: Wang et al. 2023 (TC-GNN), section 4; a rival of the cuTeSpMM study
idea: "windows of 16 rows whose condensed columns make 16x8 tiles; for every tile the CTA searches all entries of its window"
format: csr_condensed
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 2}
min_arch: sm_80
requires: {}
tile: {m: 16, k: 8, n: 16}
features: [cvt, mma_tf32]
launch:
  grid: a.windows, ceil_div(n, 32 * tile.n)
  block: 32, min(32, ceil_div(n, tile.n))
  smem: 4 * tile.k * tile.n * min(32, ceil_div(n, tile.n))
  args: a.indptr, a.indices, a.data, a.condensed, a.row, a.window_tiles, b, c, m, n, b.ld, c.ld
deviations:
  - "values of A are multiplied; the original stores ones instead"
  - "any number of rows and columns; the original takes widths that are a multiple of 16, up to 512"
  - "mma.sync m16n8k8 twice where the original calls WMMA's m16n16k8, which is compiled to the same two instructions"
---*/
#include "ptx/cvt.cuh"
#include "ptx/mma_tf32.cuh"

static_assert(TILE_M == 16 && TILE_K == 8 && TILE_N == 16, "a warp multiplies a tile by two mma of 8 columns each");

extern "C" __global__ void __launch_bounds__(1024) tcgnn(
    const int* __restrict__ indptr, const int* __restrict__ indices, const float* __restrict__ data,
    const int* __restrict__ condensed, const int* __restrict__ rows, const int* __restrict__ window_tiles,
    const float* __restrict__ b, float* __restrict__ c, int m, int n, int ldb, int ldc) {
    __shared__ float tile_of_a[TILE_M * TILE_K];
    __shared__ int column_of[TILE_K];
    extern __shared__ float tiles_of_b[];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int thread = warp * 32 + lane, threads = blockDim.y * 32;
    const int g = lane / 4, t = lane % 4;
    const int m0 = blockIdx.x * TILE_M, n0 = (blockIdx.y * 32 + warp) * TILE_N;
    const int first = indptr[m0], end = indptr[min(m0 + TILE_M, m)];
    float* tile_of_b = tiles_of_b + warp * TILE_K * TILE_N;  // column-major

    float sums[2][4] = {};
    for (int tile = 0; tile < window_tiles[blockIdx.x]; ++tile) {
        for (int i = thread; i < TILE_M * TILE_K; i += threads) tile_of_a[i] = 0.f;
        if (thread < TILE_K) column_of[thread] = -1;
        __syncthreads();
        for (int entry = first + thread; entry < end; entry += threads) {
            const int slot = condensed[entry] - tile * TILE_K;
            if (slot < 0 || slot >= TILE_K) continue;
            tile_of_a[(rows[entry] - m0) * TILE_K + slot] = data[entry];
            column_of[slot] = indices[entry];
        }
        __syncthreads();
        for (int i = lane; i < TILE_K * TILE_N; i += 32) {
            const int column = column_of[i % TILE_K], at = n0 + i / TILE_K;
            tile_of_b[i] = column >= 0 && at < n ? b[static_cast<long long>(column) * ldb + at] : 0.f;
        }
        __syncwarp();
        unsigned fragment_a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            fragment_a[i] = __float_as_uint(tile_of_a[(g + i % 2 * 8) * TILE_K + t + i / 2 * 4]);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            unsigned fragment_b[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                fragment_b[i] = ptx::cvt_rna_tf32(tile_of_b[(j * 8 + g) * TILE_K + t + i * 4]);
            }
            ptx::mma_m16n8k8_f32_tf32(sums[j], fragment_a, fragment_b);
        }
        __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int column = n0 + j * 8 + 2 * t;
        if (column >= ldc) continue;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = m0 + g + 8 * i;
            if (row >= m) continue;
            *reinterpret_cast<float2*>(c + static_cast<long long>(row) * ldc + column) =
                make_float2(sums[j][2 * i], sums[j][2 * i + 1]);
        }
    }
}
