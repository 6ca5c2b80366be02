/*---
name: fma_f64
study: ceilings
source: "roofline practice: chains of multiply-adds on CUDA cores"
idea: eight chains of multiply-adds per thread, in double precision
format: none
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {sums: 8, turns: 32, rounds: 512, threads: 256, ctas: 4}
features: []
launch:
  grid: tile.ctas * device.multiprocessors
  block: tile.threads
  args: b, c, n
work: {flops: 2 * tile.sums * tile.turns * tile.rounds * tile.threads * tile.ctas * device.multiprocessors}
deviations: []
---*/

// B has at least 1024 values, none beyond 1, so that the sums stay finite. Each sum computes x = x·B[0] + B[1] from a
// start of its own. The thread stores their total in its value of C; C has `size` values.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) fma_f64(
    const double* __restrict__ b, double* c, int size) {
    const double factor = b[0], step = b[1];
    double sums[TILE_SUMS];
#pragma unroll
    for (int i = 0; i < TILE_SUMS; ++i) sums[i] = b[threadIdx.x + i];
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) {
#pragma unroll
            for (int i = 0; i < TILE_SUMS; ++i) sums[i] = fma(sums[i], factor, step);
        }
    }
    double total = sums[0];
#pragma unroll
    for (int i = 1; i < TILE_SUMS; ++i) total = total + sums[i];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < size) c[thread] = total;
}
