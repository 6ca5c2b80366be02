/*---
name: wgmma_f16
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: a chain of m64n128k16 per warpgroup, operands in shared memory, half precision with sums in single precision
after: mma_f16
format: none
dtype: {a: float16, b: float16, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_90a
requires: {}
tile: {m: 64, n: 128, k: 16, turns: 16, rounds: 512, warps: 4, ctas: 4}
features: [wgmma]
launch:
  grid: tile.ctas * device.multiprocessors
  block: 32 * tile.warps
  args: b, c, n
work: {flops: 2 * tile.m * tile.n * tile.k * tile.turns * tile.rounds * tile.ctas * device.multiprocessors}
constants: {operands: 0}
variants:
  bf16:
    idea: the same chain in bfloat16
    after: wgmma_f16
    dtype: {a: bfloat16, b: bfloat16}
    constants: {operands: 1}
  tf32:
    idea: a chain of m64n128k8 per warpgroup, TF32 with sums in single precision
    after: wgmma_f16
    dtype: {a: tf32, b: tf32}
    tile: {k: 8}
    constants: {operands: 2}
deviations: []
---*/
#include "ptx/wgmma.cuh"
#include "tile/ceiling.cuh"

__device__ __forceinline__ void multiply(float (&sums)[TILE_N / 2], unsigned long long of_a, unsigned long long of_b) {
    static_assert(OPERANDS >= 0 && OPERANDS <= 2, "operands are half precision (0), bfloat16 (1) or TF32 (2)");
    if constexpr (OPERANDS == 0) ptx::wgmma_m64n128k16_f32_f16(sums, of_a, of_b);
    if constexpr (OPERANDS == 1) ptx::wgmma_m64n128k16_f32_bf16(sums, of_a, of_b);
    if constexpr (OPERANDS == 2) ptx::wgmma_m64n128k8_f32_tf32(sums, of_a, of_b);
}

// B has at least 6 KB. Every warpgroup multiplies the same A by the same B again and again, and waits once per round.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) wgmma_f16(
    const uint4* __restrict__ b, float* c, int size) {
    // A row of A or a column of B has 32 bytes in each dtype.
    constexpr int words_a = TILE_M * 2, words_b = TILE_N * 2, core = 8;
    __shared__ alignas(128) uint4 shared[words_a + words_b];
    for (int i = threadIdx.x; i < words_a + words_b; i += 32 * TILE_WARPS) shared[i] = b[i];
    ptx::fence_proxy_async();
    __syncthreads();
    // Two core matrices along k, then the next eight rows.
    constexpr int bytes = core * sizeof(uint4);
    const unsigned long long of_a = ptx::wgmma_descriptor(shared, bytes, 2 * bytes);
    const unsigned long long of_b = ptx::wgmma_descriptor(shared + words_a, bytes, 2 * bytes);
    float sums[1][1][TILE_N / 2] = {};
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
        ptx::wgmma_fence();
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) multiply(sums[0][0], of_a, of_b);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
    }
    tile::store_total(c, size, sums);
}
