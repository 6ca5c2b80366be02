/*---
name: wgmma_sp_f8
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: a chain of 2:4 m64n256k64 per warpgroup, A in registers, FP8 (e4m3) with sums in single precision
after: wgmma_sp_f16
format: none
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_90a
requires: {}
tile: {m: 64, n: 256, k: 64, turns: 16, rounds: 512, warps: 4, ctas: 2}
features: [wgmma, wgmma_sp_f8]
launch:
  grid: tile.ctas * device.multiprocessors
  block: 32 * tile.warps
  args: b, c, n
work: {flops: 2 * tile.m * tile.n * tile.k * tile.turns * tile.rounds * tile.ctas * device.multiprocessors}
deviations: []
---*/
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_sp_f8.cuh"
#include "tile/ceiling.cuh"

// B has at least 17 KB. Every warpgroup multiplies the same A by the same B again and again, and waits once per round.
// In each group of four columns of A, the first two or the last two hold its values.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) wgmma_sp_f8(
    const uint4* __restrict__ b, float* c, int size) {
    constexpr int words_a = 32, words_b = TILE_N * TILE_K / 16, core = 8;
    __shared__ alignas(128) uint4 operand[words_b];
    for (int i = threadIdx.x; i < words_b; i += 32 * TILE_WARPS) operand[i] = b[words_a + i];
    ptx::fence_proxy_async();
    __syncthreads();
    unsigned fragment_a[1][4];
    tile::fill(fragment_a, reinterpret_cast<const unsigned*>(b));
    // Four core matrices along k, then the next eight columns.
    constexpr int bytes = core * sizeof(uint4);
    const unsigned long long of_b = ptx::wgmma_descriptor(operand, bytes, 4 * bytes);
    float sums[1][1][TILE_N / 2] = {};
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
        ptx::wgmma_fence();
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) {
            ptx::wgmma_sp_m64n256k64_f32_e4m3(sums[0][0], fragment_a[0], of_b, 0x44EE44EEu, true);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
    }
    tile::store_total(c, size, sums);
}
