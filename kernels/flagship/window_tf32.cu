/*---
name: window_tf32
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: the same in TF32, whose fragments need no permutation
after: window_f16
format: vectors_8x1
format_options: {most: 16}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {warps: 4, ctas: 5}
features: [mma_tf32]
scratch: 2048 * a.parts * ceil_div(n, 64)
launches:
  - entry: window_tf32
    grid: ceil_div(a.pieces * ceil_div(n, 64), tile.warps)
    block: 32 * tile.warps
    args: a.items, a.columns, a.data, b, c, scratch, a.pieces, m, n, b.ld, c.ld
  - entry: add_parts
    grid: a.cut_windows, ceil_div(n, 64)
    block: 64
    args: a.cut, scratch, c, m, n, c.ld
deviations: []
---*/
#include "ptx/mma_tf32.cuh"
#include "tile/windows.cuh"

namespace {

// What a lane needs of a tile: twice four columns of four rows of B, and the values of one row of A that they meet.
struct Operands {
    uint4 b[2][4];
    uint4 a;
};

__device__ __forceinline__ unsigned word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

}  // namespace

// A warp multiplies one piece of a window by 64 columns of B, as two halves of 32: lane 4g + t takes columns 4t to 4t + 3
// of a tile of A and columns 4g to 4g + 3 of each half of C, 16 bytes at a time.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_tf32(
    const int4* __restrict__ items, const int4* __restrict__ columns, const uint4* __restrict__ data,
    const uint4* __restrict__ b, float4* __restrict__ c, float* __restrict__ parts, int pieces, int m, int n, int ldb,
    int ldc) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, slabs = (n + tile::SLAB - 1) / tile::SLAB;
    const unsigned warp = blockIdx.x * TILE_WARPS + threadIdx.x / 32;
    const int piece = warp / slabs, slab = warp % slabs;
    if (piece >= pieces) return;
    const int4 item = items[piece];
    const int column = slab * tile::SLAB + 4 * g, row_b = ldb / 4;
    const bool wanted[2] = {column < ldb, column + 32 < ldb};
    b += column / 4;

    auto load = [&](Operands& f, const int4& rows, int tile) {
        const int of[4] = {rows.x, rows.y, rows.z, rows.w};
        f.a = data[tile * 32 + lane];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                f.b[half][i] = of[i] >= 0 && wanted[half] ? __ldg(b + static_cast<long long>(of[i]) * row_b + 8 * half)
                                                          : make_uint4(0, 0, 0, 0);
            }
        }
    };
    float sums[2][2][4] = {};
    auto product = [&](const Operands& f) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            const unsigned values[2] = {word(f.a, 2 * step), word(f.a, 2 * step + 1)};
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint4 &x = f.b[half][2 * step], &y = f.b[half][2 * step + 1];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const unsigned fragment[4] = {
                        word(x, 2 * j), word(x, 2 * j + 1), word(y, 2 * j), word(y, 2 * j + 1)};
                    ptx::mma_m16n8k8_f32_tf32(sums[half][j], fragment, values);
                }
            }
        }
    };
    const int4 none = make_int4(-1, -1, -1, -1);
    auto rows_of = [&](int tile) { return tile < item.z ? columns[tile * 4 + t] : none; };

    // Columns of two tiles ahead are on their way while a tile's rows of B are waited for.
    int4 next = rows_of(item.y);
    for (int tile = item.y; tile < item.z; ++tile) {
        Operands f;
        load(f, next, tile);
        next = rows_of(tile + 1);
        product(f);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (!wanted[half]) continue;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = 2 * t + i, at = item.x * tile::WINDOW + row;
            const float(&s)[2][4] = sums[half];
            const float4 out = make_float4(s[0][i], s[0][2 + i], s[1][i], s[1][2 + i]);
            if (item.w >= 0) {
                float* to = tile::part_of(parts, item.w, row, slabs * tile::SLAB) + column + 32 * half;
                *reinterpret_cast<float4*>(to) = out;
            } else if (at < m) {
                __stcs(c + (static_cast<long long>(at) * ldc + column + 32 * half) / 4, out);
            }
        }
    }
}

// Rows of C of windows that were cut: a thread adds up eight columns of a row.
extern "C" __global__ void __launch_bounds__(64) add_parts(
    const int* __restrict__ cut, const float* __restrict__ parts, float4* __restrict__ c, int m, int n, int ldc) {
    const int* window = cut + 3 * blockIdx.x;
    const int row = threadIdx.x / 8, column = blockIdx.y * tile::SLAB + threadIdx.x % 8 * 8;
    const int slabs = (n + tile::SLAB - 1) / tile::SLAB, at = window[0] * tile::WINDOW + row;
    if (at >= m || column >= ldc) return;
    float sums[8];
    tile::add_eight(sums, parts, window[1], window[2], row, slabs * tile::SLAB, column);
    float4* to = c + (static_cast<long long>(at) * ldc + column) / 4;
    to[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
    if (column + 4 < ldc) to[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
}
