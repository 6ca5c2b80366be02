/*---
name: window_fma
study: flagship
source: "our own; vectors of eight rows after FlashSparse (Shi et al. 2024)"
idea: windows of eight rows on CUDA cores in full FP32, a lane for four columns of C in all eight of them, rows of B in whole lines
after: window_tf32
family: window_f32
format: vectors_8x1
format_options: {ctas: 2, multiprocessors: device.multiprocessors, by_column: true}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, columns: 4, batch: 8, warps: 8, ctas: 2}
constants: {scaled: 0}
features: [cp_async]
scratch: (1024 * tile.columns + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: a.shares, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, alpha, beta
variants:
  medium:
    idea: strips of 64 columns, half a warp a row of B
    after: window_fma
    tile: {slab: 64, columns: 4, batch: 4, warps: 8, ctas: 2}
  narrow:
    idea: strips of 32 columns, half a warp a row of B, twice the warps
    after: window_fma
    tile: {slab: 32, columns: 2, batch: 4, warps: 8, ctas: 4}
  tf32:
    idea: the same on operands of TF32, to no less than its precision
    family: window_tf32
    after: window_fma
    dtype: {a: tf32, b: tf32}
  tf32_medium:
    idea: strips of 64 columns, half a warp a row of B
    family: window_tf32
    after: window_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {slab: 64, columns: 4, batch: 4, warps: 8, ctas: 2}
  tf32_narrow:
    idea: strips of 32 columns, half a warp a row of B, twice the warps
    family: window_tf32
    after: window_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {slab: 32, columns: 2, batch: 4, warps: 8, ctas: 4}
deviations: []
---*/
#include "ptx/cp_async.cuh"
#include "tile/windows.cuh"

namespace {

constexpr int TILE_K = 16, LANES = TILE_SLAB / TILE_COLUMNS, GROUPS = 32 / LANES;
static_assert(TILE_COLUMNS == 2 || TILE_COLUMNS == 4, "a lane has columns for a load of 8 or 16 bytes");
static_assert(GROUPS == 1 || GROUPS == 2 || GROUPS == 4, "a row of the strip takes a quarter of a warp at least");
// GROUPS rows of B are read at a time, TILE_BATCH times before the products of the batch before them.
constexpr int STEPS = TILE_K / GROUPS, BATCHES = STEPS / TILE_BATCH;
static_assert(STEPS % TILE_BATCH == 0, "a tile is a whole number of batches");

template <int COLUMNS>
struct Vector {
    using Type = float4;
};
template <>
struct Vector<2> {
    using Type = float2;
};
// A lane's columns of a row.
union Row {
    Vector<TILE_COLUMNS>::Type all;
    float of[TILE_COLUMNS];
};

// A lane's sums, of its columns in row after row.
constexpr int SUMS = tile::WINDOW * TILE_COLUMNS / 4;
__device__ __forceinline__ float& sum(float (&sums)[SUMS][4], int row, int column) {
    const int at = row * TILE_COLUMNS + column;
    return sums[at / 4][at % 4];
}

// A tile of A on its way through shared memory: its values, a column after the other, and its columns.
struct Staged {
    float4 values[TILE_K][2];
    int columns[TILE_K];
};
constexpr int STAGES = 3;

// Adds up what two lanes `distance` apart have of COUNT rows, half of the rows each: the upper half where `upper`. They
// become the lane's first rows.
template <int COUNT>
__device__ __forceinline__ void halve(float (&sums)[SUMS][4], int distance, bool upper) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
#pragma unroll
        for (int j = 0; j < TILE_COLUMNS; ++j) {
            const float low = sum(sums, i, j), high = sum(sums, i + COUNT / 2, j);
            sum(sums, i, j) = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, distance);
        }
    }
}

}  // namespace

// LANES lanes read a row of the strip of B at a time, whole lines of it, and multiply it by the eight values of its
// vector, so that a lane's sums are TILE_COLUMNS columns of all rows of the window. Tensor cores would want rows of B in slices
// of 32 bytes, for each of which the first-level cache spends as long as for a line.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int* __restrict__ ends,
    const int4* __restrict__ columns, const float4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, float alpha, float beta) {
    __shared__ __align__(16) Staged staged[TILE_WARPS][STAGES];
    const int lane = threadIdx.x % 32, group = lane / LANES;
    const int column = blockIdx.y * TILE_SLAB + TILE_COLUMNS * (lane % LANES);
    const char* strip = reinterpret_cast<const char*>(b + min(column, ldb - TILE_COLUMNS));
    const int stride = 4 * ldb;
    Staged* ring = staged[threadIdx.x / 32];

    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
        int row = window * tile::WINDOW;
        if constexpr (GROUPS >= 2) halve<8>(sums, 16, lane & 16), row += lane / 16 * 4;
        if constexpr (GROUPS == 4) halve<4>(sums, 8, lane & 8), row += lane / 8 % 2 * 2;
#pragma unroll
        for (int i = 0; i < tile::WINDOW / GROUPS; ++i) {
            if (row + i < m && column < ldc) {
                auto* to = reinterpret_cast<decltype(Row::all)*>(c + static_cast<long long>(row + i) * ldc + column);
                Row out;
#pragma unroll
                for (int j = 0; j < TILE_COLUMNS; ++j) out.of[j] = sum(sums, i, j);
                if constexpr (SCALED) {
                    Row old;
                    if (beta != 0.0f) old.all = *to;
#pragma unroll
                    for (int j = 0; j < TILE_COLUMNS; ++j) {
                        out.of[j] *= alpha;
                        if (beta != 0.0f) out.of[j] += beta * old.of[j];
                    }
                }
                __stcs(to, out.all);
            }
        }
    };
    tile::Part<TILE_WARPS, SUMS> mine({work, cut, parts, part_count}, ends);

    // Asks for a tile; of those before it, all but the last are there afterwards.
    const auto fetch = [&](int tile) {
        Staged& to = ring[static_cast<unsigned>(tile) % STAGES];
        const unsigned at = min(tile, mine.last);
        ptx::cp_async_16(&to.values[0][0] + lane, data + (at * 32 + lane));
        if (lane < TILE_K / 4) ptx::cp_async_16(to.columns + 4 * lane, columns + (at * 4 + lane));
        ptx::cp_async_commit();
        ptx::cp_async_wait<1>();
        __syncwarp();
    };
    Row rows[2][TILE_BATCH];
    const auto read = [&](Row(&to)[TILE_BATCH], const Staged& from, int batch) {
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            const int row = from.columns[(batch * TILE_BATCH + i) * GROUPS + group];
            to[i].all = __ldg(reinterpret_cast<const decltype(Row::all)*>(strip + static_cast<long long>(row) * stride));
        }
    };

    int window = -1, window_ahead = -1;
    if (mine.begin <= mine.last) {
        window_ahead = __ldcs(ends + mine.begin);
        fetch(mine.begin);
        fetch(mine.begin + 1);
        read(rows[0], ring[static_cast<unsigned>(mine.begin) % STAGES], 0);
#pragma unroll 1
        for (int tile = mine.begin; tile <= mine.last; ++tile) {
            window = window_ahead;
            window_ahead = __ldcs(ends + min(tile + 1, mine.last));
            fetch(tile + 2);
            const Staged& here = ring[static_cast<unsigned>(tile) % STAGES];
            const Staged& next = ring[static_cast<unsigned>(tile + 1) % STAGES];
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
                    const float4 low = here.values[vector][0], high = here.values[vector][1];
                    const float a[tile::WINDOW] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                    for (int j = 0; j < tile::WINDOW; ++j) {
#pragma unroll
                        for (int l = 0; l < TILE_COLUMNS; ++l) sum(mine.sums, j, l) += a[j] * rows[batch % 2][i].of[l];
                    }
                }
            }
            if constexpr (BATCHES % 2 != 0) {
#pragma unroll
                for (int i = 0; i < TILE_BATCH; ++i) rows[0][i] = rows[1][i];
            }
            __syncwarp();
            if (window >= 0) mine.close(window, store_window);
        }
    }
    mine.finish(window, store_window);
}
