/*---
name: window_fma
study: flagship
source: "our own; vectors of eight rows after FlashSparse (Shi et al. 2024)"
idea: windows of eight rows on CUDA cores in full FP32, a lane for four columns of C in all eight of them, rows of B in whole lines
after: window_tf32_f32
family: window_f32
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, batch: 8, warps: 12, ctas: 1}
constants: {scaled: 0}
features: [atom_inc]
scratch: (4096 + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: min(a.shares, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1)))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (4096 + 32)
  args: a.work, a.cut, a.shares, a.ends, a.columns, a.data, b, c, scratch, a.parts, m, b.ld, c.ld, alpha, beta
variants:
  medium:
    idea: strips of 64 columns, half a warp a row of B
    after: window_fma
    tile: {slab: 64, batch: 4, warps: 16, ctas: 1}
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
    tile: {slab: 64, batch: 4, warps: 16, ctas: 1}
deviations: []
---*/
#include "tile/windows.cuh"

namespace {

constexpr int TILE_K = 16, LANES = TILE_SLAB / 4, GROUPS = 32 / LANES;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a strip has 32, 64 or 128 columns");
// GROUPS rows of B are read at a time, TILE_BATCH times before the products of the batch before them.
constexpr int STEPS = TILE_K / GROUPS, BATCHES = STEPS / TILE_BATCH;
static_assert(STEPS % (2 * TILE_BATCH) == 0, "a tile is a whole number of pairs of batches");

// A tile of A on its way through shared memory, a column after the other; room between fours of columns keeps the lanes
// that write it in different banks.
struct Staged {
    int columns[TILE_K];
    float values[TILE_K / 4][4 * tile::WINDOW + 8];
};

// In code compiled as SCALED, alpha times the sums plus beta times what is there, which is not read for beta = 0.
__device__ __forceinline__ float4 scaled(float4 sum, const float* c, float alpha, float beta) {
    if constexpr (SCALED) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        if (beta != 0.0f) {
            const float4 old = *reinterpret_cast<const float4*>(c);
            sum.x += beta * old.x, sum.y += beta * old.y, sum.z += beta * old.z, sum.w += beta * old.w;
        }
    }
    return sum;
}

// Exchanges half of what is there with the lane `distance` away and adds what comes: COUNT rows of which this lane keeps
// the upper half where `upper`, as the first ones.
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

// LANES lanes read a row of the strip of B at a time, whole lines of it, and multiply it by the eight values of its
// vector, so that a lane's sums are four columns of all rows of the window. Tensor cores would want rows of B in slices
// of 32 bytes, for each of which the first-level cache spends as long as for a line.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) window_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, int share_count, const int* __restrict__ ends,
    const int* __restrict__ columns, const float4* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int m, int ldb, int ldc, float alpha, float beta) {
    extern __shared__ __align__(16) char shared[];
    __shared__ Staged staged[TILE_WARPS][2];
    const int lane = threadIdx.x % 32, group = lane / LANES;
    const int column = blockIdx.y * TILE_SLAB + 4 * (lane % LANES);
    const char* strip = reinterpret_cast<const char*>(b + min(column, ldb - 4));
    const int stride = 4 * ldb;
    Staged* ring = staged[threadIdx.x / 32];

    const auto store_window = [&](int window, float (&sums)[tile::WINDOW][4]) {
        int row = window * tile::WINDOW;
        if constexpr (GROUPS >= 2) halve<8>(sums, 16, lane & 16), row += lane / 16 * 4;
        if constexpr (GROUPS == 4) halve<4>(sums, 8, lane & 8), row += lane / 8 % 2 * 2;
#pragma unroll
        for (int i = 0; i < tile::WINDOW / GROUPS; ++i) {
            if (row + i < m && column < ldc) {
                float* to = c + static_cast<long long>(row + i) * ldc + column;
                const float4 sum = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
                __stcs(reinterpret_cast<float4*>(to), scaled(sum, to, alpha, beta));
            }
        }
    };
    tile::Part<TILE_WARPS, tile::WINDOW> mine({work, cut, share_count, parts, part_count}, ends, shared);

    // The tile after next, in registers.
    float4 values;
    int tile_columns, window_ahead;
    const auto fetch = [&](int tile) {
        const unsigned at = min(tile, mine.last);
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
            to[i] = __ldg(reinterpret_cast<const float4*>(strip + static_cast<long long>(row) * stride));
        }
    };

    int window = -1;
    if (mine.begin <= mine.last) {
        fetch(mine.begin);
        stage(ring[0]);
        int window_here = window_ahead;
        fetch(mine.begin + 1);
        __syncwarp();
        read(rows[0], ring[0], 0);
#pragma unroll 1
        for (int tile = mine.begin; tile <= mine.last; ++tile) {
            const Staged& here = ring[(tile - mine.begin) % 2];
            Staged& next = ring[(tile - mine.begin + 1) % 2];
            stage(next);
            window = window_here, window_here = window_ahead;
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
                        mine.sums[j][0] += a[j] * x.x, mine.sums[j][1] += a[j] * x.y;
                        mine.sums[j][2] += a[j] * x.z, mine.sums[j][3] += a[j] * x.w;
                    }
                }
            }
            __syncwarp();
            if (window >= 0) mine.close(window, store_window);
        }
    }
    mine.finish(window, store_window);
}
