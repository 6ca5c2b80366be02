/*---
name: window_f16
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: windows of eight rows as the narrow operand of a product, rows of B transposed between the lanes, equal shares of the tiles for all warps
family: window_f16
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 32, warps: 32, ctas: 1}
constants: {values: F16, scaled: 0}
features: [atom_inc, mma, mma_bf16, movmatrix]
scratch: (32 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: min(a.shares, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(2 * k * tile.slab, 1)))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32)
  args: a.work, a.cut, a.shares, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, (324 * a.blocks + b.nbytes + 2 * m * c.ld) * 6 // (5 * device.l2_bytes), alpha, beta
variants:
  bf16:
    idea: window_f16 in BF16
    family: window_bf16
    after: window_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
deviations: []
---*/
#include "ptx/movmatrix.cuh"
#include "tile/multiply_16.cuh"
#include "tile/windows.cuh"

namespace {

using Values = tile::VALUES;

constexpr int SUMS = 2;
static_assert(TILE_SLAB == 32, "four lanes read the strip of a row of B");

// What a lane needs of a tile: eight columns of two rows of B, the values of one row of A at four columns, and the window
// that ends here.
struct Operands {
    uint4 b[2];
    uint2 a;
    int window;
};

// Where a lane reads that; PASSES as of tile::load_once.
struct Source {
    const int2* of_columns;
    const uint2* data;
    const int* ends;
    const char* strip;
    int stride;

    template <bool PASSES>
    __device__ __forceinline__ int2 columns(unsigned tile) const {
        return tile::load_once<PASSES>(of_columns + (tile * 8 + threadIdx.x % 32 / 4));
    }
    template <bool PASSES>
    __device__ __forceinline__ void load(Operands& f, const int2& rows, unsigned tile) const {
        f.b[0] = __ldg(reinterpret_cast<const uint4*>(strip + static_cast<long long>(rows.x) * stride));
        f.b[1] = __ldg(reinterpret_cast<const uint4*>(strip + static_cast<long long>(rows.y) * stride));
        f.a = tile::load_once<PASSES>(data + (tile * 32 + threadIdx.x % 32));
        f.window = tile::load_once<PASSES>(ends + tile);
    }
};

// Stores the sums of eight columns; in code compiled as SCALED, alpha times them plus beta times what is there, which is
// not read for beta = 0.
__device__ __forceinline__ void store(unsigned short* c, const float (&sums)[8], float alpha, float beta) {
    uint4* to = reinterpret_cast<uint4*>(c);
    uint4 out = {};
    unsigned* pairs = reinterpret_cast<unsigned*>(&out);
    if constexpr (SCALED) {
        if (beta != 0.0f) out = *to;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
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
// stays in L2. Lane 4r + c reads 16 bytes of rows 2r and 2r + 1 of a tile, since the first-level cache serves one line at
// a time: lanes that read what they multiply would ask for twice as many. Transposed between the lanes, each then has
// every other of eight columns of C, which two lanes exchange before they store. Columns of C that there are not are
// computed from those that there are.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, int share_count, const int* __restrict__ ends,
    const int2* __restrict__ columns, const uint2* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, int beyond_l2, float alpha,
    float beta) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, odd = g % 2;
    const int read = blockIdx.y * TILE_SLAB + 8 * t, written = blockIdx.y * TILE_SLAB + 8 * (g / 2);
    const Source source = {columns, data, ends, reinterpret_cast<const char*>(b + min(read, ldb - 8)), 2 * ldb};
    tile::Part<TILE_WARPS, SUMS> mine({work, cut, share_count, parts, part_count}, ends, shared);

    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
        float row[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float first = sums[i / 2][i % 2 * 2], second = sums[i / 2][i % 2 * 2 + 1];
            const float own = odd ? second : first;
            const float other = __shfl_xor_sync(~0u, odd ? first : second, 4);
            row[2 * i] = odd ? other : own, row[2 * i + 1] = odd ? own : other;
        }
        const int at = window * tile::WINDOW + 2 * t + odd;
        if (at < m && written < ldc) store(c + static_cast<long long>(at) * ldc + written, row, alpha, beta);
    };
    const auto close = [&](int window) { mine.close(window, store_window); };
    const auto multiply = [&](const Operands& f) {
        // Rows of B come as the even columns of the tile, then as the odd ones.
        const unsigned values[2] = {__byte_perm(f.a.x, f.a.y, 0x5410), __byte_perm(f.a.x, f.a.y, 0x7632)};
        const unsigned of_even[4] = {f.b[0].x, f.b[0].y, f.b[0].z, f.b[0].w};
        const unsigned of_odd[4] = {f.b[1].x, f.b[1].y, f.b[1].z, f.b[1].w};
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const unsigned fragment[4] = {
                ptx::movmatrix_trans(of_even[2 * i]), ptx::movmatrix_trans(of_even[2 * i + 1]),
                ptx::movmatrix_trans(of_odd[2 * i]), ptx::movmatrix_trans(of_odd[2 * i + 1])};
            tile::multiply(mine.sums[i], fragment, values, Values{});
        }
    };
    const int window = beyond_l2
        ? tile::stream<true, Operands>(mine.begin, mine.last, source, multiply, close)
        : tile::stream<false, Operands>(mine.begin, mine.last, source, multiply, close);
    mine.finish(window, store_window);
}
