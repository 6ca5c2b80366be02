/*---
name: l2_read
study: ceilings
source: "roofline practice: repeated sweeps over an array that L2 holds"
idea: read every byte of an array many times with 16-byte loads that bypass L1, four in flight per thread
format: none
dtype: {a: none, b: none, accumulator: none, c: none}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
tile: {rounds: 256, threads: 256, ctas: 4}
features: []
launch:
  grid: tile.ctas * device.multiprocessors
  block: tile.threads
  args: b, c, b.nbytes, n
work: {bytes: tile.rounds * b.nbytes}
memory: {level: l2, result: sweeps}
deviations: []
---*/

// The size of B is the working set; how much of it comes from L2 depends on the size of the cache. Rounds follow each
// other without a break. The thread stores the sum of what it read in its value of C; C has `size` values.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) l2_read(
    const uint4* __restrict__ source, unsigned* c, long long bytes, int size) {
    const int words = static_cast<int>(bytes / sizeof(uint4));
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const int step = threads % words;
    int word = thread % words;
    long long left = (static_cast<long long>(words) * TILE_ROUNDS - thread + threads - 1) / threads;
    uint4 sum = {0u, 0u, 0u, 0u};
    const auto next = [&] {
        const uint4 value = __ldcg(source + word);
        word += step;
        if (word >= words) word -= words;
        return value;
    };
    for (; left >= 4; left -= 4) {
        const uint4 w0 = next(), w1 = next(), w2 = next(), w3 = next();
        sum.x += w0.x + w1.x, sum.y += w0.y + w1.y, sum.z += w0.z + w1.z, sum.w += w0.w + w1.w;
        sum.x += w2.x + w3.x, sum.y += w2.y + w3.y, sum.z += w2.z + w3.z, sum.w += w2.w + w3.w;
    }
    for (; left > 0; --left) {
        const uint4 w = next();
        sum.x += w.x, sum.y += w.y, sum.z += w.z, sum.w += w.w;
    }
    if (thread < size) c[thread] = sum.x + sum.y + sum.z + sum.w;
}
