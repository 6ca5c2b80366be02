/*---
name: mma_bf16
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: eight chains of m16n8k16 a warp, bfloat16 with sums in single precision
format: none
dtype: {a: bfloat16, b: bfloat16, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {m: 16, n: 8, k: 16, rows: 2, columns: 4, turns: 8, rounds: 512, warps: 8, ctas: 2}
features: [mma_bf16]
launch:
  grid: tile.ctas * device.multiprocessors
  block: 32 * tile.warps
  args: b, c, n
work:
  flops: >-
    2 * tile.m * tile.n * tile.k * tile.rows * tile.columns * tile.turns * tile.rounds * tile.warps * tile.ctas
    * device.multiprocessors
deviations: []
---*/
#include "ptx/mma_bf16.cuh"
#include "tile/ceiling.cuh"

// B has 4 KB at least. Every warp multiplies the same 2 fragments of A with the same 4 of B, over and over;
// the total of a thread's sums goes to its place in C if there is one.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_bf16(
    const unsigned* __restrict__ b, float* c, int places) {
    unsigned fragments_a[TILE_ROWS][4], fragments_b[TILE_COLUMNS][2];
    tile::fill(fragments_a, b);
    tile::fill(fragments_b, b + 32 * TILE_ROWS * 4);
    float sums[TILE_ROWS][TILE_COLUMNS][4] = {};
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) {
#pragma unroll
            for (int i = 0; i < TILE_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < TILE_COLUMNS; ++j) {
                    ptx::mma_m16n8k16_f32_bf16(sums[i][j], fragments_a[i], fragments_b[j]);
                }
            }
        }
    }
    tile::store_total(c, places, sums);
}
