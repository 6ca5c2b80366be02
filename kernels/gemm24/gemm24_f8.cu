/*---
name: gemm24_f8
study: gemm24
source: "beyond the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores': its product in FP8 (e4m3)"
idea: gemm24 with 8-bit operands; B comes by columns, which ldmatrix reads without transposing
family: gemm24_f8
after: gemm24
format: sparse24
format_options: {k_multiple: tile.k}
dtype: {a: float8_e4m3, b: float8_e4m3, accumulator: float32, c: bfloat16}
layout: {b: column_major, c: row_major}
pads: {k: 16, n: 8}
min_arch: sm_89
requires: {}
tile: {m: 128, n: 128, k: 128, stages: 3, warps_m: 2, warps_n: 2, group: 8}
features: [cp_async, cp_async_l2, ldmatrix, mma_sp_f8]
launch:
  grid: ceil_div(m, tile.m) * ceil_div(n, tile.n)
  block: 32 * tile.warps_m * tile.warps_n
  smem: 16 * tile.stages * (tile.m * 6 + tile.n * 9)
  args: a.data, a.metadata_swizzled, b, c, m, n, a.m_padded, a.k_padded, b.ld, c.ld
variants:
  small:
    idea: tiles of a quarter of the size, so that a small product has enough of them
    after: gemm24_f8
    tile: {m: 64, n: 64, stages: 4, warps_m: 1, warps_n: 2}
  tall:
    idea: tiles twice as tall, which reuse B twice as often
    after: gemm24_f8
    tile: {m: 256, stages: 4, warps_m: 4}
deviations:
  - "not for Hopper, whose mma.sp has no 8-bit floating-point operands: its compiler emulates the instruction"
---*/
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_l2.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma_sp_f8.cuh"
#include "schedule/grouped_tiles.cuh"
#include "tile/values_16.cuh"

namespace {

constexpr int WARP_M = TILE_M / TILE_WARPS_M, WARP_N = TILE_N / TILE_WARPS_N, THREADS = 32 * TILE_WARPS_M * TILE_WARPS_N;
constexpr int ROW_TILES = WARP_M / 16, COLUMNS = WARP_N / 8;
static_assert(TILE_K == 128, "a stage is two products along k");
static_assert(WARP_M == 64 && COLUMNS >= ROW_TILES, "one ldmatrix.x4 brings the metadata of 64 rows");
static_assert(THREADS >= TILE_M, "a thread copies one unit of metadata per stage");

// One stage in shared memory, offsets in units of 16 bytes:
//
//   0            TILE_M rows of A: 4 units (64 kept values) and 1 of padding                  ROW_A
//   METADATA     metadata of these rows: half a unit each for the first 64 columns of the stage, then for the others
//   B            TILE_N columns of B: 8 units (128 values) and 1 of padding                   COLUMN_B
//
// The padding puts the eight units that ldmatrix reads together into different banks.
constexpr int ROW_A = 5, COLUMN_B = 9, METADATA = TILE_M * ROW_A, B = METADATA + TILE_M, STAGE = B + TILE_N * COLUMN_B;
constexpr int ROW_C = TILE_N / 8 + 1;
static_assert(TILE_M * ROW_C <= TILE_STAGES * STAGE, "the tile of C is staged where the operands were");

// Fragments of a warp: both halves of a step of A, and the columns of B that are multiplied next.
constexpr int AHEAD = 2, SLOTS = 2 * AHEAD;
struct Fragments {
    unsigned metadata[2][ROW_TILES], a[2][ROW_TILES][4], b[SLOTS][4];
};
static_assert(2 * COLUMNS % SLOTS == 0, "the first columns of a step do not displace the last ones of the step before");

// Eight columns of B; columns of a step count through both halves.
__device__ __forceinline__ void load_b(Fragments& f, const uint4* stage, int column, int column0, int lane) {
    ptx::ldmatrix_x4(
        f.b[column % SLOTS],
        stage + B + (column0 + 8 * (column % COLUMNS) + lane % 8) * COLUMN_B + 4 * (column / COLUMNS) + lane / 8);
}

__device__ __forceinline__ void load_a(Fragments& f, const uint4* stage, int half, int row0, int lane) {
    ptx::ldmatrix_x4(f.metadata[half], stage + METADATA + half * (TILE_M / 2) + row0 / 2 + lane);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
        ptx::ldmatrix_x4(f.a[half][i], stage + (row0 + 16 * i + lane % 16) * ROW_A + 2 * half + lane / 16);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) gemm24_f8(
    const uint4* __restrict__ data, const uint4* __restrict__ metadata, const uint4* __restrict__ b,
    uint4* __restrict__ c, int m, int n, int m_padded, int k_padded, int ldb, int ldc) {
    extern __shared__ uint4 shared[];
    const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row0 = warp / TILE_WARPS_N * WARP_M, column0 = warp % TILE_WARPS_N * WARP_N;
    const auto position = schedule::grouped_tile(
        blockIdx.x, (m + TILE_M - 1) / TILE_M, (n + TILE_N - 1) / TILE_N, TILE_GROUP);
    const int m0 = position.row * TILE_M, n0 = position.column * TILE_N;
    const int steps = k_padded / TILE_K, row_a = k_padded / 32, column_b = ldb / 16;

    // In every stage a thread copies units of the same column, APART_A and APART_B rows apart, and a unit of metadata.
    constexpr int UNITS_A = 4, UNITS_B = 8, APART_A = THREADS / UNITS_A, APART_B = THREADS / UNITS_B;
    const int first_a = thread / UNITS_A, first_b = thread / UNITS_B, unit_a = thread % UNITS_A, unit_b = thread % UNITS_B;
    const int unit_metadata = thread % (TILE_M / 2), half_metadata = thread / (TILE_M / 2);
    const uint4* from_a = data + static_cast<long long>(m0 + first_a) * row_a + unit_a;
    const uint4* from_b = b + static_cast<long long>(n0 + first_b) * column_b + unit_b;
    const uint4* from_metadata = metadata + (static_cast<long long>(half_metadata) * m_padded + m0) / 2 + unit_metadata;
    const bool copies_metadata = thread < TILE_M;
    constexpr int COPIES_A = TILE_M / APART_A, COPIES_B = TILE_N / APART_B, COPIES = COPIES_A + 1 + COPIES_B;
    // Copies that are issued per column, so that all of a stage are in flight before the next barrier.
    constexpr int BEFORE = 2 * COLUMNS - AHEAD, PACE = (COPIES + BEFORE - 1) / BEFORE;
    // Copy i of a step. A column of B has `left` more units from this thread's unit on; beyond the last step nothing is
    // read.
    int left = column_b - unit_b, rows_left = m_padded - m0, steps_left = steps;
    const int columns_left = n - n0;
    auto copy = [&](uint4* stage, int i) {
        if (i < COPIES_A) {
            const int row = first_a + i * APART_A;
            ptx::cp_async_16_line_or_zero(
                stage + row * ROW_A + unit_a, from_a + static_cast<long long>(i * APART_A) * row_a, row < rows_left);
        } else if (i == COPIES_A) {
            if (copies_metadata) {
                ptx::cp_async_16_line_or_zero(
                    stage + METADATA + thread, from_metadata, 2 * unit_metadata < rows_left);
            }
        } else {
            const int column = first_b + (i - COPIES_A - 1) * APART_B;
            ptx::cp_async_16_line_or_zero(
                stage + B + column * COLUMN_B + unit_b,
                from_b + static_cast<long long>((i - COPIES_A - 1) * APART_B) * column_b,
                column < columns_left && left > 0);
        }
    };
    auto advance = [&]() {
        from_a += UNITS_A;
        from_metadata += m_padded;
        from_b += UNITS_B;
        left -= UNITS_B;
        if (--steps_left == 0) rows_left = left = 0;
        ptx::cp_async_commit();
    };

#pragma unroll
    for (int step = 0; step < TILE_STAGES - 1; ++step) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) copy(shared + step * STAGE, i);
        advance();
    }
    ptx::cp_async_wait<TILE_STAGES - 2>();
    __syncthreads();
    float sums[ROW_TILES][COLUMNS][4] = {};
    Fragments f;
    // Load what the first products of a stage need.
    auto begin = [&](const uint4* stage) {
        load_a(f, stage, 0, row0, lane);
#pragma unroll
        for (int column = 0; column < AHEAD; ++column) load_b(f, stage, column, column0, lane);
    };
    begin(shared);
    auto multiply = [&](const uint4* stage, const uint4* next, uint4* freed) {
#pragma unroll
        for (int column = 0; column < 2 * COLUMNS; ++column) {
            if (column + AHEAD < 2 * COLUMNS) load_b(f, stage, column + AHEAD, column0, lane);
            if (column == COLUMNS - AHEAD) load_a(f, stage, 1, row0, lane);
#pragma unroll
            for (int i = column * PACE; i < min((column + 1) * PACE, COPIES); ++i) copy(freed, i);
            if (column + AHEAD == 2 * COLUMNS) {
                // After the barrier all warps have read this stage. The next one begins while the last columns are
                // multiplied; what it loads after the last step is never used.
                advance();
                ptx::cp_async_wait<TILE_STAGES - 2>();
                __syncthreads();
                begin(next);
            }
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
                const int half = column / COLUMNS;
                ptx::mma_sp_m16n8k64_f32_e4m3(
                    sums[i][column % COLUMNS], f.a[half][i], f.b[column % SLOTS], f.metadata[half][i]);
            }
        }
    };
    // Unrolled over the stages, so that the offset of a stage is a constant.
    for (int step = 0; step < steps; step += TILE_STAGES) {
#pragma unroll
        for (int i = 0; i < TILE_STAGES; ++i) {
            if (step + i < steps) {
                multiply(
                    shared + i * STAGE, shared + (i + 1) % TILE_STAGES * STAGE,
                    shared + (i + TILE_STAGES - 1) % TILE_STAGES * STAGE);
            }
        }
    }

    // C goes through shared memory, so that it is written in units of 16 bytes along its rows.
    ptx::cp_async_wait<0>();
    __syncthreads();
    unsigned* staged = reinterpret_cast<unsigned*>(shared);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = row0 + 16 * i + 8 * half + lane / 4;
                staged[4 * (row * ROW_C + column0 / 8 + j) + lane % 4] =
                    tile::Bf16::pack(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
        }
    }
    __syncthreads();
    constexpr int UNITS_C = TILE_N / 8, APART_C = THREADS / UNITS_C;
    const int unit_c = thread % UNITS_C;
#pragma unroll
    for (int i = 0; i < TILE_M / APART_C; ++i) {
        const int row = thread / UNITS_C + i * APART_C;
        if (m0 + row < m && n0 + 8 * unit_c < ldc) {
            c[static_cast<long long>(m0 + row) * (ldc / 8) + n0 / 8 + unit_c] = shared[row * ROW_C + unit_c];
        }
    }
}
