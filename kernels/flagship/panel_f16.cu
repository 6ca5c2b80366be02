/*---
name: panel_f16
study: flagship
source: "our own; the 64 rows of a product are those of Hopper's instruction"
idea: panels of 64 rows fetch each row of B once into shared memory, where one instruction multiplies it with all 64
after: staged_f16
format: panels_64x32
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_90a
requires: {}
tile: {slab: 256, stages: 5, producers: 2, ctas: 2}
constants: {values: F16, scaled: 0}
features: [atom_inc, cp_async, cp_async_arrive, fence_async, mbarrier, shfl, wgmma, wgmma_rows]
scratch: (256 * tile.slab + 16) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: ceil_div(a.partitions, even_part(ceil_div(n, tile.slab), device.l2_bytes // max(2 * k * tile.slab, 1))), ceil_div(n, tile.slab)
  block: 128 + 32 * tile.producers
  smem: 1024 + tile.stages * (32 * 2 * tile.slab + 4096 + 256)
  args: a.work_ptr, a.partitions, a.work, a.cut, a.runs, a.columns, a.positions, a.data, b, c, scratch, a.partials, m, b.ld, c.ld, alpha, beta
variants:
  medium:
    idea: slabs of 128 columns
    after: panel_f16
    tile: {slab: 128, stages: 7, producers: 4, ctas: 2}
  bf16:
    idea: panel_f16 in BF16
    after: panel_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
  bf16_medium:
    idea: slabs of 128 columns in BF16
    after: panel_f16_bf16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    tile: {slab: 128, stages: 7, producers: 4, ctas: 2}
    constants: {values: Bf16}
deviations:
  - "a NaN or an infinity in a row of B reaches all 64 rows of a panel in which one has an entry there"
  - "a NaN or an infinity in row 0 of B reaches all rows of a panel without entries, which has one tile, of column 0"
---*/
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_arrive.cuh"
#include "ptx/fence_async.cuh"
#include "ptx/shfl.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"
#include "tile/panel_stages.cuh"
#include "tile/reordered.cuh"
#include "tile/store.cuh"
#include "tile/values_16.cuh"

namespace {

using Values = tile::VALUES;

constexpr int CONSUMERS = 4;
static_assert(TILE_SLAB == 128 || TILE_SLAB == 256, "a slab has 128 or 256 columns");

// B in boxes of 64 columns (ptx/wgmma_rows.cuh), A in core matrices of 8 rows by 16 bytes, 128 bytes each, along the
// columns and then along the rows.
struct Tile {
    using Value = unsigned short;
    static constexpr int BOX = tile::PANEL_COLUMNS * 128, B_BYTES = BOX * TILE_SLAB / 64, COPIES = 32;
    static constexpr int CORE = 128, EIGHT_ROWS = tile::PANEL_COLUMNS / 8 * CORE;
    static constexpr int A_BYTES = tile::PANEL_ROWS / 8 * EIGHT_ROWS;
    // Lanes that copy one row of B, and rows that a warp copies at once.
    static constexpr int LANES = TILE_SLAB / 8, AT_ONCE = 32 / LANES;

    // Out-of-range columns load the last valid chunk; their results are never stored.
    static __device__ __forceinline__ void copy(
        char* rows, const unsigned short* __restrict__ b, int ldb, int slab, int column, int lane,
        unsigned long long* barrier) {
        const int chunk = lane % LANES, row = lane / LANES;
        const char* const from = reinterpret_cast<const char*>(b + min(slab + 8 * chunk, ldb - 8));
        char* const to = rows + chunk / 8 * BOX;
#pragma unroll
        for (int i = 0; i < tile::PANEL_COLUMNS; i += AT_ONCE) {
            const unsigned own = __shfl_sync(~0u, column, i + row);
            char* const into = to + (i + row) * 128 + (chunk ^ (i + row)) % 8 * 16;
            ptx::cp_async_16(into, from + static_cast<unsigned long long>(own) * (2u * ldb));
        }
        ptx::cp_async_arrive(barrier);
    }
    static __device__ __forceinline__ void write(char* tile, unsigned position, unsigned value) {
        *reinterpret_cast<unsigned short*>(tile + position) = static_cast<unsigned short>(value);
    }
};

template <int sums>
__device__ __forceinline__ void multiply(
    float (&d)[sums], unsigned long long a, unsigned long long b, bool add, tile::F16) {
    if constexpr (sums == 128) {
        ptx::wgmma_m64n256k16_f32_f16_rows(d, a, b, add);
    } else {
        ptx::wgmma_m64n128k16_f32_f16_rows(d, a, b, add);
    }
}
template <int sums>
__device__ __forceinline__ void multiply(
    float (&d)[sums], unsigned long long a, unsigned long long b, bool add, tile::Bf16) {
    if constexpr (sums == 128) {
        ptx::wgmma_m64n256k16_f32_bf16_rows(d, a, b, add);
    } else {
        ptx::wgmma_m64n128k16_f32_bf16_rows(d, a, b, add);
    }
}

}  // namespace

// A CTA works on the panels of its partitions, one after the other. Producer warps fill stages, each warp every
// TILE_PRODUCERS-th one; a warpgroup of consumers multiplies them. Both read the list of panels.
extern "C" __global__ void __launch_bounds__(32 * (CONSUMERS + TILE_PRODUCERS), TILE_CTAS) panel_f16(
    const int* __restrict__ work_ptr, int partitions, const int4* __restrict__ work, const int4* __restrict__ cut,
    const int2* __restrict__ runs, const int* __restrict__ columns, const unsigned short* __restrict__ positions,
    const unsigned short* __restrict__ data, const unsigned short* __restrict__ b, unsigned short* __restrict__ c,
    float4* partials, int partial_count, int m, int ldb, int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ char shared[];
    __shared__ tile::Ring ring;
    const tile::Stages<Tile> stages(shared);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int slab = blockIdx.y * TILE_SLAB;
    const int2 items = tile::items_of_cta(work_ptr, partitions);
    int next = items.x;
    const int end = items.y;

    if (threadIdx.x == 0) tile::start_ring<Tile>(ring, CONSUMERS);
    __syncthreads();
    if (next == end) return;

    if (warp >= CONSUMERS) {
        const tile::Panels<unsigned short> panels = {work, runs, columns, positions, data};
        tile::fill_stages<Tile>(ring, stages, panels, next, end, b, ldb, slab, warp - CONSUMERS, lane);
    } else {
        const int g = lane / 4, t = lane % 4;
        float sums[TILE_SLAB / 2];
        tile::Turn turn;
        int freed = 0;
        const auto release = [&]() {
            if (lane == 0) ptx::mbarrier_arrive(&ring.empty[freed], 0);
            freed = freed + 1 == TILE_STAGES ? 0 : freed + 1;
        };
        // Lanes with odd t take the columns of the second of two units of eight columns, those with even t the first, so
        // that each stores four neighbouring columns.
        const auto store = [&](int panel) {
#pragma unroll
            for (int j = 0; j < TILE_SLAB / 8; j += 2) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float* here = sums + 4 * j + 2 * half;
                    const bool odd = t % 2;
                    const float x = ptx::shfl_bfly(odd ? here[0] : here[4], 1);
                    const float y = ptx::shfl_bfly(odd ? here[1] : here[5], 1);
                    const float4 four = odd ? make_float4(x, y, here[4], here[5]) : make_float4(here[0], here[1], x, y);
                    const int at = panel * tile::PANEL_ROWS + 16 * warp + 8 * half + g, to = slab + 8 * (j + odd) + t / 2 * 4;
                    if (at < m && to < ldc) {
                        unsigned short* into = c + static_cast<long long>(row_of_c(at)) * ldc + to;
                        tile::store<Values, SCALED>(reinterpret_cast<uint2*>(into), four, alpha, beta, epilogue, to);
                    }
                }
            }
        };
        int4 panel = work[next];
#pragma unroll 1
        while (next < end) {
            const int4 after = work[min(++next, end - 1)];
#pragma unroll 1
            for (int at = panel.x; at < panel.y; ++at, turn.next()) {
                ptx::mbarrier_wait(&ring.full[turn.stage], turn.parity);
                // One fence of the reader serves what all producers wrote. Theirs would wait for what they fetch ahead.
                ptx::fence_proxy_async_shared();
                const char* rows_of_b = stages.b(turn.stage);
                const char* tile_of_a = stages.a(turn.stage);
                ptx::wgmma_fence();
#pragma unroll
                for (int i = 0; i < tile::PANEL_COLUMNS / 16; ++i) {
                    multiply(
                        sums, ptx::wgmma_descriptor(tile_of_a + 2 * i * Tile::CORE, Tile::CORE, Tile::EIGHT_ROWS),
                        ptx::wgmma_rows_descriptor(rows_of_b + 16 * i * 128, Tile::BOX),
                        at > panel.x || i > 0, Values{});
                }
                ptx::wgmma_commit();
                ptx::wgmma_wait<1>();
                if (at > panel.x) release();
            }
            ptx::wgmma_wait<0>();
            release();
            const int partial = panel.w;
            if (partial < 0 ||
                tile::add_partials<CONSUMERS>(sums, tile::split_of(cut, partial), partial, partials, partial_count, warp)) {
                store(panel.z);
            }
            panel = after;
        }
    }
}
