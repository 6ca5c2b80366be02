/*---
name: window_tf32
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: the same in TF32, whose numbers lanes hand to each other whole
after: window_f16
family: window_tf32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {rows: 8, slab: 32, warps: 32, ctas: 1}
constants: {terms: 1, scaled: 0}
features: [atom_inc, mma_tf32]
scratch: (4 * tile.rows * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: min(a.shares, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1)))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (4 * tile.rows * tile.slab + 32)
  args: a.work, a.cut, a.shares, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, ((64 * tile.rows + 68) * a.blocks + b.nbytes + 4 * m * c.ld) * 6 // (5 * device.l2_bytes), alpha, beta
variants:
  tall:
    idea: windows of sixteen rows, two products for each row of B that is read
    after: window_tf32
    # Full tiles, and of wider products those between the small ones that rows_fma_tf32 takes and the large ones.
    suits: nnz >= (55 if n <= 64 else 26) * usual.blocks and (n <= 64 or 150000 * device.multiprocessors <= n * nnz < 500000 * device.multiprocessors)
    format: vectors_16x1
    tile: {rows: 16, slab: 32, warps: 24, ctas: 1}
  tall_wide:
    idea: strips of 128 columns
    after: window_tf32_tall
    suits: n > 64 and n * nnz >= 500000 * device.multiprocessors and nnz >= (33 if n <= 512 else 25) * usual.blocks
    format: vectors_16x1
    tile: {rows: 16, slab: 128, warps: 12, ctas: 1}
  f32:
    idea: three products of halves of the operands, which lose no more than FP32 does
    family: window_f32
    after: window_tf32
    dtype: {a: float32, b: float32}
    tile: {warps: 28}
    constants: {terms: 3}
deviations: [three products lose an infinity, which becomes NaN]
---*/
#include "tile/multiply_tf32.cuh"
#include "tile/store.cuh"
#include "tile/windows.cuh"

namespace {

// Lines of 32 columns in a strip, eights of rows in a window, and products of 16 columns and eight rows.
constexpr int LINES = TILE_SLAB / 32, EIGHTS = TILE_ROWS / 8, SUMS = 2 * LINES * EIGHTS;
static_assert(LINES * 32 == TILE_SLAB, "eight lanes read a line of a row of B");
static_assert(EIGHTS * 8 == TILE_ROWS, "a product has eight rows");

// What a lane needs of a tile: four columns of each line of four rows of B, the values of one row of A in eight at four
// columns, and the window that ends here.
struct Operands {
    uint4 b[4][LINES], a[EIGHTS];
    int window;
};

// Where a lane reads that; PASSES as of tile::load_once.
struct Source {
    const int4* of_columns;
    const uint4* data;
    const int* ends;
    const char* strip;
    // Bytes of a row of B, and lines that have columns for this lane; in place of the others it reads the first one.
    int stride, lines;

    template <bool PASSES>
    __device__ __forceinline__ int4 columns(unsigned tile) const {
        return tile::load_once<PASSES>(of_columns + (tile * 4 + threadIdx.x % 32 / 8));
    }
    template <bool PASSES>
    __device__ __forceinline__ void load(Operands& f, const int4& rows, unsigned tile) const {
        const int of[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* row = strip + static_cast<long long>(of[i]) * stride;
#pragma unroll
            for (int j = 0; j < LINES; ++j) {
                f.b[i][j] = __ldg(reinterpret_cast<const uint4*>(row + (j < lines ? 128 * j : 0)));
            }
        }
#pragma unroll
        for (int i = 0; i < EIGHTS; ++i) {
            f.a[i] = tile::load_once<PASSES>(data + ((tile * EIGHTS + i) * 32 + threadIdx.x % 32));
        }
        f.window = tile::load_once<PASSES>(ends + tile);
    }
};

// Four columns of row t: lane 4g + t gets what lane 8t + g has.
__device__ __forceinline__ uint4 of_row(const uint4& x) {
    const int from = threadIdx.x % 4 * 8 + threadIdx.x % 32 / 4;
    return make_uint4(
        __shfl_sync(~0u, x.x, from), __shfl_sync(~0u, x.y, from), __shfl_sync(~0u, x.z, from),
        __shfl_sync(~0u, x.w, from));
}

}  // namespace

// Lanes 8r to 8r + 7 read a line of rows 4r to 4r + 3 of a tile. A product of tensor cores wants rows, not lines, in
// neighbouring lanes, which hand them to each other; which of the columns are called neighbours is free, so that a lane
// ends with four real ones of two rows of C.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_tf32(
    const int4* __restrict__ work, const int4* __restrict__ cut, int share_count, const int* __restrict__ ends,
    const int4* __restrict__ columns, const uint4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, int beyond_l2, float alpha,
    float beta) {
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int read = min(blockIdx.y * TILE_SLAB + lane % 8 * 4, ldb - 4), written = blockIdx.y * TILE_SLAB + 4 * g;
    const char* strip = reinterpret_cast<const char*>(b + read);
    const Source source = {columns, data, ends, strip, 4 * ldb, (ldb - read + 31) / 32};
    tile::Part<TILE_WARPS, SUMS> mine({work, cut, share_count, parts, part_count}, ends, shared);

    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
#pragma unroll
        for (int i = 0; i < 2 * EIGHTS; ++i) {
            const int row = window * TILE_ROWS + i / 2 * 8 + 2 * t + i % 2;
#pragma unroll
            for (int j = 0; j < LINES; ++j) {
                const float* first = sums[2 * (i / 2 * LINES + j)];
                const float* second = sums[2 * (i / 2 * LINES + j) + 1];
                const float4 sum = make_float4(first[i % 2], first[2 + i % 2], second[i % 2], second[2 + i % 2]);
                const int to = written + 32 * j;
                if (row < m && to < ldc) {
                    float* four = c + static_cast<long long>(row) * ldc + to;
                    tile::store<SCALED>(reinterpret_cast<float4*>(four), sum, alpha, beta);
                }
            }
        }
    };
    const auto close = [&](int window) { mine.close(window, store_window); };
    const auto multiply_tile = [&](const Operands& f) {
        // Tensor cores cut sums off instead of rounding them. Of FP32 operands they add no more than a tile.
        float of_tile[SUMS][4] = {};
        float(&sums)[SUMS][4] = TERMS == 3 ? of_tile : mine.sums;
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
#pragma unroll
            for (int j = 0; j < LINES; ++j) {
                const uint4 x = of_row(f.b[k][j]), y = of_row(f.b[k + 1][j]);
                const unsigned first[4] = {x.x, x.y, y.x, y.y}, second[4] = {x.z, x.w, y.z, y.w};
#pragma unroll
                for (int i = 0; i < EIGHTS; ++i) {
                    const unsigned values[2] = {k == 0 ? f.a[i].x : f.a[i].z, k == 0 ? f.a[i].y : f.a[i].w};
                    tile::multiply<TERMS>(sums[2 * (i * LINES + j)], first, values);
                    tile::multiply<TERMS>(sums[2 * (i * LINES + j) + 1], second, values);
                }
            }
        }
        if constexpr (TERMS == 3) {
#pragma unroll
            for (int i = 0; i < 4 * SUMS; ++i) mine.sums[i / 4][i % 4] += of_tile[i / 4][i % 4];
        }
    };
    // Beside wide rows of B and C, A is not worth a choice.
    const int window = LINES > 1 || beyond_l2
        ? tile::stream<true, Operands>(mine.begin, mine.last, source, multiply_tile, close)
        : tile::stream<false, Operands>(mine.begin, mine.last, source, multiply_tile, close);
    mine.finish(window, store_window);
}
