/*---
name: mma_f64_wide
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: four chains of m16n8k16 per warp, in double precision, for the tensor cores of sm_90
format: none
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_90
requires: {}
tile: {m: 16, n: 8, k: 16, rows: 2, columns: 2, turns: 8, rounds: 512, warps: 8, ctas: 2}
features: [mma_f64_wide]
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
#include "ptx/mma_f64_wide.cuh"
#include "tile/ceiling.cuh"

// B has at least 6 KB.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_f64_wide(
    const double* __restrict__ b, double* c, int size) {
    tile::multiply_chains<TILE_ROWS, TILE_COLUMNS>(
        b, c, size, [](double(&sums)[4], const double(&fragment_a)[8], const double(&fragment_b)[4]) {
            ptx::mma_m16n8k16_f64(sums, fragment_a, fragment_b);
        });
}
