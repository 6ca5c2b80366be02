/*---
name: window_tf32
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); loads, schedule and sums are our own"
idea: window_f16 in TF32, where lanes exchange values by shuffles
after: window_f16
family: window_tf32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12, wave_columns: "wave_columns(4 * 128, device.l2_bytes)"}
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {rows: 8, slab: 32, warps: 32, ctas: 1}
constants: {terms: 1, scaled: 0}
features: [atom_inc, mma_tf32]
scratch: (4 * tile.rows * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: min(a.partitions, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(4 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (4 * tile.rows * tile.slab + 32)
  args: a.work, a.cut, a.partitions, a.ends, a.columns, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, ((64 * tile.rows + 68) * a.blocks + b.nbytes + 4 * m * c.ld) * 6 // (5 * device.l2_bytes), alpha, beta
variants:
  tall:
    idea: windows of sixteen rows, so that each row of B that is read serves two products
    after: window_tf32
    format: vectors_16x1
    tile: {rows: 16, slab: 32, warps: 24, ctas: 1}
  tall_wide:
    idea: slabs of 128 columns
    after: window_tf32_tall
    format: vectors_16x1
    tile: {rows: 16, slab: 128, warps: 12, ctas: 1}
  f32:
    idea: three TF32 products of split operands, which lose some four times what FP32 does
    family: window_f32
    after: window_tf32
    dtype: {a: float32, b: float32}
    tile: {warps: 28}
    constants: {terms: 3}
deviations:
  - "a NaN or an infinity in a row of B reaches all rows of a window in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a window without entries, which has one tile, of column 0"
  - "the three products turn an infinity into NaN"
---*/
#include "tile/multiply_tf32.cuh"
#include "tile/reordered.cuh"
#include "tile/store.cuh"
#include "tile/windows.cuh"

namespace {

// Lines of 32 columns in a slab, groups of eight rows in a window, and products of 16 columns by eight rows.
constexpr int LINES = TILE_SLAB / 32, EIGHTS = TILE_ROWS / 8, SUMS = 2 * LINES * EIGHTS;
static_assert(LINES * 32 == TILE_SLAB, "eight lanes read a line of a row of B");
static_assert(EIGHTS * 8 == TILE_ROWS, "a product has eight rows");

// A lane's operands of one tile: four columns of each line of four rows of B, four values of one row of A for each
// group of eight rows, and the window that ends with the tile, or -1.
struct Operands {
    uint4 b[4][LINES], a[EIGHTS];
    int window;
};

// Where a lane loads them from; PASSES as for tile::load_once.
struct Source {
    const int4* column_fours;
    const uint4* data;
    const int* ends;
    const char* b_slab;
    // Bytes of a row of B, and how many lines have columns for this lane; instead of the others it reads the first one.
    int stride, lines;

    template <bool PASSES>
    __device__ __forceinline__ int4 columns(unsigned tile) const {
        return tile::load_once<PASSES>(column_fours + (tile * 4 + threadIdx.x % 32 / 8));
    }
    template <bool PASSES>
    __device__ __forceinline__ void load(Operands& f, const int4& rows, unsigned tile) const {
        const int of[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* row = b_slab + static_cast<long long>(of[i]) * stride;
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

// Lane 4g + t gets what lane 8t + g has.
__device__ __forceinline__ uint4 exchange(const uint4& x) {
    const int from = threadIdx.x % 4 * 8 + threadIdx.x % 32 / 4;
    return make_uint4(
        __shfl_sync(~0u, x.x, from), __shfl_sync(~0u, x.y, from), __shfl_sync(~0u, x.z, from),
        __shfl_sync(~0u, x.w, from));
}

}  // namespace

// Eight lanes read a line of a row of B, but mma wants rows in neighbouring lanes, so the lanes exchange what they
// read:
//
//   loads      lane 8r + c: columns 4c to 4c + 3 of each line of rows 4r to 4r + 3 of the tile's 16 rows of B
//   shuffle    lane 4g + t: columns 4g to 4g + 3 of rows 4t to 4t + 3, from lane 8t + g
//   sums       lane 4g + t: columns 4g to 4g + 3 of rows 2t and 2t + 1 of the window
//
// Rows g and g + 8 of the first product are columns 4g and 4g + 1, those of the second 4g + 2 and 4g + 3. The order of
// columns within a fragment is free, and with this one a lane stores four neighbouring columns of C. Out-of-range
// columns load valid ones; their results are never stored.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_tf32(
    const int4* __restrict__ work, const int4* __restrict__ cut, int partition_count, const int* __restrict__ ends,
    const int4* __restrict__ columns, const uint4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* partials, int partial_count, int m, int ldb, int ldc, int beyond_l2, float alpha,
    float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ __align__(16) char shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int read = min(blockIdx.y * TILE_SLAB + lane % 8 * 4, ldb - 4), written = blockIdx.y * TILE_SLAB + 4 * g;
    const char* b_slab = reinterpret_cast<const char*>(b + read);
    const Source source = {columns, data, ends, b_slab, 4 * ldb, (ldb - read + 31) / 32};
    tile::WarpTiles<TILE_WARPS, SUMS> tiles({work, cut, partition_count, partials, partial_count}, ends, shared);

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
                    float* four = c + static_cast<long long>(row_of_c(row)) * ldc + to;
                    tile::store<SCALED>(reinterpret_cast<float4*>(four), sum, alpha, beta, epilogue, to);
                }
            }
        }
    };
    const auto close = [&](int window) { tiles.close(window, store_window); };
    const auto multiply_tile = [&](const Operands& f) {
        // Tensor cores truncate sums instead of rounding them. For FP32 operands they only add up one tile.
        float tile_sums[SUMS][4] = {};
        float(&sums)[SUMS][4] = TERMS == 3 ? tile_sums : tiles.sums;
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
#pragma unroll
            for (int j = 0; j < LINES; ++j) {
                const uint4 x = exchange(f.b[k][j]), y = exchange(f.b[k + 1][j]);
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
            for (int i = 0; i < 4 * SUMS; ++i) tiles.sums[i / 4][i % 4] += tile_sums[i / 4][i % 4];
        }
    };
    // Next to wide rows of B and C, A is too small for the choice to matter.
    const int window = LINES > 1 || beyond_l2
        ? tile::stream<true, Operands>(tiles.begin, tiles.last, source, multiply_tile, close)
        : tile::stream<false, Operands>(tiles.begin, tiles.last, source, multiply_tile, close);
    tiles.finish(window, store_window);
}
