#pragma once
// Panels of 64 rows (formats/panels_64x32.py) as stages in shared memory, which producer warps fill and consumers free. A
// stage holds the 32 rows of B that a tile multiplies, and the tile of A, zeros included. A kernel says by a type how they
// lie there:
//
//   Value              an element of A, unsigned short or unsigned
//   B_BYTES, A_BYTES   of a stage; what only fills a run of entries is written to the 256 bytes behind A
//   COPIES             arrivals of a copy at the barrier of a stage
//   copy(rows, ...)    copies the rows of B whose columns of A the lanes have, and arrives
//   write(tile, position, value)
//                      stores an entry of A; its position is the format's
//
// Needs TILE_STAGES, TILE_PRODUCERS and TILE_CTAS.

#include "ptx/atom_inc.cuh"
#include "ptx/mbarrier.cuh"
#include "tile/split.cuh"
#include "tile/turn.cuh"

namespace tile {

constexpr int PANEL_ROWS = 64, PANEL_COLUMNS = 32;

struct Ring {
    unsigned long long full[TILE_STAGES], empty[TILE_STAGES];
};

// The list of panels. Entries of `work`: x is the first tile of a panel or of a part of it, y the tile after the last one,
// z the panel, and w the partial sum, or -1 for a whole panel.
template <class Value>
struct Panels {
    const int4* work;
    const int2* runs;
    const int* columns;
    const unsigned short* positions;
    const Value* data;
};

// First item of this CTA, and the one after its last: those of one partition, or of neighbours in a grid of fewer CTAs.
// Partitions 2i and 2i + 1 have a fair share of the work together, and so have the CTAs that begin on a multiprocessor at
// the same time, i and i + gridDim.x / 2.
__device__ __forceinline__ int2 items_of_cta(const int* __restrict__ work_ptr, int partitions) {
    const int apart = (gridDim.x + TILE_CTAS - 1) / TILE_CTAS;
    const int own = blockIdx.x % apart * TILE_CTAS + blockIdx.x / apart;
    const auto begin_of = [&](int cta) { return work_ptr[static_cast<long long>(cta) * partitions / gridDim.x]; };
    return make_int2(begin_of(own), begin_of(own + 1));
}

// Where the stages lie. B comes first, since it may have to begin at a multiple of 1024 bytes.
template <class Tile>
struct Stages {
    static constexpr int STAGE_A = Tile::A_BYTES + 256;
    char* first;

    __device__ __forceinline__ explicit Stages(char* shared)
        : first(shared + (1024 - ptx::shared_address(shared) % 1024) % 1024) {}
    __device__ __forceinline__ char* b(int stage) const { return first + stage * Tile::B_BYTES; }
    __device__ __forceinline__ char* a(int stage) const {
        return first + TILE_STAGES * Tile::B_BYTES + stage * STAGE_A;
    }
};

// Initialises the barriers, which `consumers` warps free. One thread calls it, before the CTA meets.
template <class Tile>
__device__ __forceinline__ void start_ring(Ring& ring, int consumers) {
    for (int i = 0; i < TILE_STAGES; ++i) {
        ptx::mbarrier_init(&ring.full[i], Tile::COPIES + 1);
        ptx::mbarrier_init(&ring.empty[i], consumers);
    }
    ptx::fence_mbarrier_init();
}

// Entries of a tile that a lane fetches ahead, in runs of four; tiles with more fetch the others when they need them.
constexpr int PANEL_RUNS = 4;

// Four values.
template <class Value>
struct RunOf;
template <>
struct RunOf<unsigned short> {
    uint2 x;
    __device__ __forceinline__ unsigned operator[](int i) const { return (i < 2 ? x.x : x.y) >> i % 2 * 16 & 0xFFFF; }
};
template <>
struct RunOf<unsigned> {
    uint4 x;
    __device__ __forceinline__ unsigned operator[](int i) const { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
};

// What a lane of a producer holds of one tile, -1 for none: the column whose row of B comes next after `lane` others, and
// runs of four entries; `run` is the first entry of the tile and the one after its last.
template <class Value>
struct Fetched {
    int tile, column;
    int2 run;
    uint2 positions[PANEL_RUNS];
    RunOf<Value> values[PANEL_RUNS];
};

// Producer warp `producer` fills every TILE_PRODUCERS-th stage with tiles of the panels `next` to `end` - 1.
template <class Tile, class Number>
__device__ __forceinline__ void fill_stages(
    Ring& ring, const Stages<Tile>& stages, const Panels<typename Tile::Value>& panels, int next, int end,
    const Number* __restrict__ b, int ldb, int slab, int producer, int lane) {
    using Value = typename Tile::Value;
    // Tiles `at` to `stop` - 1 are left of the panel at hand; `after` is the entry of the panel after it.
    int4 panel = panels.work[next], after = panels.work[min(next + 1, end - 1)];
    int at = panel.x, stop = panel.y;
    // The tile `ahead` tiles from here, or -1 after the last one.
    const auto advance = [&](int ahead) {
        at += ahead;
        while (at >= stop && next < end) {
            if (++next == end) break;
            at += after.x - stop, stop = after.y;
            after = panels.work[min(next + 1, end - 1)];
        }
        return next < end ? at : -1;
    };
    const auto run_of = [&](int tile) { return tile < 0 ? make_int2(0, 0) : panels.runs[tile]; };
    const auto positions_of = [&](int at) { return *reinterpret_cast<const uint2*>(panels.positions + at); };
    const auto values_of = [&](int at) { return *reinterpret_cast<const RunOf<Value>*>(panels.data + at); };
    const auto fetch = [&](Fetched<Value>& f) {
        if (f.tile >= 0) f.column = panels.columns[f.tile * PANEL_COLUMNS + lane];
#pragma unroll
        for (int i = 0; i < PANEL_RUNS; ++i) {
            const int at = f.run.x + 4 * (32 * i + lane);
            if (at < f.run.y) f.positions[i] = positions_of(at), f.values[i] = values_of(at);
        }
    };
    const auto write = [&](char* tile, uint2 where, const RunOf<Value>& values) {
        Tile::write(tile, where.x & 0xFFFF, values[0]), Tile::write(tile, where.x >> 16, values[1]);
        Tile::write(tile, where.y & 0xFFFF, values[2]), Tile::write(tile, where.y >> 16, values[3]);
    };
    int stage = producer % TILE_STAGES, parity = 1;
    // Fills the stage of this warp's next tile from what was fetched, and fetches for the two tiles after that.
    const auto fill = [&](Fetched<Value>& now, Fetched<Value>& later) {
        fetch(later);
        const int tile_after = advance(TILE_PRODUCERS);
        const int2 run_after = run_of(tile_after);
        ptx::mbarrier_wait(&ring.empty[stage], parity);
        Tile::copy(stages.b(stage), b, ldb, slab, now.column, lane, &ring.full[stage]);
        char* const tile = stages.a(stage);
#pragma unroll
        for (int i = 0; i < Tile::A_BYTES / 512; ++i) {
            reinterpret_cast<uint4*>(tile)[32 * i + lane] = make_uint4(0, 0, 0, 0);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PANEL_RUNS; ++i) {
            if (now.run.x + 4 * (32 * i + lane) < now.run.y) write(tile, now.positions[i], now.values[i]);
        }
#pragma unroll 1
        for (int at = now.run.x + 4 * (32 * PANEL_RUNS + lane); at < now.run.y; at += 4 * 32) {
            write(tile, positions_of(at), values_of(at));
        }
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(&ring.full[stage], 0);
        now.tile = tile_after, now.run = run_after;
        stage += TILE_PRODUCERS;
        if (stage >= TILE_STAGES) stage -= TILE_STAGES, parity ^= 1;
    };
    Fetched<Value> even, odd;
    even.tile = advance(producer), even.run = run_of(even.tile);
    odd.tile = advance(TILE_PRODUCERS), odd.run = run_of(odd.tile);
    fetch(even);
#pragma unroll 1
    while (even.tile >= 0) {
        fill(even, odd);
        if (odd.tile < 0) break;
        fill(odd, even);
    }
}

// Fix-up of a panel that several CTAs work on: stores the sums of this warp's part of it, which are added up apart from
// those of other warps, and counts their arrival. True in the warp that arrives last; its `sums` are then the totals of
// all partial sums, added in their order.
//
//   partials    float4[partial][slab][warp][sums of a lane / 4][32]
//   counters    unsigned[partial][slab][warp], behind the partials; a panel uses those of its first partial sum
//
// A counter may start with any value that is at least count - 1: the first arrival wraps it to 0. It ends at count - 1.
template <int WARPS, int SUMS>
__device__ __forceinline__ bool add_partials(
    float (&sums)[SUMS], const Split& split, int partial, float4* partials, int partial_count, int warp) {
    const int lane = threadIdx.x % 32, place = blockIdx.y * WARPS + warp, places = gridDim.y * WARPS;
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

}  // namespace tile
