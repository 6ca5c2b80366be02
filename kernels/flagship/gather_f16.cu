/*---
name: gather_f16
study: flagship
source: "our own; operands swapped after FlashSparse (Shi et al. 2024)"
idea: rows of B that a block of windows needs once each to shared memory, where its tiles find them by their place
after: staged_f16
family: window_f16
format: gathered_8x1
format_options: {capacity: tile.capacity}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 64, capacity: 384, warps: 8, ctas: 2, strips: 4}
constants: {values: F16, scaled: 0}
features: [cp_async, ldmatrix_trans, mma, mma_bf16]
launch:
  grid: a.blocks, ceil_div(n, tile.slab * tile.strips)
  block: 32 * tile.warps
  smem: 4 * tile.slab * tile.capacity + 32 * 36 * tile.warps
  args: a.work, a.windows, a.columns, a.places, a.data, b, c, m, n, 2 * b.ld, c.ld, alpha, beta
variants:
  bf16:
    idea: gather_f16 in BF16
    family: window_bf16
    after: gather_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: []
---*/
#include "ptx/ldmatrix_trans.cuh"
#include "tile/gathered.cuh"
#include "tile/multiply_16.cuh"
#include "tile/store.cuh"

namespace {

using Values = tile::VALUES;

// Products of 16 columns of a strip. Sums of 32 columns of a window pass through shared memory on their way to rows of C;
// with this pitch in floats rows 0, 2, 4 and 6 are eight banks apart.
constexpr int SUMS = TILE_SLAB / 16, PITCH = 36;
static_assert(2 * TILE_SLAB == tile::LINE, "a strip of a row of B is a line");

// What a lane needs of a tile: where the row of B is that it gives ldmatrix the address of, and four values of a row.
struct Operands {
    unsigned short place;
    uint2 values;
};

}  // namespace

// A CTA has a block of windows and several strips of B.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) gather_f16(
    const int2* __restrict__ work, const int* __restrict__ windows, const int* __restrict__ columns,
    const unsigned short* __restrict__ places, const uint2* __restrict__ data, const char* __restrict__ b,
    unsigned short* __restrict__ c, int m, int n, int stride, int ldc, float alpha, float beta) {
    extern __shared__ __align__(128) char shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float* const rows = reinterpret_cast<float*>(shared + 2 * TILE_CAPACITY * tile::LINE) + warp * tile::WINDOW * PITCH;
    const int first_strip = blockIdx.y * TILE_STRIPS;
    const int strips = min(TILE_STRIPS, (n + TILE_SLAB - 1) / TILE_SLAB - first_strip);

    // The column of a tile that is k of a product: lane 4g + t has the values of columns 4t to 4t + 3 for k = 2t, 2t + 1,
    // 2t + 8 and 2t + 9.
    const int k = lane % 8 + lane / 16 * 8, of_lane = k % 8 / 2 * 4 + k / 8 * 2 + k % 2;
    float sums[SUMS][4] = {};
    const auto multiply = [&](const char* buffer, int tile, int end, int step, int part) {
        const auto load = [&] {
            const int column = tile * tile::TILE_WIDTH + of_lane;
            return Operands{__ldg(places + column), __ldg(data + (tile * 32 + lane))};
        };
        Operands ahead = {};
        if (tile < end) ahead = load();
#pragma unroll 1
        while (tile < end) {
            const unsigned values[2] = {ahead.values.x, ahead.values.y};
            const int at = tile::place_of(ahead.place - part, lane / 8 % 2);
            tile += step;
            if (tile < end) ahead = load();
#pragma unroll
            for (int j = 0; j < SUMS; ++j) {
                unsigned of_b[4];
                ptx::ldmatrix_x4_trans(of_b, buffer + (at ^ 32 * j));
                tile::multiply(sums[j], of_b, values, Values{});
            }
        }
    };
    const auto store_window = [&](int window, int strip, int warps) {
#pragma unroll
        for (int half = 0; half < SUMS / 2; ++half) {
            tile::meet(warps);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    rows[(2 * t + i % 2) * PITCH + 16 * j + i / 2 * 8 + g] = sums[2 * half + j][i];
                }
            }
            tile::meet(warps);
            if (warps > 1 && warp > 0) continue;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = 4 * i + lane / 8, column = lane % 8 * 4;
                float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                for (int other = 0; other < warps; ++other) {
                    const float* from = rows + (other * tile::WINDOW + row) * PITCH + column;
                    const float4 x = *reinterpret_cast<const float4*>(from);
                    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
                }
                const int to = strip * TILE_SLAB + 32 * half + column, at = window * tile::WINDOW + row;
                if (at < m && to < ldc) {
                    unsigned short* four = c + static_cast<long long>(at) * ldc + to;
                    tile::store<Values, SCALED>(reinterpret_cast<uint2*>(four), sum, alpha, beta);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < SUMS; ++j) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
    };
    const tile::Gathered of = {work, windows, columns, b, stride};
    tile::walk_block<TILE_WARPS, TILE_CAPACITY>(of, shared, first_strip, strips, multiply, store_window);
}
