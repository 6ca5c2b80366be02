/*---
name: staged_f16
study: flagship
source: "operands swapped after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025); stages, schedule and sums are our own"
idea: rows of B through a ring of stages in shared memory, one ring per warp, so that they are read in lines instead of sectors
after: window_f16
family: window_f16
format: vectors_8x1
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: 12, wave_columns: "wave_columns(2 * 128, device.l2_bytes)"}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 128, stages: 2, warps: 12, ctas: 1}
constants: {values: F16, scaled: 0}
features: [atom_inc, cp_async, cp_async_ca, ldmatrix_trans, mma, mma_bf16]
scratch: (32 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: min(a.partitions, max(1, device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(2 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(2 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  smem: tile.warps * (32 * tile.slab + 32) + 32 * tile.warps * tile.stages * (tile.slab + 12)
  args: a.work, a.cut, a.partitions, a.ends, a.columns, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, alpha, beta
variants:
  medium:
    idea: slabs of 64 columns, and twice the warps
    after: staged_f16
    tile: {slab: 64, stages: 2, warps: 24, ctas: 1}
  bf16:
    idea: staged_f16 in BF16
    family: window_bf16
    after: staged_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
  bf16_medium:
    idea: slabs of 64 columns in BF16
    family: window_bf16
    after: staged_f16_bf16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    tile: {slab: 64, stages: 2, warps: 24, ctas: 1}
    constants: {values: Bf16}
deviations:
  - "a NaN or an infinity in a row of B reaches all eight rows of a window in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a window without entries, which has one tile, of column 0"
---*/
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_ca.cuh"
#include "ptx/ldmatrix_trans.cuh"
#include "tile/multiply_16.cuh"
#include "tile/reordered.cuh"
#include "tile/store.cuh"
#include "tile/windows.cuh"

namespace {

using Values = tile::VALUES;

// Chunks of 16 bytes in a row of the slab, and the number of rows of which a lane copies its chunk.
constexpr int CHUNKS = TILE_SLAB / 8, ROWS = CHUNKS / 2, SUMS = TILE_SLAB / 16;
// A stage in shared memory, offsets in bytes:
//
//   0            | row 0 of the tile's rows of B  | 16 bytes of A |
//   15·PITCH     | row 15                         | 16 bytes of A |
//   NEXT         | column ids of the tile that fills this stage next, 64 bytes |
//   WINDOW_ID    | window that ends with this tile, or -1 | unused |
//
// The bytes of A shift each row of B by four banks, so that neither the copies nor ldmatrix have bank conflicts.
constexpr int PITCH = 2 * TILE_SLAB + 16, NEXT = 16 * PITCH, WINDOW_ID = NEXT + 64, STAGE = NEXT + 128;
// The sums of a window pass through a stage too. With this pitch in floats, rows 0, 2, 4 and 6 are eight banks apart.
constexpr int SUMS_PITCH = TILE_SLAB + 4;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a slab has 32, 64 or 128 columns");
static_assert(TILE_STAGES >= 2, "one stage is multiplied while others are in flight");
static_assert(4 * tile::WINDOW * SUMS_PITCH <= NEXT, "the sums of a window fit into a stage");

// The ids of the columns of a tile whose rows of B a lane copies.
struct Columns {
    int id[ROWS];
};
__device__ __forceinline__ Columns read(const int* from) {
    Columns x;
    if constexpr (ROWS == 2) {
        const int2 two = *reinterpret_cast<const int2*>(from);
        x.id[0] = two.x, x.id[1] = two.y;
    } else {
#pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            const int4 four = *reinterpret_cast<const int4*>(from + i);
            x.id[i] = four.x, x.id[i + 1] = four.y, x.id[i + 2] = four.z, x.id[i + 3] = four.w;
        }
    }
    return x;
}

// The stage row of a tile's column: columns 4t to 4t + 3 go to rows 2t, 2t + 1, 2t + 8 and 2t + 9. The order of the
// columns is free; with this one the four values that lane 4g + t multiplies are 8 neighbouring bytes of A.
constexpr __device__ int stage_row(int column) { return column / 4 * 2 + column / 2 % 2 * 8 + column % 2; }

}  // namespace

// As window_f16, but B goes through shared memory: eight lanes copy 128 neighbouring bytes. A stage is refilled as soon
// as it is multiplied. If a window ends, its sums pass through the stage first, so that rows of C are written in lines.
// Out-of-range columns load the last valid chunk; their results are never stored.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) staged_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, int partition_count, const int* __restrict__ ends,
    const int* __restrict__ columns, const uint4* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, float4* partials, int partial_count, int m, int ldb, int ldc, float alpha,
    float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ __align__(16) char shared[];
    using Tiles = tile::WarpTiles<TILE_WARPS, SUMS>;
    char* const rings = shared + TILE_WARPS * sizeof(Tiles::Shared);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int ring = threadIdx.x / 32 * TILE_STAGES * STAGE;
    // CHUNKS lanes copy one row. In slabs of 32 columns, groups of four lanes are paired so that eight neighbouring
    // lanes copy two rows without bank conflicts. `first` is the lane's first column of the tile, and `copied` the
    // offset of its chunk in a stage, (stage_row(first), chunk).
    const int group = lane / CHUNKS, chunk = lane % CHUNKS;
    const int fours = ROWS == 2 ? 2 * (group % 2) + group / 2 % 2 : group * ROWS / 4;
    const int half = ROWS == 2 ? group / 4 : 0;
    const int first = 4 * fours + 2 * half;
    const int copied = (2 * fours + 8 * half) * PITCH + 16 * chunk;
    // This lane's row for ldmatrix, and its four values of A.
    const int fragment = (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
    const int values = lane / 2 * PITCH + 2 * TILE_SLAB + lane % 2 * 8;
    const int slab = blockIdx.y * TILE_SLAB;
    const char* from = reinterpret_cast<const char*>(b + min(slab + 8 * chunk, ldb - 8));
    const int stride = 2 * ldb;

    Tiles tiles({work, cut, partition_count, partials, partial_count}, ends, shared);
    // Lanes 0 to 15 copy A, lanes 16 to 19 the column ids of the tile that fills the stage next.
    const bool of_a = lane < 16;
    const void* tile_data = of_a ? static_cast<const void*>(data + lane) : columns + 4 * (lane - 16);
    const char* others = static_cast<const char*>(tile_data);
    const unsigned others_stride = of_a ? 256 : 64, others_ahead = of_a ? 0 : TILE_STAGES;
    const int others_to = of_a ? lane * PITCH + 2 * TILE_SLAB : NEXT + 16 * (lane - 16);
    const auto copy = [&](int stage, const Columns& rows, int tile) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            char* to = rings + stage + copied + stage_row(i) * PITCH;
            const char* row = from + static_cast<long long>(rows.id[i]) * stride;
            ptx::cp_async_16_cached(to, row);
        }
        if (lane < 20) {
            const unsigned long long which = min(tile + others_ahead, static_cast<unsigned>(tiles.last));
            ptx::cp_async_16(rings + stage + others_to, others + which * others_stride);
        }
        if (lane == 0) ptx::cp_async_4_cached(rings + stage + WINDOW_ID, ends + tile);
    };

    int stage = ring;
    const auto store_window = [&](int window, float (&sums)[SUMS][4]) {
        float* rows = reinterpret_cast<float*>(rings + stage);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < SUMS; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) rows[(2 * t + i % 2) * SUMS_PITCH + 16 * j + i / 2 * 8 + g] = sums[j][i];
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const int row = i * (128 / TILE_SLAB) + lane / (TILE_SLAB / 4), column = lane % (TILE_SLAB / 4) * 4;
            const int at = window * tile::WINDOW + row, to = slab + column;
            const float4 sum = *reinterpret_cast<const float4*>(rows + row * SUMS_PITCH + column);
            if (at < m && to < ldc) {
                unsigned short* four = c + static_cast<long long>(row_of_c(at)) * ldc + to;
                tile::store<Values, SCALED>(reinterpret_cast<uint2*>(four), sum, alpha, beta, epilogue, to);
            }
        }
    };

    int window = -1;
    if (tiles.begin <= tiles.last) {
        Columns rows[TILE_STAGES];
#pragma unroll
        for (int i = 0; i < TILE_STAGES; ++i) rows[i] = read(columns + (16ll * min(tiles.begin + i, tiles.last) + first));
#pragma unroll
        for (int i = 0; i < TILE_STAGES; ++i) {
            if (tiles.begin + i <= tiles.last) copy(ring + i * STAGE, rows[i], tiles.begin + i);
            ptx::cp_async_commit();
        }
#pragma unroll 1
        for (int tile = tiles.begin; tile <= tiles.last; ++tile) {
            ptx::cp_async_wait<TILE_STAGES - 1>();
            __syncwarp();
            window = *reinterpret_cast<const int*>(rings + stage + WINDOW_ID);
            const Columns next = read(reinterpret_cast<const int*>(rings + stage + NEXT) + first);
            const uint2 of_row = *reinterpret_cast<const uint2*>(rings + stage + values);
            const unsigned a[2] = {of_row.x, of_row.y};
#pragma unroll
            for (int j = 0; j < SUMS; ++j) {
                unsigned columns_of_b[4];
                ptx::ldmatrix_x4_trans(columns_of_b, rings + stage + fragment + 32 * j);
                tile::multiply(tiles.sums[j], columns_of_b, a, Values{});
            }
            if (window >= 0) tiles.close(window, store_window);
            __syncwarp();
            if (tile + TILE_STAGES <= tiles.last) copy(stage, next, tile + TILE_STAGES);
            ptx::cp_async_commit();
            stage += STAGE;
            if (stage == ring + TILE_STAGES * STAGE) stage = ring;
        }
    }
    tiles.finish(window, store_window);
}
