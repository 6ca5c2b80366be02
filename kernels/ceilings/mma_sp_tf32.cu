/*---
name: mma_sp_tf32
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: eight chains of 1:2 m16n8k16 per warp, TF32 with sums in single precision
format: none
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {m: 16, n: 8, k: 16, rows: 2, columns: 4, turns: 8, rounds: 512, warps: 8, ctas: 2}
features: [mma_sp_tf32]
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
#include "ptx/mma_sp_tf32.cuh"
#include "tile/ceiling.cuh"

// B has at least 4 KB. Metadata selects the first or the second column of each pair of columns of A.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_sp_tf32(
    const unsigned* __restrict__ b, float* c, int size) {
    tile::multiply_chains<TILE_ROWS, TILE_COLUMNS>(
        b, c, size, [](float(&sums)[4], const unsigned(&fragment_a)[4], const unsigned(&fragment_b)[4]) {
            ptx::mma_sp_m16n8k16_f32_tf32<0>(sums, fragment_a, fragment_b, 0x44EE44EEu);
        });
}
