/*---
name: gather_tf32
study: flagship
source: "our own; operands swapped after FlashSparse (Shi et al. 2024)"
idea: gather_f16 in TF32
after: gather_f16
family: window_tf32
format: gathered_8x1
format_options: {capacity: tile.capacity}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 32, capacity: 384, warps: 8, ctas: 2, strips: 4}
constants: {terms: 1, scaled: 0}
features: [cp_async, mma_tf32]
launch:
  grid: a.blocks, ceil_div(n, tile.slab * tile.strips)
  block: 32 * tile.warps
  smem: 8 * tile.slab * tile.capacity + 1024 * tile.warps
  args: a.work, a.windows, a.columns, a.places, a.data, b, c, m, n, 4 * b.ld, c.ld, alpha, beta
variants:
  f32:
    idea: three products of halves of the operands, which lose no more than FP32 does
    family: window_f32
    after: gather_tf32
    dtype: {a: float32, b: float32}
    constants: {terms: 3}
deviations: [three products lose an infinity, which becomes NaN]
---*/
#include "tile/gathered.cuh"
#include "tile/multiply_tf32.cuh"
#include "tile/store.cuh"

namespace {

constexpr int SUMS = TILE_SLAB / 16;
static_assert(4 * TILE_SLAB == tile::LINE, "a strip of a row of B is a line");

// What a lane needs of a tile: where four rows of B are, and the values of a row of A at these columns.
struct Operands {
    ushort4 places;
    uint4 values;
};

}  // namespace

// A CTA has a block of windows and several strips of B. Lane 4g + t reads chunk g of the rows of B of columns 4t to 4t + 3
// of a tile: which of the columns of B are called neighbours is free, so that a lane ends with four of two rows of C.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) gather_tf32(
    const int2* __restrict__ work, const int* __restrict__ windows, const int* __restrict__ columns,
    const ushort4* __restrict__ places, const uint4* __restrict__ data, const char* __restrict__ b,
    float* __restrict__ c, int m, int n, int stride, int ldc, float alpha, float beta) {
    extern __shared__ __align__(128) char shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float4* const met = reinterpret_cast<float4*>(shared + 2 * TILE_CAPACITY * tile::LINE);
    const int first_strip = blockIdx.y * TILE_STRIPS;
    const int strips = min(TILE_STRIPS, (n + TILE_SLAB - 1) / TILE_SLAB - first_strip);

    float sums[SUMS][4] = {};
    const auto multiply = [&](const char* buffer, int tile, int end, int step, int part) {
        const auto load = [&] { return Operands{__ldg(places + (tile * 4 + t)), __ldg(data + (tile * 32 + lane))}; };
        Operands ahead = {};
        if (tile < end) ahead = load();
#pragma unroll 1
        while (tile < end) {
            const Operands now = ahead;
            tile += step;
            if (tile < end) ahead = load();
            const int lines[4] = {now.places.x, now.places.y, now.places.z, now.places.w};
            uint4 x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                x[i] = *reinterpret_cast<const uint4*>(buffer + tile::place_of(lines[i] - part, g));
            }
            // Tensor cores cut sums off instead of rounding them. Of FP32 operands they add no more than a tile.
            float of_tile[SUMS][4] = {};
            float(&to)[SUMS][4] = TERMS == 3 ? of_tile : sums;
#pragma unroll
            for (int k = 0; k < 4; k += 2) {
                const unsigned first[4] = {x[k].x, x[k].y, x[k + 1].x, x[k + 1].y};
                const unsigned second[4] = {x[k].z, x[k].w, x[k + 1].z, x[k + 1].w};
                const unsigned values[2] = {k == 0 ? now.values.x : now.values.z, k == 0 ? now.values.y : now.values.w};
                tile::multiply<TERMS>(to[0], first, values);
                tile::multiply<TERMS>(to[1], second, values);
            }
            if constexpr (TERMS == 3) {
#pragma unroll
                for (int i = 0; i < 4 * SUMS; ++i) sums[i / 4][i % 4] += of_tile[i / 4][i % 4];
            }
        }
    };
    const auto store_window = [&](int window, int strip, int warps) {
        if (warps > 1) {
            tile::meet(warps);
#pragma unroll
            for (int j = 0; j < SUMS; ++j) {
                met[(warp * SUMS + j) * 32 + lane] = make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]);
            }
            tile::meet(warps);
#pragma unroll
            for (int j = 0; j < SUMS; ++j) {
                sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
                for (int other = 0; other < warps; ++other) {
                    const float4 x = met[(other * SUMS + j) * 32 + lane];
                    sums[j][0] += x.x, sums[j][1] += x.y, sums[j][2] += x.z, sums[j][3] += x.w;
                }
            }
        }
        const int to = strip * TILE_SLAB + 4 * g;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = window * tile::WINDOW + 2 * t + i;
            const float4 sum = make_float4(sums[0][i], sums[0][2 + i], sums[1][i], sums[1][2 + i]);
            if ((warps == 1 || warp == 0) && at < m && to < ldc) {
                float* four = c + static_cast<long long>(at) * ldc + to;
                tile::store<SCALED>(reinterpret_cast<float4*>(four), sum, alpha, beta);
            }
        }
#pragma unroll
        for (int j = 0; j < SUMS; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
    };
    const tile::Gathered of = {work, windows, columns, b, stride};
    tile::walk_block<TILE_WARPS, TILE_CAPACITY>(of, shared, first_strip, strips, multiply, store_window);
}
