/*---
name: window_tf32
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: the same in TF32, the halves of whose numbers are transposed each for itself
after: window_f16
family: window_tf32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 32, warps: 32, ctas: 1}
constants: {terms: 1, scaled: 0}
features: [atom_inc, mma_tf32, movmatrix]
scratch: (32 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: min(a.shares, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1)))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32)
  args: a.work, a.cut, a.shares, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, (580 * a.blocks + b.nbytes + 4 * m * c.ld) * 6 // (5 * device.l2_bytes), alpha, beta
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
#include "ptx/movmatrix.cuh"
#include "tile/windows.cuh"

namespace {

constexpr int SUMS = 2;
static_assert(TILE_SLAB == 32, "eight lanes read the strip of a row of B");

// What a lane needs of a tile: four columns of four rows of B, the values of one row of A at four columns, and the window
// that ends here.
struct Operands {
    uint4 b[4];
    uint4 a;
    int window;
};

// Where a lane reads that; PASSES as of tile::load_once.
struct Source {
    const int4* of_columns;
    const uint4* data;
    const int* ends;
    const char* strip;
    int stride;

    template <bool PASSES>
    __device__ __forceinline__ int4 columns(unsigned tile) const {
        return tile::load_once<PASSES>(of_columns + (tile * 4 + threadIdx.x % 32 / 8));
    }
    template <bool PASSES>
    __device__ __forceinline__ void load(Operands& f, const int4& rows, unsigned tile) const {
        const int of[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            f.b[i] = __ldg(reinterpret_cast<const uint4*>(strip + static_cast<long long>(of[i]) * stride));
        }
        f.a = tile::load_once<PASSES>(data + (tile * 32 + threadIdx.x % 32));
        f.window = tile::load_once<PASSES>(ends + tile);
    }
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

// Of two neighbouring columns that lanes 8r to 8r + 7 hold of row r, lane 4g + t gets one of the first 16 columns and one
// of the others, of row t.
__device__ __forceinline__ void transpose(unsigned (&fragment)[4], int at, unsigned first, unsigned second) {
    const unsigned low = ptx::movmatrix_trans(__byte_perm(first, second, 0x5410));
    const unsigned high = ptx::movmatrix_trans(__byte_perm(first, second, 0x7632));
    fragment[at] = __byte_perm(low, high, 0x5410), fragment[at + 1] = __byte_perm(low, high, 0x7632);
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

// As window_f16: lanes 8r to 8r + 7 read 32 columns of rows 4r to 4r + 3 of a tile; two halves of a number are transposed
// each for itself.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_tf32(
    const int4* __restrict__ work, const int4* __restrict__ cut, int share_count, const int* __restrict__ ends,
    const int4* __restrict__ columns, const uint4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, int beyond_l2, float alpha,
    float beta) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, odd = g % 2;
    const int read = blockIdx.y * TILE_SLAB + lane % 8 * 4, written = blockIdx.y * TILE_SLAB + 4 * (g / 2);
    const Source source = {columns, data, ends, reinterpret_cast<const char*>(b + min(read, ldb - 4)), 4 * ldb};
    tile::Part<TILE_WARPS, SUMS> mine({work, cut, share_count, parts, part_count}, ends, shared);

    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
        const int at = window * tile::WINDOW + 2 * t + odd;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float row[4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float first = sums[i][2 * half], second = sums[i][2 * half + 1];
                const float own = odd ? second : first;
                const float other = __shfl_xor_sync(~0u, odd ? first : second, 4);
                row[2 * i] = odd ? other : own, row[2 * i + 1] = odd ? own : other;
            }
            const int to = written + 16 * half;
            if (at < m && to < ldc) {
                const float4 sum = make_float4(row[0], row[1], row[2], row[3]);
                store(c + static_cast<long long>(at) * ldc + to, sum, alpha, beta);
            }
        }
    };
    const auto close = [&](int window) { mine.close(window, store_window); };
    const auto multiply_tile = [&](const Operands& f) {
        const unsigned a[4] = {f.a.x, f.a.y, f.a.z, f.a.w};
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
            const unsigned values[2] = {a[k], a[k + 1]};
            unsigned low[4], high[4];
            transpose(low, 0, f.b[k].x, f.b[k].y), transpose(high, 0, f.b[k].z, f.b[k].w);
            transpose(low, 2, f.b[k + 1].x, f.b[k + 1].y), transpose(high, 2, f.b[k + 1].z, f.b[k + 1].w);
            multiply(mine.sums[0], low, values);
            multiply(mine.sums[1], high, values);
        }
    };
    const int window = beyond_l2
        ? tile::stream<true, Operands>(mine.begin, mine.last, source, multiply_tile, close)
        : tile::stream<false, Operands>(mine.begin, mine.last, source, multiply_tile, close);
    mine.finish(window, store_window);
}
