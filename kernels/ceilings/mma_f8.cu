/*---
name: mma_f8
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: eight chains of m16n8k32 per warp, FP8 (e4m3) with sums in single precision
after: mma_f16
format: none
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_89
requires: {}
tile: {m: 16, n: 8, k: 32, rows: 2, columns: 4, turns: 8, rounds: 512, warps: 8, ctas: 2}
features: [mma_f8]
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
#include "ptx/mma_f8.cuh"
#include "tile/ceiling.cuh"

// B has at least 4 KB.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_f8(
    const unsigned* __restrict__ b, float* c, int size) {
    tile::multiply_chains<TILE_ROWS, TILE_COLUMNS>(
        b, c, size, [](float(&sums)[4], const unsigned(&fragment_a)[4], const unsigned(&fragment_b)[2]) {
            ptx::mma_m16n8k32_f32_e4m3(sums, fragment_a, fragment_b);
        });
}
