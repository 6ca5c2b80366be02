/*---
name: scale_cc
study: memory_bound
source: "Zhang et al. 2025, sections 3.1 and 5.1; McCalpin 1995, STREAM: the scale kernel"
idea: one multiplication per value on CUDA cores, 16 bytes at a time, four in flight per thread
format: scaled_identity
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
features: []
launch:
  grid: ceil_div(m * n, 2048)
  block: 256
  args: a.data, b, c, m * n
deviations:
  - "16-byte evict-first accesses; the original's code is not published"
---*/

// B and C have no padding: they are contiguous arrays of `size` values. A CTA scales 2048 of them; each of its 256
// threads scales four pairs, and neighbouring threads scale neighbouring pairs.
extern "C" __global__ void __launch_bounds__(256) scale_cc(
    const double* __restrict__ coefficient, const double2* __restrict__ b, double2* __restrict__ c, long long size) {
    const long long pairs = size / 2;
    const long long first = blockIdx.x * 1024ll + threadIdx.x;
    const double q = __ldg(coefficient);
    double2 x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + 256 * i < pairs) x[i] = __ldcs(b + first + 256 * i);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + 256 * i < pairs) __stcs(c + first + 256 * i, make_double2(q * x[i].x, q * x[i].y));
    }
    // The last value, if their number is odd.
    if (first == 0 && size % 2) {
        reinterpret_cast<double*>(c)[size - 1] = q * reinterpret_cast<const double*>(b)[size - 1];
    }
}
