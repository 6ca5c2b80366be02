/*---
name: window_f16
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: windows of eight rows as the narrow operand of a product, B straight to the registers that multiply it, equal shares of the tiles for all warps
family: window_f16
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 32, warps: 20, ctas: 2}
constants: {values: F16, scaled: 0}
features: [mma, mma_bf16]
scratch: (32 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: a.shares, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32)
  args: a.work, a.cut, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, alpha, beta
variants:
  wide:
    idea: strips of 128 columns
    after: window_f16
    tile: {slab: 128, warps: 8, ctas: 2}
  bf16:
    idea: window_f16 in BF16
    family: window_bf16
    after: window_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: []
---*/
#include "tile/multiply_16.cuh"
#include "tile/windows.cuh"

namespace {

using Values = tile::VALUES;

// A lane holds WORDS pairs of neighbouring columns of a row of B, READ of them in one load.
constexpr int WORDS = TILE_SLAB / 16, READ = WORDS < 4 ? WORDS : 4, READS = WORDS / READ;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a strip has 32, 64 or 128 columns");

// What a lane needs of a tile: its columns of four rows of B, the values of one row of A that they meet, and the window
// that ends here.
struct Operands {
    unsigned b[4][WORDS];
    uint2 a;
    int window;
};

__device__ __forceinline__ void read(unsigned* words, const char* from) {
    if constexpr (READ == 4) {
        const uint4 x = __ldg(reinterpret_cast<const uint4*>(from));
        words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
    } else {
        const uint2 x = __ldg(reinterpret_cast<const uint2*>(from));
        words[0] = x.x, words[1] = x.y;
    }
}

template <int COLUMNS>
struct Vector {
    using Words = uint4;
};
template <>
struct Vector<4> {
    using Words = uint2;
};

// Stores the sums of neighbouring columns; in code compiled as SCALED, alpha times them plus beta times what is there,
// which is not read for beta = 0.
template <int COLUMNS>
__device__ __forceinline__ void store(unsigned short* c, const float (&sums)[COLUMNS], float alpha, float beta) {
    using Words = typename Vector<COLUMNS>::Words;
    Words* to = reinterpret_cast<Words*>(c);
    Words out = {};
    unsigned* pairs = reinterpret_cast<unsigned*>(&out);
    if constexpr (SCALED) {
        if (beta != 0.0f) out = *to;
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) {
        float low = sums[2 * i], high = sums[2 * i + 1];
        if constexpr (SCALED) {
            const float2 before = Values::unpack(pairs[i]);
            low = alpha * low + beta * before.x, high = alpha * high + beta * before.y;
        }
        pairs[i] = Values::pack(low, high);
    }
    __stcs(to, out);
}

}  // namespace

// A warp multiplies its share of the tiles by a strip of B; CTAs of one strip come one after the other, so that the strip
// stays in L2. The order of the 16 columns of a tile is free, and so is that of the columns of C: lane 4g + t takes columns
// 4t to 4t + 3 of A and 2·READ neighbouring columns of C, so that it reads and writes up to 16 bytes at a time, and a byte
// permutation makes fragments of them. Columns of C that there are not are computed from those that there are.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int* __restrict__ ends,
    const int4* __restrict__ columns, const uint2* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, float alpha,
    float beta) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int column = blockIdx.y * TILE_SLAB + 2 * READ * g;
    const char* strips[READS];
#pragma unroll
    for (int i = 0; i < READS; ++i) strips[i] = reinterpret_cast<const char*>(b + min(column + 64 * i, ldb - 2 * READ));
    const int stride = 2 * ldb;

    const auto store_window = [&](int window, float (&sums)[WORDS][4]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = window * tile::WINDOW + 2 * t + i;
#pragma unroll
            for (int j = 0; j < WORDS; j += READ) {
                float row[2 * READ];
#pragma unroll
                for (int word = 0; word < READ; ++word) {
                    row[2 * word] = sums[j + word][i], row[2 * word + 1] = sums[j + word][2 + i];
                }
                const int to = column + 16 * j;
                if (at < m && to < ldc) store(c + static_cast<long long>(at) * ldc + to, row, alpha, beta);
            }
        }
    };
    tile::Part<TILE_WARPS, WORDS> mine({work, cut, parts, part_count}, ends, shared);
    const int window = tile::stream<Operands>(
        mine.begin, mine.last,
        [&](unsigned tile) { return __ldcs(columns + (tile * 4 + t)); },
        [&](Operands& f, const int4& rows, unsigned tile) {
            const int of[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < READS; ++j) read(f.b[i] + READ * j, strips[j] + static_cast<long long>(of[i]) * stride);
            }
            f.a = __ldcs(data + (tile * 32 + lane));
            f.window = __ldcs(ends + tile);
        },
        [&](const Operands& f) {
            const unsigned values[2] = {f.a.x, f.a.y};
#pragma unroll
            for (int j = 0; j < WORDS; ++j) {
                const unsigned fragment[4] = {
                    __byte_perm(f.b[0][j], f.b[1][j], 0x5410), __byte_perm(f.b[0][j], f.b[1][j], 0x7632),
                    __byte_perm(f.b[2][j], f.b[3][j], 0x5410), __byte_perm(f.b[2][j], f.b[3][j], 0x7632)};
                tile::multiply(mine.sums[j], fragment, values, Values{});
            }
        },
        [&](int window) { mine.close(window, store_window); });
    mine.finish(window, store_window);
}
