#pragma once
// A tile of C = A·B by mma.sp, with A in format sparse24: three or more stages of asynchronous copies, padded rows in
// shared memory, and fragments that are loaded while others are multiplied.
//
// Needs TILE_M, TILE_N, TILE_K = 64, TILE_STAGES, TILE_WARPS_M, TILE_WARPS_N and TILE_GROUP.

#include "ptx/cp_async.cuh"
#include "ptx/cp_async_l2.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/ldmatrix_trans.cuh"
#include "ptx/mma_sp.cuh"
#include "schedule/grouped_tiles.cuh"
#include "tile/values_16.cuh"

namespace tile {

constexpr int WARP_M = TILE_M / TILE_WARPS_M, WARP_N = TILE_N / TILE_WARPS_N, THREADS = 32 * TILE_WARPS_M * TILE_WARPS_N;
constexpr int ROW_TILES = WARP_M / 16, COLUMNS = WARP_N / 8;
static_assert(WARP_M == 64 && COLUMNS >= ROW_TILES, "one ldmatrix.x4 brings the metadata of 64 rows");

// One stage in shared memory, offsets in units of 16 bytes:
//
//   0            TILE_M rows of A: 4 units (32 kept values) and 1 of padding     ROW_A
//   METADATA     metadata of these rows: half a unit each
//   B            TILE_K rows of B: TILE_N / 8 units and 1 of padding             ROW_B
//
// The padding puts the eight units that ldmatrix reads together into different banks, and makes every address one
// register plus a constant. The usual XOR swizzle would cost more instructions than the products.
constexpr int ROW_A = 5, ROW_B = TILE_N / 8 + 1, METADATA = TILE_M * ROW_A, B = METADATA + TILE_M / 2;
constexpr int STAGE = B + TILE_K * ROW_B;
static_assert(TILE_M * ROW_B <= TILE_STAGES * STAGE, "the tile of C is staged where the operands were");

// How operands come into shared memory, and metadata from there to the products. The first is the scheme of the post;
// each other one changes one decision of it, and the last one a decision of COPIED_BY_ALL.
enum class Scheme {
    BYPASSING,        // copies of 16 bytes bypass L1, even threads copy metadata, and one ldmatrix.x4 reads it
    CACHED,           // copies go through L1
    COPIED_BY_WARPS,  // the first warps copy metadata, 16 bytes a thread
    COPIED_BY_ALL,    // all threads copy metadata, each 8 bytes, which do not bypass L1
    READ_BY_ROWS,     // two ldmatrix.x2 read metadata, each that of 32 rows
    READ_BY_HALVES,   // two ldmatrix.x2 read metadata, each that of half of a step, when its products begin
};
__device__ constexpr bool copied_by_all(Scheme scheme) {
    return scheme == Scheme::COPIED_BY_ALL || scheme == Scheme::READ_BY_HALVES;
}

// Which 8 bytes of a stage's metadata a thread copies, or from which 8 on it copies 16. In memory the 16 bytes of a row
// hold both halves of a step; in shared memory, for READ_BY_HALVES, one half of two panels of 16 rows:
//
//   in memory        panel p                   row r: | half 0    | half 1        |
//   READ_BY_HALVES   64 rows, half h, pair j   row r: | panel 2j  | panel 2j + 1  |
//
// ldmatrix then hands the metadata of panel 2j to lanes 4r and 4r + 1, where selector 0 finds it, and that of panel
// 2j + 1 to lanes 4r + 2 and 4r + 3, for selector 1.
template <Scheme scheme>
__device__ __forceinline__ unsigned metadata_of_thread(unsigned thread) {
    if constexpr (scheme == Scheme::READ_BY_HALVES) {
        const unsigned panel = thread / 64 * 4 + thread / 16 % 2 * 2 + thread % 2, row = thread / 2 % 8;
        return 2 * (8 * panel + row) + thread / 32 % 2;
    } else {
        return scheme == Scheme::COPIED_BY_WARPS ? 2 * thread : thread;
    }
}

template <Scheme scheme>
__device__ __forceinline__ void copy_16(uint4* shared, const uint4* global, bool wanted) {
    if constexpr (scheme == Scheme::CACHED) {
        ptx::cp_async_16_line_cached_or_zero(shared, global, wanted);
    } else {
        ptx::cp_async_16_line_or_zero(shared, global, wanted);
    }
}

template <int selector>
__device__ __forceinline__ void multiply_24(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata, Bf16) {
    ptx::mma_sp_m16n8k32_f32_bf16<selector>(d, a, b, metadata);
}
template <int selector>
__device__ __forceinline__ void multiply_24(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata, F16) {
    ptx::mma_sp_m16n8k32_f32_f16<selector>(d, a, b, metadata);
}

// Fragments of a warp: both halves of a step of A, and the columns of B that are multiplied next.
constexpr int AHEAD = 2, SLOTS = 2 * AHEAD;
struct Fragments {
    unsigned metadata[ROW_TILES], a[2][ROW_TILES][4], b[SLOTS][4];
};
static_assert(2 * COLUMNS % SLOTS == 0, "the first columns of a step do not displace the last ones of the step before");

// Columns of a step count through both halves.
__device__ __forceinline__ void load_b(Fragments& f, const uint4* stage, int column, int column0, int lane) {
    ptx::ldmatrix_x4_trans(
        f.b[column % SLOTS],
        stage + B + (32 * (column / COLUMNS) + lane) * ROW_B + column0 / 8 + column % COLUMNS);
}

__device__ __forceinline__ void load_a(Fragments& f, const uint4* stage, int half, int row0, int lane) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
        ptx::ldmatrix_x4(f.a[half][i], stage + (row0 + 16 * i + lane % 16) * ROW_A + 2 * half + lane / 16);
    }
}

// Load half of a warp's metadata: that of 32 rows (READ_BY_ROWS) or of half of a step (READ_BY_HALVES).
__device__ __forceinline__ void load_metadata_x2(Fragments& f, const uint4* stage, int which, int row0, int lane) {
    unsigned words[2];
    ptx::ldmatrix_x2(words, stage + METADATA + row0 / 2 + 16 * which + lane % 16);
    f.metadata[2 * which] = words[0];
    f.metadata[2 * which + 1] = words[1];
}

template <typename Values, Scheme scheme>
__device__ __forceinline__ void gemm24(
    const uint4* __restrict__ data, const uint4* __restrict__ metadata, const uint4* __restrict__ b,
    uint4* __restrict__ c, int m, int n, int k, int m_padded, int k_padded, int ldb, int ldc) {
    extern __shared__ uint4 shared[];
    const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row0 = warp / TILE_WARPS_N * WARP_M, column0 = warp % TILE_WARPS_N * WARP_N;
    const auto position = schedule::grouped_tile(
        blockIdx.x, (m + TILE_M - 1) / TILE_M, (n + TILE_N - 1) / TILE_N, TILE_GROUP);
    const int m0 = position.row * TILE_M, n0 = position.column * TILE_N;
    const int steps = k_padded / TILE_K, row_a = k_padded / 16, row_b = ldb / 8;

    // In every stage a thread copies units of the same column, APART_A and APART_B rows apart. In the post every other
    // thread copies metadata, because a copy that bypasses L1 has at least 16 bytes.
    constexpr int UNITS_B = TILE_N / 8, APART_A = THREADS / 4, APART_B = THREADS / UNITS_B;
    const int first_a = thread / 4, first_b = thread / UNITS_B, unit_a = thread % 4, unit_b = thread % UNITS_B;
    const long long step_b = static_cast<long long>(TILE_K) * row_b;
    const uint4* from_a = data + static_cast<long long>(m0 + first_a) * row_a + unit_a;
    const uint4* from_b = b + static_cast<long long>(first_b) * row_b + n0 / 8 + unit_b;
    const unsigned own_metadata = metadata_of_thread<scheme>(thread);
    const uint4* from_metadata = metadata + m0 / 2 + own_metadata / 2;
    const bool wanted_column = n0 + 8 * unit_b < ldb;
    const bool copies_metadata = own_metadata % 2 == 0 && own_metadata < TILE_M;
    static_assert(!copied_by_all(scheme) || THREADS == TILE_M, "8 bytes of metadata a thread are those of the tile");
    constexpr int COPIES_A = TILE_M / APART_A, COPIES_B = TILE_K / APART_B, COPIES = COPIES_A + 1 + COPIES_B;
    // Copies that are issued per column, so that all of a stage are in flight before the next barrier.
    constexpr int BEFORE = 2 * COLUMNS - AHEAD, PACE = (COPIES + BEFORE - 1) / BEFORE;
    // Copy i of a step. B has `left` more rows from this step on; after the last step nothing is read.
    int left = k, rows_left = m_padded - m0;
    auto copy = [&](uint4* stage, int i) {
        if (i < COPIES_A) {
            const int row = first_a + i * APART_A;
            copy_16<scheme>(
                stage + row * ROW_A + unit_a, from_a + static_cast<long long>(i * APART_A) * row_a, row < rows_left);
        } else if (i == COPIES_A) {
            const bool wanted = int(own_metadata) < rows_left;
            if constexpr (copied_by_all(scheme)) {
                ptx::cp_async_8_line_cached_or_zero(
                    reinterpret_cast<uint2*>(stage + METADATA) + thread,
                    reinterpret_cast<const uint2*>(from_metadata) + own_metadata % 2, wanted);
            } else if (copies_metadata) {
                copy_16<scheme>(stage + METADATA + own_metadata / 2, from_metadata, wanted);
            }
        } else {
            const int row = first_b + (i - COPIES_A - 1) * APART_B;
            copy_16<scheme>(
                stage + B + row * ROW_B + unit_b,
                from_b + static_cast<long long>((i - COPIES_A - 1) * APART_B) * row_b, wanted_column && row < left);
        }
    };
    auto advance = [&]() {
        from_a += 4;
        from_metadata += m_padded / 2;
        from_b += step_b;
        left -= TILE_K;
        if (left <= 0) rows_left = 0;
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
    // Load what the first products of a stage need. The metadata of both halves takes eight rows of 16 bytes for every
    // 16 rows of A.
    auto begin = [&](const uint4* stage) {
        if constexpr (scheme == Scheme::READ_BY_ROWS || scheme == Scheme::READ_BY_HALVES) {
            load_metadata_x2(f, stage, 0, row0, lane);
            if (scheme == Scheme::READ_BY_ROWS) load_metadata_x2(f, stage, 1, row0, lane);
        } else {
            ptx::ldmatrix_x4(f.metadata, stage + METADATA + row0 / 2 + lane);
        }
        load_a(f, stage, 0, row0, lane);
#pragma unroll
        for (int column = 0; column < AHEAD; ++column) load_b(f, stage, column, column0, lane);
    };
    begin(shared);
    auto multiply = [&](const uint4* stage, const uint4* next, uint4* freed) {
        unsigned metadata[ROW_TILES];
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) metadata[i] = f.metadata[i];
#pragma unroll
        for (int column = 0; column < 2 * COLUMNS; ++column) {
            if (column + AHEAD < 2 * COLUMNS) load_b(f, stage, column + AHEAD, column0, lane);
            if (column == 1) load_a(f, stage, 1, row0, lane);
            if (column == 1 && scheme == Scheme::READ_BY_HALVES) load_metadata_x2(f, stage, 1, row0, lane);
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
                // By halves, the words of one half are loaded while those of the other one are used.
                const int half = column / COLUMNS;
                const bool by_halves = scheme == Scheme::READ_BY_HALVES;
                const unsigned word = by_halves ? f.metadata[2 * half + i / 2] : metadata[i];
                const int selector = by_halves ? i % 2 : half;
                if (selector == 0) {
                    multiply_24<0>(sums[i][column % COLUMNS], f.a[half][i], f.b[column % SLOTS], word, Values{});
                } else {
                    multiply_24<1>(sums[i][column % COLUMNS], f.a[half][i], f.b[column % SLOTS], word, Values{});
                }
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
                staged[4 * (row * ROW_B + column0 / 8 + j) + lane % 4] =
                    Values::pack(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_M / APART_B; ++i) {
        const int row = first_b + i * APART_B;
        if (m0 + row < m && wanted_column) {
            c[static_cast<long long>(m0 + row) * (ldc / 8) + n0 / 8 + unit_b] = shared[row * ROW_B + unit_b];
        }
    }
}

}  // namespace tile
