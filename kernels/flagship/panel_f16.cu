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
features: [atom_inc, cp_async, cp_async_arrive, fence_async, mbarrier, wgmma, wgmma_rows]
scratch: (256 * tile.slab + 16) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: ceil_div(a.partitions, even_part(ceil_div(n, tile.slab), device.l2_bytes // max(2 * k * tile.slab, 1))), ceil_div(n, tile.slab)
  block: 128 + 32 * tile.producers
  smem: 1024 + tile.stages * (32 * 2 * tile.slab + 4096 + 128)
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
deviations: ["a NaN or an infinity in a row of B reaches all 64 rows of a panel in which one has an entry there"]
---*/
#include "ptx/atom_inc.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_arrive.cuh"
#include "ptx/fence_async.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"
#include "tile/reordered.cuh"
#include "tile/split.cuh"
#include "tile/store.cuh"
#include "tile/values_16.cuh"

namespace {

using Values = tile::VALUES;

// A tile is 64 rows by 32 of their columns. A stage holds a tile of A, zeros included, and the 32 rows of B:
//
//   B   boxes of 64 columns, 32 rows of 128 bytes each; unit u of 16 bytes of row r lies at u ^ (r % 8)
//   A   core matrices of 8 rows by 16 bytes, 128 bytes each, along k and then along the rows
//
// Entries that only fill a run of four have the position 4096, behind the tile of A.
constexpr int ROWS = 64, COLUMNS = 32, CONSUMERS = 4;
constexpr int BOX = COLUMNS * 128, STAGE_B = BOX * TILE_SLAB / 64, TILE_A = ROWS * COLUMNS * 2, STAGE_A = TILE_A + 128;
constexpr int CORE = 128, EIGHT_ROWS = COLUMNS / 8 * CORE;
// Lanes that copy one row of B, and rows that a warp copies at once.
constexpr int LANES = TILE_SLAB / 8, AT_ONCE = 32 / LANES;
// Entries of a tile that a lane fetches ahead, in runs of four; tiles with more fetch the others when they need them.
constexpr int RUNS = 4;
static_assert(TILE_SLAB == 128 || TILE_SLAB == 256, "a slab has 128 or 256 columns");

struct Ring {
    unsigned long long full[TILE_STAGES], empty[TILE_STAGES];
};

// The stage and the parity of a barrier's phase, counted over all tiles.
struct Turn {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == TILE_STAGES) stage = 0, parity ^= 1;
    }
};

// What a lane of a producer holds of one tile, -1 for none: the column whose row of B comes next after `lane` others, and
// runs of four entries; `run` is the first entry of the tile and the one after its last.
struct Fetched {
    int tile, column;
    int2 run;
    uint2 positions[RUNS], values[RUNS];
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

// Fix-up of a panel that several CTAs work on: stores the sums of this warp's rows, which are added up apart from those
// of other warps, and counts their arrival. True in the warp that arrives last; its `sums` are then the totals of all
// partial sums, added in their order.
//
//   partials    float4[partial][slab][warp][sums of a lane / 4][32]
//   counters    unsigned[partial][slab][warp], behind the partials; a panel uses those of its first partial sum
//
// A counter may start with any value that is at least count - 1: the first arrival wraps it to 0. It ends at count - 1.
template <int SUMS>
__device__ __forceinline__ bool add_partials(
    float (&sums)[SUMS], const tile::Split& split, int partial, float4* partials, int partial_count, int warp) {
    const int lane = threadIdx.x % 32, place = blockIdx.y * CONSUMERS + warp, places = gridDim.y * CONSUMERS;
    const long long step = 8ll * SUMS * places, here = 8ll * SUMS * place + lane;
    float4* own = partials + partial * step + here;
#pragma unroll
    for (int i = 0; i < SUMS / 4; ++i) {
        __stcg(own + 32 * i, make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    }
    __syncwarp();
    unsigned* counters = reinterpret_cast<unsigned*>(partials + partial_count * step);
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(counters + (split.first * places + place), split.count - 1);
    if (__shfl_sync(~0u, before, 0) != split.count - 2) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;
    const float4* from = partials + split.first * step + here;
#pragma unroll 1
    for (int i = 0; i < split.count; ++i, from += step) {
#pragma unroll
        for (int j = 0; j < SUMS / 4; ++j) {
            const float4 x = __ldcg(from + 32 * j);
            sums[4 * j] += x.x, sums[4 * j + 1] += x.y, sums[4 * j + 2] += x.z, sums[4 * j + 3] += x.w;
        }
    }
    return true;
}

}  // namespace

// A CTA works on the panels of its partitions, one after the other. Producer warps fill stages, each warp every
// TILE_PRODUCERS-th one; a warpgroup of consumers multiplies them. Both read the list of panels.
// Out-of-range columns load the last valid chunk; their results are never stored.
extern "C" __global__ void __launch_bounds__(32 * (CONSUMERS + TILE_PRODUCERS), TILE_CTAS) panel_f16(
    const int* __restrict__ work_ptr, int partitions, const int4* __restrict__ work, const int4* __restrict__ cut,
    const int2* __restrict__ runs, const int* __restrict__ columns, const unsigned short* __restrict__ positions,
    const unsigned short* __restrict__ data, const unsigned short* __restrict__ b, unsigned short* __restrict__ c,
    float4* partials, int partial_count, int m, int ldb, int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    extern __shared__ char unaligned[];
    __shared__ Ring ring;
    char* const rows_of_b = unaligned + (1024 - ptx::shared_address(unaligned) % 1024) % 1024;
    char* const tiles_of_a = rows_of_b + TILE_STAGES * STAGE_B;
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int slab = blockIdx.y * TILE_SLAB;
    // Entries of `work`: x is the first tile of a panel or of a part of it, y the tile after the last one, z the panel,
    // and w the partial sum, or -1 for a whole panel.
    int next = work_ptr[static_cast<long long>(blockIdx.x) * partitions / gridDim.x];
    const int end = work_ptr[static_cast<long long>(blockIdx.x + 1) * partitions / gridDim.x];

    if (threadIdx.x == 0) {
        for (int i = 0; i < TILE_STAGES; ++i) {
            ptx::mbarrier_init(&ring.full[i], 32 + 1);
            ptx::mbarrier_init(&ring.empty[i], CONSUMERS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (next == end) return;

    if (warp >= CONSUMERS) {
        const int chunk = lane % LANES, row = lane / LANES;
        const char* const from = reinterpret_cast<const char*>(b + min(slab + 8 * chunk, ldb - 8));
        const unsigned stride = 2 * ldb;
        char* const copied = rows_of_b + chunk / 8 * BOX;
        // Tiles `at` to `stop` - 1 are left of the panel at hand; `after` is the entry of the panel after it.
        int4 panel = work[next], after = work[min(next + 1, end - 1)];
        int at = panel.x, stop = panel.y;
        // The tile `ahead` tiles from here, or -1 after the last one.
        const auto advance = [&](int ahead) {
            at += ahead;
            while (at >= stop && next < end) {
                if (++next == end) break;
                at += after.x - stop, stop = after.y;
                after = work[min(next + 1, end - 1)];
            }
            return next < end ? at : -1;
        };
        const auto run_of = [&](int tile) { return tile < 0 ? make_int2(0, 0) : runs[tile]; };
        const auto fetch = [&](Fetched& f) {
            if (f.tile >= 0) f.column = columns[f.tile * COLUMNS + lane];
#pragma unroll
            for (int i = 0; i < RUNS; ++i) {
                const int at = f.run.x + 4 * (32 * i + lane);
                if (at < f.run.y) {
                    f.positions[i] = *reinterpret_cast<const uint2*>(positions + at);
                    f.values[i] = *reinterpret_cast<const uint2*>(data + at);
                }
            }
        };
        const auto write = [&](char* tile_of_a, uint2 where, uint2 values) {
            const auto write = [&](unsigned position, unsigned value) {
                *reinterpret_cast<unsigned short*>(tile_of_a + position) = static_cast<unsigned short>(value);
            };
            write(where.x & 0xFFFF, values.x), write(where.x >> 16, values.x >> 16);
            write(where.y & 0xFFFF, values.y), write(where.y >> 16, values.y >> 16);
        };
        int stage = (warp - CONSUMERS) % TILE_STAGES, parity = 1;
        // Fills the stage of this warp's next tile from what was fetched, and fetches for the two tiles after that.
        const auto fill = [&](Fetched& now, Fetched& later) {
            fetch(later);
            const int tile_after = advance(TILE_PRODUCERS);
            const int2 run_after = run_of(tile_after);
            ptx::mbarrier_wait(&ring.empty[stage], parity);
            char* const to = copied + stage * STAGE_B;
#pragma unroll
            for (int i = 0; i < COLUMNS; i += AT_ONCE) {
                const unsigned column = __shfl_sync(~0u, now.column, i + row);
                char* const into = to + (i + row) * 128 + (chunk ^ (i + row)) % 8 * 16;
                ptx::cp_async_16(into, from + static_cast<unsigned long long>(column) * stride);
            }
            ptx::cp_async_arrive(&ring.full[stage]);
            char* const tile_of_a = tiles_of_a + stage * STAGE_A;
#pragma unroll
            for (int i = 0; i < TILE_A / 512; ++i) {
                reinterpret_cast<uint4*>(tile_of_a)[32 * i + lane] = make_uint4(0, 0, 0, 0);
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < RUNS; ++i) {
                if (now.run.x + 4 * (32 * i + lane) < now.run.y) write(tile_of_a, now.positions[i], now.values[i]);
            }
#pragma unroll 1
            for (int at = now.run.x + 4 * (32 * RUNS + lane); at < now.run.y; at += 4 * 32) {
                write(
                    tile_of_a, *reinterpret_cast<const uint2*>(positions + at), *reinterpret_cast<const uint2*>(data + at));
            }
            __syncwarp();
            if (lane == 0) ptx::mbarrier_arrive(&ring.full[stage], 0);
            now.tile = tile_after, now.run = run_after;
            stage += TILE_PRODUCERS;
            if (stage >= TILE_STAGES) stage -= TILE_STAGES, parity ^= 1;
        };
        Fetched even, odd;
        even.tile = advance(warp - CONSUMERS), even.run = run_of(even.tile);
        odd.tile = advance(TILE_PRODUCERS), odd.run = run_of(odd.tile);
        fetch(even);
#pragma unroll 1
        while (even.tile >= 0) {
            fill(even, odd);
            if (odd.tile < 0) break;
            fill(odd, even);
        }
    } else {
        const int g = lane / 4, t = lane % 4;
        float sums[TILE_SLAB / 2];
        Turn turn;
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
                    const float x = __shfl_xor_sync(~0u, odd ? here[0] : here[4], 1);
                    const float y = __shfl_xor_sync(~0u, odd ? here[1] : here[5], 1);
                    const float4 four = odd ? make_float4(x, y, here[4], here[5]) : make_float4(here[0], here[1], x, y);
                    const int at = panel * ROWS + 16 * warp + 8 * half + g, to = slab + 8 * (j + odd) + t / 2 * 4;
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
            for (int tile = panel.x; tile < panel.y; ++tile, turn.next()) {
                ptx::mbarrier_wait(&ring.full[turn.stage], turn.parity);
                // One fence of the reader serves what all producers wrote. Theirs would wait for what they fetch ahead.
                ptx::fence_proxy_async_shared();
                const char* stage = rows_of_b + turn.stage * STAGE_B;
                const char* tile_of_a = tiles_of_a + turn.stage * STAGE_A;
                ptx::wgmma_fence();
#pragma unroll
                for (int i = 0; i < COLUMNS / 16; ++i) {
                    multiply(
                        sums, ptx::wgmma_descriptor(tile_of_a + 2 * i * CORE, CORE, EIGHT_ROWS),
                        ptx::wgmma_rows_descriptor(stage + 16 * i * 128, BOX), tile > panel.x || i > 0, Values{});
                }
                ptx::wgmma_commit();
                ptx::wgmma_wait<1>();
                if (tile > panel.x) release();
            }
            ptx::wgmma_wait<0>();
            release();
            const int partial = panel.w;
            if (partial < 0 ||
                add_partials(sums, tile::split_of(cut, partial), partial, partials, partial_count, warp)) {
                store(panel.z);
            }
            panel = after;
        }
    }
}
