/*---
name: shared_read
study: ceilings
source: "roofline practice: repeated sweeps over shared memory without bank conflicts"
idea: read 32 KB of shared memory many times with 16-byte loads free of bank conflicts, eight in flight per thread
format: none
dtype: {a: none, b: none, accumulator: none, c: none}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {turns: 8, rounds: 2048, threads: 256, ctas: 2}
features: []
launch:
  grid: tile.ctas * device.multiprocessors
  block: tile.threads
  args: b, c, n
work: {bytes: 16 * tile.turns * tile.rounds * tile.threads * tile.ctas * device.multiprocessors}
memory: {level: shared, result: sweeps}
deviations: []
---*/

// B has at least 32 KB. Each round reads every word once. A warp's words change from round to round, so that no load
// repeats another. The thread stores the sum of what it read in its value of C; C has `size` values.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) shared_read(
    const uint4* __restrict__ source, unsigned* c, int size) {
    __shared__ uint4 words[TILE_TURNS * TILE_THREADS];
    for (int i = threadIdx.x; i < TILE_TURNS * TILE_THREADS; i += TILE_THREADS) words[i] = source[i];
    __syncthreads();
    uint4 sum = {0u, 0u, 0u, 0u};
    unsigned first = threadIdx.x;
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
        uint4 word[TILE_TURNS];
#pragma unroll
        for (int i = 0; i < TILE_TURNS; ++i) word[i] = words[first + TILE_THREADS * i];
#pragma unroll
        for (int i = 0; i < TILE_TURNS; i += 2) {
            sum.x += word[i].x + word[i + 1].x, sum.y += word[i].y + word[i + 1].y;
            sum.z += word[i].z + word[i + 1].z, sum.w += word[i].w + word[i + 1].w;
        }
        first = (first + 32) % TILE_THREADS;
    }
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < size) c[thread] = sum.x + sum.y + sum.z + sum.w;
}
