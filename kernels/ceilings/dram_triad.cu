/*---
name: dram_triad
study: ceilings
source: "McCalpin 1995, STREAM: the triad kernel"
idea: add a multiple of an array to another, both much larger than L2, with 16-byte accesses, four in flight per thread
format: none
dtype: {a: none, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
features: []
launch:
  grid: ceil_div(b.nbytes, 16384)
  block: 256
  args: b, c, b.nbytes, 0.5
work: {bytes: b.nbytes + b.nbytes // 2}
memory: {level: dram, result: triad}
deviations:
  - "the two sources are the halves of one array"
---*/

// A CTA reads 512 words of 16 bytes from each half of B. Each of its 256 threads reads two words of each half;
// neighbouring threads read neighbouring words.
extern "C" __global__ void __launch_bounds__(256) dram_triad(
    const double2* __restrict__ source, double2* __restrict__ target, long long bytes, float factor) {
    const long long words = bytes / (2 * sizeof(double2));
    const long long first = blockIdx.x * 512ll + threadIdx.x;
    double2 x[2], y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (first + 256 * i < words) {
            x[i] = __ldcs(source + first + 256 * i);
            y[i] = __ldcs(source + words + first + 256 * i);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (first + 256 * i < words) {
            __stcs(target + first + 256 * i, make_double2(x[i].x + factor * y[i].x, x[i].y + factor * y[i].y));
        }
    }
}
