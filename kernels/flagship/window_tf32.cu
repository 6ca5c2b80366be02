/*---
name: window_tf32
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: the same in TF32, whose fragments need no permutation
after: window_f16
family: window_tf32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 32, warps: 16, ctas: 2}
constants: {terms: 1, scaled: 0}
features: [mma_tf32]
scratch: (32 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: a.shares, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32)
  args: a.work, a.cut, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, alpha, beta
variants:
  f32:
    idea: three products of halves of the operands, which lose no more than FP32 does
    family: window_f32
    after: window_tf32
    dtype: {a: float32, b: float32}
    constants: {terms: 3}
deviations: [three products lose an infinity, which becomes NaN]
---*/
#include "ptx/mma_tf32.cuh"
#include "tile/windows.cuh"

namespace {

constexpr int READS = TILE_SLAB / 32;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a strip has 32, 64 or 128 columns");

// What a lane needs of a tile: its columns of four rows of B, the values of one row of A that they meet, and the window
// that ends here.
struct Operands {
    unsigned b[4][4 * READS];
    unsigned a[4];
    int window;
};

// What TF32 leaves of an FP32 number, exactly; the tensor cores drop those 13 bits.
__device__ __forceinline__ unsigned rest(unsigned x) {
    return __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
}

// D += A·B; of the four products of FP32 operands cut in two, that of both rests is below the last bit.
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (TERMS == 3) {
        const unsigned low_a[4] = {rest(a[0]), rest(a[1]), rest(a[2]), rest(a[3])}, low_b[2] = {rest(b[0]), rest(b[1])};
        ptx::mma_m16n8k8_f32_tf32(d, low_a, b);
        ptx::mma_m16n8k8_f32_tf32(d, a, low_b);
    }
    ptx::mma_m16n8k8_f32_tf32(d, a, b);
}

__device__ __forceinline__ void spread(unsigned* words, const uint4& x) {
    words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
}

// Stores the sums of four columns; in code compiled as SCALED, alpha times them plus beta times what is there, which is
// not read for beta = 0.
__device__ __forceinline__ void store(float* c, float4 sum, float alpha, float beta) {
    float4* to = reinterpret_cast<float4*>(c);
    if constexpr (SCALED) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        if (beta != 0.0f) {
            const float4 old = *to;
            sum.x += beta * old.x, sum.y += beta * old.y, sum.z += beta * old.z, sum.w += beta * old.w;
        }
    }
    __stcs(to, sum);
}

}  // namespace

// As window_f16: lane 4g + t takes columns 4t to 4t + 3 of a tile of A and columns 4g to 4g + 3 of every 32 of the strip.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_tf32(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int* __restrict__ ends,
    const int4* __restrict__ columns, const uint4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, float alpha, float beta) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int column = blockIdx.y * TILE_SLAB + 4 * g;
    const char* strips[READS];
#pragma unroll
    for (int i = 0; i < READS; ++i) strips[i] = reinterpret_cast<const char*>(b + min(column + 32 * i, ldb - 4));
    const int stride = 4 * ldb;

    const auto store_window = [&](int window, float (&sums)[2 * READS][4]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = window * tile::WINDOW + 2 * t + i;
#pragma unroll
            for (int j = 0; j < READS; ++j) {
                const float(&low)[4] = sums[2 * j], (&high)[4] = sums[2 * j + 1];
                const int to = column + 32 * j;
                if (at < m && to < ldc) {
                    store(
                        c + static_cast<long long>(at) * ldc + to,
                        make_float4(low[i], low[2 + i], high[i], high[2 + i]), alpha, beta);
                }
            }
        }
    };
    tile::Part<TILE_WARPS, 2 * READS> mine({work, cut, parts, part_count}, ends, shared);
    const int window = tile::stream<Operands>(
        mine.begin, mine.last,
        [&](unsigned tile) { return __ldcs(columns + (tile * 4 + t)); },
        [&](Operands& f, const int4& rows, unsigned tile) {
            const int of[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < READS; ++j) {
                    const char* from = strips[j] + static_cast<long long>(of[i]) * stride;
                    spread(f.b[i] + 4 * j, __ldg(reinterpret_cast<const uint4*>(from)));
                }
            }
            spread(f.a, __ldcs(data + (tile * 32 + lane)));
            f.window = __ldcs(ends + tile);
        },
        [&](const Operands& f) {
#pragma unroll
            for (int k = 0; k < 4; k += 2) {
                const unsigned values[2] = {f.a[k], f.a[k + 1]};
#pragma unroll
                for (int j = 0; j < 2 * READS; ++j) {
                    const unsigned fragment[4] = {
                        f.b[k][2 * j], f.b[k][2 * j + 1], f.b[k + 1][2 * j], f.b[k + 1][2 * j + 1]};
                    multiply(mine.sums[j], fragment, values);
                }
            }
        },
        [&](int window) { mine.close(window, store_window); });
    mine.finish(window, store_window);
}
