/*---
name: dram_read
study: ceilings
source: "roofline practice: a read-only sweep of an array much larger than L2"
idea: read every byte of an array once with 16-byte loads, four in flight per thread
format: none
dtype: {a: none, b: none, accumulator: none, c: none}
layout: {b: row_major, c: row_major}
min_arch: sm_75
requires: {}
features: []
launch:
  grid: 8 * device.multiprocessors
  block: 256
  args: b, c, b.nbytes
work: {bytes: b.nbytes}
memory: {level: dram, result: flag}
deviations: []
---*/

// The result is stored only if it has a value that the array cannot produce. So the compiler cannot remove the loads,
// and nothing is written: after this kernel no line of L2 waits to be written back.
extern "C" __global__ void __launch_bounds__(256) dram_read(const uint4* __restrict__ source, unsigned* sink, long long bytes) {
    const long long words = bytes / sizeof(uint4);
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned sum = 0;
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < words; i += 4 * stride) {
        const uint4 w0 = source[i], w1 = source[i + stride], w2 = source[i + 2 * stride], w3 = source[i + 3 * stride];
        sum |= (w0.x | w0.y | w0.z | w0.w) | (w1.x | w1.y | w1.z | w1.w);
        sum |= (w2.x | w2.y | w2.z | w2.w) | (w3.x | w3.y | w3.z | w3.w);
    }
    for (; i < words; i += stride) {
        const uint4 w = source[i];
        sum |= w.x | w.y | w.z | w.w;
    }
    if (sum == 0xFFFFFFFFu) *sink = sum;
}
