/*---
name: scale_tc
study: memory_bound
source: "Zhang et al. 2025, section 5.1 and figure 5, after Navarro et al. 2020"
idea: tiles of 8x4 values times q·I on tensor cores, which use one of every eight products
after: scale_cc
format: scaled_identity
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: row_major, c: row_major}
min_arch: sm_80
requires: {}
features: [mma_f64]
launch:
  grid: ceil_div(m * n, 2048)
  block: 256
  args: a.data, b, c, m * n
deviations:
  - "the 4x8 operand holds q·I twice, so that all lanes hold results and store 16 bytes; the original's code is not published"
---*/
#include "ptx/mma_f64.cuh"

// B and C have no padding: they are contiguous arrays of `size` values. A warp scales 256 of them, in four rounds of
// 64.
//
// Lane 4g + t loads one pair (x, y). All x are one 8×4 tile X, all y another, Y, with the value of lane 4g + t at (g,
// t), as the fragment requires:
//
//            columns 0..3   columns 4..7
//   X·[          q·I            q·I      ]  =  [ q·X | q·X ],  and the same for Y
//
// Lane 4g + t gets columns 2t and 2t + 1 of row g of each result: the pairs of lanes 4g + 2(t % 2) and the next one,
// both for t and for t + 2. Lanes with t < 2 store the first of these two pairs, the others the second. Together a warp
// stores the 512 bytes that it has loaded.
extern "C" __global__ void __launch_bounds__(256) scale_tc(
    const double* __restrict__ coefficient, const double2* __restrict__ b, double2* __restrict__ c, long long size) {
    const long long pairs = size / 2;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const long long first = blockIdx.x * 1024ll + threadIdx.x / 32 * 128;
    const double q = __ldg(coefficient);
    // (t, g) of the right operand.
    const double identity = g % 4 == t ? q : 0.0;
    const int stored = 4 * g + 2 * (t % 2) + t / 2;
    double2 pair[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const long long at = first + 32 * i + lane;
        pair[i] = at < pairs ? __ldcs(b + at) : make_double2(0.0, 0.0);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        double x[2] = {}, y[2] = {};
        ptx::mma_m8n8k4_f64(x, pair[i].x, identity);
        ptx::mma_m8n8k4_f64(y, pair[i].y, identity);
        const long long at = first + 32 * i + stored;
        if (at < pairs) __stcs(c + at, t < 2 ? make_double2(x[0], y[0]) : make_double2(x[1], y[1]));
    }
    // The last value, if their number is odd.
    if (first == 0 && lane == 0 && size % 2) {
        reinterpret_cast<double*>(c)[size - 1] = q * reinterpret_cast<const double*>(b)[size - 1];
    }
}
