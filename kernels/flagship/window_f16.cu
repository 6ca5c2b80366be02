/*---
name: window_f16
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: windows of eight rows as the narrow operand of a product, B in 16 bytes straight to the registers that multiply it, long windows cut
format: vectors_8x1
format_options: {most: 16}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {warps: 4, ctas: 5}
constants: {values: F16}
features: [mma, mma_bf16]
scratch: 2048 * a.parts * ceil_div(n, 64)
launches:
  - entry: window_f16
    grid: ceil_div(a.pieces * ceil_div(n, 64), tile.warps)
    block: 32 * tile.warps
    args: a.items, a.columns, a.data, b, c, scratch, a.pieces, m, n, b.ld, c.ld
  - entry: add_parts
    grid: a.cut_windows, ceil_div(n, 64)
    block: 64
    args: a.cut, scratch, c, m, n, c.ld
variants:
  bf16:
    idea: the same with bfloat16
    after: window_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: []
---*/
#include "ptx/mma.cuh"
#include "ptx/mma_bf16.cuh"
#include "tile/values_16.cuh"
#include "tile/windows.cuh"

namespace {

using Values = tile::VALUES;

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], tile::F16) {
    ptx::mma_m16n8k16_f32_f16(d, a, b);
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], tile::Bf16) {
    ptx::mma_m16n8k16_f32_bf16(d, a, b);
}

// What a lane needs of a tile: eight columns of four rows of B, and the values of one row of A that they meet.
struct Operands {
    uint4 b[4];
    uint2 a;
};

__device__ __forceinline__ unsigned word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

}  // namespace

// A warp multiplies one piece of a window by 64 columns of B. The order of the 16 columns of a tile is free, and so is
// that of the 64 columns of C: lane 4g + t takes columns 4t to 4t + 3 of A and columns 8g to 8g + 7 of C, so that it
// reads and writes 16 bytes at a time, and a byte permutation makes fragments of them.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_f16(
    const int4* __restrict__ items, const int4* __restrict__ columns, const uint2* __restrict__ data,
    const uint4* __restrict__ b, uint4* __restrict__ c, float* __restrict__ parts, int pieces, int m, int n, int ldb,
    int ldc) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, slabs = (n + tile::SLAB - 1) / tile::SLAB;
    const unsigned warp = blockIdx.x * TILE_WARPS + threadIdx.x / 32;
    const int piece = warp / slabs, slab = warp % slabs;
    if (piece >= pieces) return;
    const int4 item = items[piece];
    const int column = slab * tile::SLAB + 8 * g, row_b = ldb / 8;
    const bool wanted = column < ldb;
    b += column / 8;

    auto load = [&](Operands& f, const int4& rows, int tile) {
        const int of[4] = {rows.x, rows.y, rows.z, rows.w};
        f.a = data[tile * 32 + lane];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            f.b[i] = of[i] >= 0 && wanted ? __ldg(b + static_cast<long long>(of[i]) * row_b) : make_uint4(0, 0, 0, 0);
        }
    };
    float sums[4][4] = {};
    auto product = [&](const Operands& f) {
        const unsigned values[2] = {f.a.x, f.a.y};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned w[4] = {word(f.b[0], j), word(f.b[1], j), word(f.b[2], j), word(f.b[3], j)};
            const unsigned fragment[4] = {
                __byte_perm(w[0], w[1], 0x5410), __byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x5410),
                __byte_perm(w[2], w[3], 0x7632)};
            multiply(sums[j], fragment, values, Values{});
        }
    };
    const int4 none = make_int4(-1, -1, -1, -1);
    auto rows_of = [&](int tile) { return tile < item.z ? columns[tile * 4 + t] : none; };

    // Columns of two tiles ahead and rows of B of one tile ahead are on their way.
    Operands even, odd;
    int tile = item.y;
    if (tile < item.z) {
        int4 next = rows_of(tile);
        load(even, next, tile);
        next = rows_of(tile + 1);
        for (; tile + 1 < item.z; tile += 2) {
            load(odd, next, tile + 1);
            next = rows_of(tile + 2);
            product(even);
            if (tile + 2 < item.z) load(even, next, tile + 2);
            next = rows_of(tile + 3);
            product(odd);
        }
        if (tile < item.z) product(even);
    }
    if (!wanted) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = 2 * t + i;
        if (item.w >= 0) {
            float4* to = reinterpret_cast<float4*>(
                tile::part_of(parts, item.w, row, slabs * tile::SLAB) + column);
            to[0] = make_float4(sums[0][i], sums[0][2 + i], sums[1][i], sums[1][2 + i]);
            to[1] = make_float4(sums[2][i], sums[2][2 + i], sums[3][i], sums[3][2 + i]);
        } else if (item.x * tile::WINDOW + row < m) {
            const uint4 out = make_uint4(
                Values::pack(sums[0][i], sums[0][2 + i]), Values::pack(sums[1][i], sums[1][2 + i]),
                Values::pack(sums[2][i], sums[2][2 + i]), Values::pack(sums[3][i], sums[3][2 + i]));
            __stcs(c + (static_cast<long long>(item.x * tile::WINDOW + row) * ldc + column) / 8, out);
        }
    }
}

// Rows of C of windows that were cut: a thread adds up eight columns of a row.
extern "C" __global__ void __launch_bounds__(64) add_parts(
    const int* __restrict__ cut, const float* __restrict__ parts, uint4* __restrict__ c, int m, int n, int ldc) {
    const int* window = cut + 3 * blockIdx.x;
    const int row = threadIdx.x / 8, column = blockIdx.y * tile::SLAB + threadIdx.x % 8 * 8;
    const int slabs = (n + tile::SLAB - 1) / tile::SLAB, at = window[0] * tile::WINDOW + row;
    if (at >= m || column >= ldc) return;
    float sums[8];
    tile::add_eight(sums, parts, window[1], window[2], row, slabs * tile::SLAB, column);
    c[(static_cast<long long>(at) * ldc + column) / 8] = make_uint4(
        Values::pack(sums[0], sums[1]), Values::pack(sums[2], sums[3]), Values::pack(sums[4], sums[5]),
        Values::pack(sums[6], sums[7]));
}
