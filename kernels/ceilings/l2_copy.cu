/*---
name: l2_copy
study: ceilings
source: "roofline practice: repeated copies of an array that fits L2 together with its copy"
idea: copy an array many times within L2, with 16-byte accesses that bypass L1, four in flight per thread
after: l2_read
format: none
dtype: {a: none, b: none, accumulator: none, c: none}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {rounds: 256, threads: 256, ctas: 4}
features: [ld]
launch:
  grid: tile.ctas * device.multiprocessors
  block: tile.threads
  args: b, c, b.nbytes
work: {bytes: 2 * tile.rounds * b.nbytes}
memory: {level: l2, result: copy}
deviations: []
---*/
#include "ptx/ld.cuh"

// A thread copies the same words in every round, so that no round waits for another. The compiler must assume that any
// memory may change between the loads, so it drops no store of an earlier round.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) l2_copy(
    const uint4* __restrict__ source, uint4* target, long long bytes) {
    constexpr int ahead = 4;
    const int words = static_cast<int>(bytes / sizeof(uint4));
    const int first = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
        int word = first;
        for (; word + (ahead - 1) * threads < words; word += ahead * threads) {
            uint4 value[ahead];
#pragma unroll
            for (int i = 0; i < ahead; ++i) value[i] = ptx::load_here(source + word + i * threads);
#pragma unroll
            for (int i = 0; i < ahead; ++i) __stcg(target + word + i * threads, value[i]);
        }
        for (; word < words; word += threads) __stcg(target + word, ptx::load_here(source + word));
    }
}
