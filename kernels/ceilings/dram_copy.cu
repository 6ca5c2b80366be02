/*---
name: dram_copy
study: ceilings
source: "McCalpin 1995, STREAM: the copy kernel"
idea: copy an array much larger than L2 with 16-byte accesses, four in flight per thread
format: none
dtype: {a: none, b: none, accumulator: none, c: none}
layout: {b: row_major, c: row_major}
min_arch: sm_75
requires: {}
features: []
launch:
  grid: ceil_div(b.nbytes, 16384)
  block: 256
  args: b, c, b.nbytes
work: {bytes: 2 * b.nbytes}
memory: {level: dram, result: copy}
deviations: []
---*/

// A CTA copies 16 KB. Each of its 256 threads copies four 16-byte words; neighbouring threads copy neighbouring words.
extern "C" __global__ void __launch_bounds__(256) dram_copy(const uint4* __restrict__ source, uint4* __restrict__ target, long long bytes) {
    const long long words = bytes / sizeof(uint4);
    const long long first = blockIdx.x * 1024ll + threadIdx.x;
    uint4 word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + 256 * i < words) word[i] = __ldcs(source + first + 256 * i);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + 256 * i < words) __stcs(target + first + 256 * i, word[i]);
    }
}
