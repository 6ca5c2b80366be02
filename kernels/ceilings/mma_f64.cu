/*---
name: mma_f64
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: eight chains of m8n8k4 per warp, in double precision
format: none
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {m: 8, n: 8, k: 4, rows: 2, columns: 4, turns: 8, rounds: 512, warps: 8, ctas: 2}
features: [mma_f64]
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
#include "ptx/mma_f64.cuh"
#include "tile/ceiling.cuh"

// B has at least 2 KB.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_f64(
    const double* __restrict__ b, double* c, int size) {
    tile::multiply_chains<TILE_ROWS, TILE_COLUMNS>(
        b, c, size, [](double(&sums)[2], const double(&fragment_a)[1], const double(&fragment_b)[1]) {
            ptx::mma_m8n8k4_f64(sums, fragment_a[0], fragment_b[0]);
        });
}
