/*---
name: mma_f64_wide
study: ceilings
source: "roofline practice: chains of products on tensor cores"
idea: four chains of m16n8k16 a warp, in double precision, for the tensor cores of sm_90
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

// B has 6 KB at least. Every warp multiplies the same 2 fragments of A with the same 2 of B, over and over;
// the total of a thread's sums goes to its place in C if there is one.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) mma_f64_wide(
    const double* __restrict__ b, double* c, int places) {
    double fragments_a[TILE_ROWS][8], fragments_b[TILE_COLUMNS][4];
    tile::fill(fragments_a, b);
    tile::fill(fragments_b, b + 32 * TILE_ROWS * 8);
    double sums[TILE_ROWS][TILE_COLUMNS][4] = {};
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) {
#pragma unroll
            for (int i = 0; i < TILE_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < TILE_COLUMNS; ++j) {
                    ptx::mma_m16n8k16_f64(sums[i][j], fragments_a[i], fragments_b[j]);
                }
            }
        }
    }
    tile::store_total(c, places, sums);
}
