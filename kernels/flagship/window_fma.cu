/*---
name: window_fma
study: flagship
source: "our own; vectors of eight rows after FlashSparse (Shi et al. 2024)"
idea: windows of eight rows on CUDA cores in full FP32; a lane computes four columns of C in all eight rows, and rows of B are read in whole lines
after: window_tf32_f32
family: window_f32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12, wave_columns: "wave_columns(4 * 128, device.l2_bytes)"}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, batch: 8, warps: 12, ctas: 1}
constants: {scaled: 0}
features: [atom_inc]
scratch: (4096 + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: min(a.partitions, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(4 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (4096 + 32)
  args: a.work, a.cut, a.partitions, a.ends, a.columns, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, alpha, beta
variants:
  medium:
    idea: slabs of 64 columns, with half a warp per row of B
    after: window_fma
    tile: {slab: 64, batch: 4, warps: 16, ctas: 1}
  tf32:
    idea: window_fma on TF32 operands, at no less than TF32 precision
    family: window_tf32
    after: window_fma
    dtype: {a: tf32, b: tf32}
  tf32_medium:
    idea: slabs of 64 columns, with half a warp per row of B
    family: window_tf32
    after: window_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {slab: 64, batch: 4, warps: 16, ctas: 1}
deviations:
  - "a NaN or an infinity in a row of B reaches all eight rows of a window in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a window without entries, which has one tile, of column 0"
---*/
#include "tile/reordered.cuh"
#include "tile/store.cuh"
#include "tile/windows.cuh"

namespace {

constexpr int TILE_K = 16, LANES = TILE_SLAB / 4, GROUPS = 32 / LANES;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a slab has 32, 64 or 128 columns");
// The warp reads GROUPS rows of B at a time. A batch is TILE_BATCH such reads; the next batch is in flight while one is
// multiplied.
constexpr int STEPS = TILE_K / GROUPS, BATCHES = STEPS / TILE_BATCH;
static_assert(STEPS % (2 * TILE_BATCH) == 0, "a tile is a whole number of pairs of batches");

// A tile of A in shared memory, column by column. The padding after every four columns keeps the lanes that write it in
// different banks.
struct Staged {
    int columns[TILE_K];
    float values[TILE_K / 4][4 * tile::WINDOW + 8];
};

// Add the sums of this lane and of the lane `distance` away, for COUNT rows: each lane sends one half of the rows and
// receives the other. The lane keeps the upper half if `upper`, and moves it to the first COUNT / 2 rows.
template <int COUNT>
__device__ __forceinline__ void halve(float (&sums)[tile::WINDOW][4], int distance, bool upper) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float given = upper ? sums[i][j] : sums[i + COUNT / 2][j];
            const float kept = upper ? sums[i + COUNT / 2][j] : sums[i][j];
            sums[i][j] = kept + __shfl_xor_sync(~0u, given, distance);
        }
    }
}

}  // namespace

// A lane group reads the slab of one row of B at a time, in whole lines, and multiplies it by the eight values of its
// vector: a lane sums four columns of all rows of the window. Tensor cores would read rows of B in slices of 32 bytes,
// each of which takes L1 as long as a line. Out-of-range lanes read the last valid columns; their results are never
// stored.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, int partition_count, const int* __restrict__ ends,
    const int* __restrict__ columns, const float4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* partials, int partial_count, int m, int ldb, int ldc, float alpha,
    float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ __align__(16) char shared[];
    __shared__ Staged staged[TILE_WARPS][2];
    const int lane = threadIdx.x % 32, group = lane / LANES;
    const int column = blockIdx.y * TILE_SLAB + 4 * (lane % LANES);
    const char* b_slab = reinterpret_cast<const char*>(b + min(column, ldb - 4));
    const int stride = 4 * ldb;
    Staged* ring = staged[threadIdx.x / 32];

    const auto store_window = [&](int window, float (&sums)[tile::WINDOW][4]) {
        int row = window * tile::WINDOW;
        if constexpr (GROUPS >= 2) halve<8>(sums, 16, lane & 16), row += lane / 16 * 4;
        if constexpr (GROUPS == 4) halve<4>(sums, 8, lane & 8), row += lane / 8 % 2 * 2;
#pragma unroll
        for (int i = 0; i < tile::WINDOW / GROUPS; ++i) {
            if (row + i < m && column < ldc) {
                float* to = c + static_cast<long long>(row_of_c(row + i)) * ldc + column;
                const float4 sum = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
                tile::store<SCALED>(reinterpret_cast<float4*>(to), sum, alpha, beta, epilogue, column);
            }
        }
    };
    tile::WarpTiles<TILE_WARPS, tile::WINDOW> tiles({work, cut, partition_count, partials, partial_count}, ends, shared);

    // The tile after the next one, in registers.
    float4 values;
    int tile_columns, window_ahead;
    const auto fetch = [&](int tile) {
        const unsigned at = min(tile, tiles.last);
        values = __ldcs(data + (at * 32 + lane));
        tile_columns = __ldcs(columns + (at * TILE_K + lane % TILE_K));
        window_ahead = __ldcs(ends + at);
    };
    const auto stage = [&](Staged& to) {
        float* at = to.values[lane % 4] + lane / 4;
        at[0] = values.x, at[tile::WINDOW] = values.y, at[2 * tile::WINDOW] = values.z, at[3 * tile::WINDOW] = values.w;
        if (lane < TILE_K) to.columns[lane] = tile_columns;
    };
    float4 rows[2][TILE_BATCH];
    const auto read = [&](float4(&to)[TILE_BATCH], const Staged& from, int batch) {
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            const int row = from.columns[(batch * TILE_BATCH + i) * GROUPS + group];
            to[i] = __ldg(reinterpret_cast<const float4*>(b_slab + static_cast<long long>(row) * stride));
        }
    };

    int window = -1;
    if (tiles.begin <= tiles.last) {
        fetch(tiles.begin);
        stage(ring[0]);
        int next_window = window_ahead;
        fetch(tiles.begin + 1);
        __syncwarp();
        read(rows[0], ring[0], 0);
#pragma unroll 1
        for (int tile = tiles.begin; tile <= tiles.last; ++tile) {
            const Staged& here = ring[(tile - tiles.begin) % 2];
            Staged& next = ring[(tile - tiles.begin + 1) % 2];
            stage(next);
            window = next_window, next_window = window_ahead;
            fetch(tile + 2);
            __syncwarp();
#pragma unroll
            for (int batch = 0; batch < BATCHES; ++batch) {
                if (batch + 1 < BATCHES) {
                    read(rows[(batch + 1) % 2], here, batch + 1);
                } else {
                    read(rows[(batch + 1) % 2], next, 0);
                }
#pragma unroll
                for (int i = 0; i < TILE_BATCH; ++i) {
                    const int vector = (batch * TILE_BATCH + i) * GROUPS + group;
                    const float4* of = reinterpret_cast<const float4*>(
                        here.values[vector / 4] + vector % 4 * tile::WINDOW);
                    const float4 low = of[0], high = of[1], x = rows[batch % 2][i];
                    const float a[tile::WINDOW] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                    for (int j = 0; j < tile::WINDOW; ++j) {
                        tiles.sums[j][0] += a[j] * x.x, tiles.sums[j][1] += a[j] * x.y;
                        tiles.sums[j][2] += a[j] * x.z, tiles.sums[j][3] += a[j] * x.w;
                    }
                }
            }
            __syncwarp();
            if (window >= 0) tiles.close(window, store_window);
        }
    }
    tiles.finish(window, store_window);
}
