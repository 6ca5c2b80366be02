/*---
name: cutespmm
study: cutespmm
source: Xiang et al. 2024, sections 3.3 and 5, algorithm 1
idea: bricks of the active columns of a row panel, decoded from bit masks; heavy panels are split according to waves of CTAs
after: cutespmm_unsplit
format: hrpb
format_options: {tm: 16, schedule: waves}
waves: ceil_div(a.panels * ceil_div(n, 4 * tile.n), device.multiprocessors * resident.cutespmm)
dtype: {a: tf32, b: tf32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {m: 16, k: 16, n: 32}
features: [cp_async, cvt, mma]
launches:
  - entry: clear
    grid: a.cleared
    block: 256
    args: a.clear_panels, c, m, c.ld
  - entry: cutespmm
    grid: a.chunk_count, ceil_div(n, 4 * tile.n)
    block: 32, min(4, ceil_div(n, tile.n))
    smem: 2 * (4 * tile.k * (tile.n * min(4, ceil_div(n, tile.n)) + 8) + 16 + tile.m * tile.k // 8 + 4 * tile.m * tile.k + 4 * tile.k)
    args: a.chunks, a.packed, b, c, m, b.ld, c.ld
variants:
  unsplit:
    idea: bricks of the active columns of a row panel, decoded from bit masks; one CTA per panel, however heavy
    after: null
    format_options: {schedule: whole}
  sorted:
    idea: the heaviest panels first and none split, which the paper rejects because neighbouring panels share rows of B
    after: cutespmm_unsplit
    format_options: {schedule: sorted}
  averaged:
    idea: panels split to the average size, which the paper rejects for its atomic additions
    after: cutespmm_unsplit
    format_options: {schedule: average}
  tm32:
    idea: panels of 32 rows, whose two rows of bricks share the fetched rows of B
    after: cutespmm
    format_options: {tm: 32}
    tile: {m: 32}
deviations:
  - "the driver says how many CTAs of the compiled kernel a multiprocessor holds; the original has a table of machines"
  - "the number of waves is rounded up, as in the paper's example; its formula is written without rounding"
  - "a partition ratio is rounded to the nearest number of CTAs, at least one, whose loads differ by one block at most; the paper leaves this open, and the original may make empty ones"
  - "sorted: by the number of blocks, within each slab of 128 columns of B"
  - "rows of B are padded by 8 floats in shared memory; with 4, lanes of a fragment have bank conflicts"
  - "panels without entries, and panels that several CTAs add to, are cleared by a launch of their own"
  - "any number of columns; the original takes multiples of 16 up to 512"
---*/
#include "ptx/cp_async.cuh"
#include "ptx/cvt.cuh"
#include "ptx/mma.cuh"

constexpr int BRICK_M = 16, BRICK_K = 4, MMA_N = 8;
constexpr int BRICK_ROWS = TILE_M / BRICK_M, BRICK_COLUMNS = TILE_K / BRICK_K, MMAS = TILE_N / MMA_N;
static_assert(TILE_K == 16 && TILE_N == 32, "a lane copies 16 bytes of each of four rows of its warp's columns of B");

// The largest packed block, in units of 16 bytes: header, patterns, values, ids of the next block's columns.
constexpr int BLOCK_UNITS = 1 + (8 * BRICK_ROWS * BRICK_COLUMNS + 4 * TILE_M * TILE_K + 4 * TILE_K) / 16;
constexpr int ID_UNITS = 4 * TILE_K / 16;

// Zero the panels that several CTAs add to, and those that nobody works on.
extern "C" __global__ void __launch_bounds__(256) clear(
    const int* __restrict__ panels, float* __restrict__ c, int m, int ldc) {
    const int first = panels[blockIdx.x] * TILE_M, rows = min(TILE_M, m - first);
    float* target = c + static_cast<long long>(first) * ldc;
    for (int i = threadIdx.x; i < rows * ldc; i += 256) target[i] = 0.f;
}

// Add the products of one brick with the warp's columns; returns the values of the next brick.
__device__ __forceinline__ const unsigned* multiply_brick(
    float (&sums)[MMAS][4], uint2 pattern, const unsigned* values, const unsigned (&fragments_b)[MMAS][1], int lane) {
    const unsigned below = (1u << lane) - 1;
    const int upper = __popc(pattern.x);
    unsigned fragment_a[2] = {0u, 0u};
    if (pattern.x >> lane & 1) fragment_a[0] = values[__popc(pattern.x & below)];
    if (pattern.y >> lane & 1) fragment_a[1] = values[upper + __popc(pattern.y & below)];
#pragma unroll
    for (int j = 0; j < MMAS; ++j) ptx::mma_m16n8k4_f32_tf32(sums[j], fragment_a, fragments_b[j]);
    return values + upper + __popc(pattern.y);
}

extern "C" __global__ void __launch_bounds__(128) cutespmm(
    const int* __restrict__ chunks, const unsigned* __restrict__ packed, const float* __restrict__ b, float* __restrict__ c,
    int m, int ldb, int ldc) {
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
    const int g = lane / 4, t = lane % 4;
    const int stride = warps * TILE_N + 8;
    const int n0 = (blockIdx.y * 4 + warp) * TILE_N;
    uint4* blocks[2] = {shared, shared + BLOCK_UNITS};
    float* columns_of_b = reinterpret_cast<float*>(shared + 2 * BLOCK_UNITS) + warp * TILE_N;
    float* rows_of_b[2] = {columns_of_b, columns_of_b + TILE_K * stride};

    // The warps share a packed block, but not its rows of B: each warp copies its own 32 columns.
    const int copy_row = lane / 8, copy_column = lane % 8 * 4;
    const bool copies = n0 + copy_column < ldb;
    const float* source_of_b = b + n0 + copy_column;
    auto copy = [&](const uint4* source, int units, const int* ids, int turn) {
#pragma unroll
        for (int pass = 0; pass < TILE_K / 4; ++pass) {
            const int row = pass * 4 + copy_row;
            const int id = ids[row];
            const bool wanted = copies && id >= 0;
            ptx::cp_async_16_or_zero(rows_of_b[turn] + row * stride + copy_column,
                                     wanted ? source_of_b + static_cast<long long>(id) * ldb : b, wanted);
        }
        for (int i = warp * 32 + lane; i < units; i += warps * 32) ptx::cp_async_16(blocks[turn] + i, source + i);
        ptx::cp_async_commit();
    };

    const int4 chunk = reinterpret_cast<const int4*>(chunks)[blockIdx.x];
    const uint4* source = reinterpret_cast<const uint4*>(packed) + chunk.z;
    int units = chunk.w;
    copy(source, units, reinterpret_cast<const int*>(source - ID_UNITS), 0);
    float sums[BRICK_ROWS][MMAS][4] = {};
    for (int index = 0; index < chunk.y; ++index) {
        const int turn = index % 2;
        const uint4* block = blocks[turn];
        ptx::cp_async_wait<0>();
        __syncthreads();
        const uint4 head = *block;
        if (index + 1 < chunk.y) {
            const int* next_ids = reinterpret_cast<const int*>(block + units - ID_UNITS);
            source += units;
            units = head.w >> 24;
            copy(source, units, next_ids, 1 - turn);
        }

        const unsigned char* header = reinterpret_cast<const unsigned char*>(block);
        const int bricks = TILE_K == 16 ? head.y & 0xff : header[BRICK_COLUMNS];
        const uint2* patterns = reinterpret_cast<const uint2*>(block + 1);
        const unsigned* values = reinterpret_cast<const unsigned*>(block + 1 + (bricks + 1) / 2);
        const float* fragment_source = rows_of_b[turn] + t * stride + g;
#pragma unroll
        for (int i = 0; i < BRICK_COLUMNS; ++i) {
            unsigned fragments_b[MMAS][1];
#pragma unroll
            for (int j = 0; j < MMAS; ++j) {
                fragments_b[j][0] = ptx::cvt_rna_tf32(fragment_source[i * BRICK_K * stride + j * MMA_N]);
            }
            if constexpr (BRICK_ROWS == 1) {
                // Every active column has an entry: brick i is that of brick column i, up to the last.
                const uint2 pattern = i < bricks ? patterns[i] : make_uint2(0u, 0u);
                values = multiply_brick(sums[0], pattern, values, fragments_b, lane);
            } else {
                int brick = header[i];
                const int brick_end = header[i + 1];
#pragma unroll
                for (int brick_row = 0; brick_row < BRICK_ROWS; ++brick_row) {
                    if (brick == brick_end || header[BRICK_COLUMNS + 1 + brick] != brick_row) continue;
                    values = multiply_brick(sums[brick_row], patterns[brick++], values, fragments_b, lane);
                }
            }
        }
    }

    const int panel = chunk.x;
    const int m0 = (panel < 0 ? ~panel : panel) * TILE_M;
#pragma unroll
    for (int i = 0; i < BRICK_ROWS * 2; ++i) {
        const int row = m0 + i * 8 + g;
        if (row >= m) continue;
#pragma unroll
        for (int j = 0; j < MMAS; ++j) {
            const int column = n0 + j * MMA_N + 2 * t;
            if (column >= ldc) continue;
            float* target = c + static_cast<long long>(row) * ldc + column;
            const float x = sums[i / 2][j][2 * (i % 2)], y = sums[i / 2][j][2 * (i % 2) + 1];
            if (panel < 0) {
                atomicAdd(target, x);
                atomicAdd(target + 1, y);
            } else {
                *reinterpret_cast<float2*>(target) = make_float2(x, y);
            }
        }
    }
}
