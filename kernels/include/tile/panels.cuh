#pragma once
// Panels of TILE_M rows of A in format bcsr_panels times a slab of TILE_N columns of B, on Hopper. One warp fills a ring
// of stages by the copy engine; each of the other warps holds 16 rows of A in registers and multiplies them, four warps
// at a time, with the columns of B that all of them share.
//
// A stage holds a block: 32 columns of A, and of B the same 32 rows:
//
//   B        TILE_N columns of 64 bytes, swizzled as in ptx/wgmma_columns.cuh
//   A        the halves of the block's tiles, 512 bytes each, 16 bytes a lane
//   metadata of these halves, METADATA bytes each
//
// The halves of a block follow each other in memory, so that one copy brings all of them: the copy engine takes about as
// long for a copy of 64 bytes as for one of 1 KB.
//
// B has TILE_N columns also where the matrix ends: the copy engine fills them with zeros, and their sums are not stored.
//
// Needs TILE_M, TILE_N, TILE_STAGES, TILE_CTAS and SUMS.

#include <cuda_fp16.h>

#include "ptx/atom_inc.cuh"
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_columns.cuh"
#include "tile/split.cuh"
#include "tile/turn.cuh"

namespace tile {

constexpr int BLOCK_K = 32, WARPS = TILE_M / 16, THREADS = 32 * (WARPS + 1), HALF = 512;
constexpr int STAGE_B = TILE_N * BLOCK_K * 2;
static_assert(TILE_M % 64 == 0 && TILE_M <= 128, "a warpgroup multiplies 64 rows");
static_assert(TILE_N == 64 || TILE_N == 128, "a slab has 64 or 128 columns");

// Sums of 16 rows in the registers of a warp: `pair` is row g, or g + 8 (lower), of columns 8j + 2t and 8j + 2t + 1.
struct PanelSumsF16 {
    unsigned d[TILE_N / 4] = {};

    __device__ __forceinline__ unsigned pair(int j, int lower) const { return d[2 * j + lower]; }
    __device__ __forceinline__ void add(int i, unsigned x) {
        const __half2 sum = __hadd2(reinterpret_cast<const __half2&>(d[i]), reinterpret_cast<const __half2&>(x));
        d[i] = reinterpret_cast<const unsigned&>(sum);
    }
};
struct PanelSumsF32 {
    float d[TILE_N / 2] = {};

    __device__ __forceinline__ unsigned pair(int j, int lower) const {
        const __half2 both = __floats2half2_rn(d[4 * j + 2 * lower], d[4 * j + 2 * lower + 1]);
        return reinterpret_cast<const unsigned&>(both);
    }
    __device__ __forceinline__ void add(int i, unsigned x) { d[i] += __uint_as_float(x); }
};

// A warp's tile of one block.
struct Fragments {
    unsigned a[2][4], metadata[2];

    // Products read these registers until they are waited for, which only the assembler knows: a use after the wait keeps
    // the compiler from loading the next tile into them before.
    __device__ __forceinline__ void keep() const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            asm volatile("" ::"r"(a[half][0]), "r"(a[half][1]), "r"(a[half][2]), "r"(a[half][3]), "r"(metadata[half]));
        }
    }
};
// Any metadata will do for a half that the tile does not have: columns 0 and 1 of every group.
constexpr unsigned NO_METADATA = 0x44444444;

struct Ring {
    unsigned long long full[TILE_STAGES], empty[TILE_STAGES];
    // The format's `tiles`, with halves counted from the first one of the block.
    int4 codes[TILE_STAGES][WARPS / 4];
};

// Where the stages lie.
template <int METADATA>
struct Stages {
    static constexpr int STAGE_A = 2 * WARPS * (HALF + METADATA);
    char* first;
    __device__ __forceinline__ char* b(int stage) const { return first + stage * STAGE_B; }
    __device__ __forceinline__ char* halves(int stage) const { return first + TILE_STAGES * STAGE_B + stage * STAGE_A; }
    __device__ __forceinline__ char* metadata(int stage) const { return halves(stage) + 2 * WARPS * HALF; }
};

// The warp that copies blocks begin to end - 1. Each lane reads what is to be known of one block in 32, before its turn.
template <int METADATA>
__device__ __forceinline__ void copy_blocks(
    Ring& ring, const Stages<METADATA>& stages, int begin, int end, const int* __restrict__ indices,
    const int4* __restrict__ tiles, const char* __restrict__ data, const char* __restrict__ metadata,
    const ptx::TensorMap& b_map, int n0, int lane) {
    struct Block {
        int column, first_half, halves;
        int4 codes[WARPS / 4];
    };
    const auto read = [&](int block) {
        Block read = {};
        if (block >= end) return read;
        read.column = indices[block];
        read.first_half = 0x7FFFFFFF;
#pragma unroll
        for (int i = 0; i < WARPS / 4; ++i) {
            const int4 x = tiles[static_cast<long long>(block) * (WARPS / 4) + i];
            const auto count = [&](int code) {
                if (code < 0) return;
                read.first_half = min(read.first_half, code / 2), read.halves += 1 + code % 2;
            };
            count(x.x), count(x.y), count(x.z), count(x.w);
            read.codes[i] = x;
        }
#pragma unroll
        for (int i = 0; i < WARPS / 4; ++i) {
            const auto within = [&](int code) { return code < 0 ? -1 : code - 2 * read.first_half; };
            const int4 x = read.codes[i];
            read.codes[i] = make_int4(within(x.x), within(x.y), within(x.z), within(x.w));
        }
        return read;
    };
    Turn turn;
    Block next = read(begin + lane);
    for (int first = begin; first < end; first += 32) {
        const Block own = next;
        next = read(first + 32 + lane);
        for (int i = 0; i < min(32, end - first); ++i, turn.next()) {
            if (lane == i) {
                const int stage = turn.stage;
                unsigned long long* full = &ring.full[stage];
                const long long half = own.first_half;
                ptx::mbarrier_wait(&ring.empty[stage], turn.parity ^ 1);
#pragma unroll
                for (int j = 0; j < WARPS / 4; ++j) ring.codes[stage][j] = own.codes[j];
                ptx::mbarrier_arrive_expect(full, STAGE_B + own.halves * (HALF + METADATA));
                ptx::tma_load(stages.b(stage), b_map, n0, own.column * BLOCK_K, full);
                ptx::cp_async_bulk(stages.halves(stage), data + half * HALF, own.halves * HALF, full);
                if constexpr (METADATA > 0) {
                    ptx::cp_async_bulk(stages.metadata(stage), metadata + half * METADATA, own.halves * METADATA, full);
                }
            }
            __syncwarp();
        }
    }
}

// Wait for a block and load this warp's tile of it. False if its warpgroup has no tile there.
template <int METADATA>
__device__ __forceinline__ bool load(
    Fragments& f, Ring& ring, const Stages<METADATA>& stages, Turn turn, int warp, int lane) {
    ptx::mbarrier_wait(&ring.full[turn.stage], turn.parity);
    const int own = reinterpret_cast<const int*>(ring.codes[turn.stage])[warp], before = max(own, 0) / 2;
    const uint4* halves = reinterpret_cast<const uint4*>(stages.halves(turn.stage)) + 32 * before;
    const unsigned* words = reinterpret_cast<const unsigned*>(stages.metadata(turn.stage)) + 16 * before;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const bool has = own >= 0 && (half == 0 || own % 2);
        const uint4 x = has ? halves[32 * half + lane] : make_uint4(0, 0, 0, 0);
        f.a[half][0] = x.x, f.a[half][1] = x.y, f.a[half][2] = x.z, f.a[half][3] = x.w;
        // Lanes 4g and 4g + 1 supply row g's two words to selector 0; those of other lanes are ignored.
        f.metadata[half] = METADATA > 0 && has ? words[16 * half + lane / 4 * 2 + lane % 2] : NO_METADATA;
    }
    if (WARPS == 4) return true;
    const int4 all = ring.codes[turn.stage][warp / 4];
    return __shfl_sync(~0u, (all.x & all.y & all.z & all.w) >= 0, 0);
}

// Multiply `count` blocks, the first `singles` of which have tiles of one half alone. While one is multiplied the next one
// is loaded. One loop for both kinds: after a first loop that adds to the sums the compiler would make each product of a
// second one wait for the one before.
template <class Product>
__device__ __forceinline__ void multiply_blocks(
    SUMS& sums, Ring& ring, const Stages<Product::METADATA>& stages, int count, int singles, int warp, int lane) {
    if (count == 0) return;
    Turn turn;
    Fragments now;
    bool busy = load(now, ring, stages, turn, warp, lane);
    while (true) {
        if (busy) {
            const char* b = stages.b(turn.stage);
            ptx::wgmma_fence();
            Product::template multiply<0>(sums.d, now, b);
            if (singles <= 0) {
                ptx::wgmma_fence();
                Product::template multiply<1>(sums.d, now, b);
            }
            ptx::wgmma_commit();
        }
        --count, --singles;
        const int stage = turn.stage;
        turn.next();
        Fragments next;
        bool next_busy = false;
        if (count > 0) next_busy = load(next, ring, stages, turn, warp, lane);
        ptx::wgmma_wait<0>();
        now.keep();
        if (lane == 0) ptx::mbarrier_arrive(&ring.empty[stage], 0);
        if (count == 0) break;
        now = next, busy = next_busy;
    }
}

// Fix-up of a panel that several CTAs work on: stores the sums of this warp's rows, which are added up apart from those
// of other warps, and counts their arrival. True in the warp that arrives last; its `sums` are then the totals of all
// partial sums, added in their order.
//
//   partials    uint4[partial][slab][warp][registers / 4][32]
//   counters    unsigned[partial][slab][warp], behind the partials; a panel uses those of its first partial sum
//
// A counter may start with any value that is at least count - 1: the first arrival wraps it to 0. It ends at count - 1.
__device__ __forceinline__ bool add_partials(
    SUMS& sums, const Split& split, int partial, uint4* partials, int partial_count, int warp, int lane) {
    constexpr int VECTORS = sizeof(sums.d) / sizeof(uint4);
    const int place = blockIdx.x * WARPS + warp, places = gridDim.x * WARPS;
    const long long step = 32ll * VECTORS * places, here = 32ll * VECTORS * place + lane;
    uint4* own = partials + partial * step + here;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        unsigned words[4];
        memcpy(words, sums.d + 4 * i, sizeof words);
        __stcg(own + 32 * i, make_uint4(words[0], words[1], words[2], words[3]));
    }
    __syncwarp();
    unsigned* counters = reinterpret_cast<unsigned*>(partials + partial_count * step);
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(counters + (split.first * places + place), split.count - 1);
    if (__shfl_sync(~0u, before, 0) != split.count - 2) return false;
    __threadfence();
    sums = SUMS();
    const uint4* from = partials + split.first * step + here;
#pragma unroll 1
    for (int i = 0; i < split.count; ++i, from += step) {
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
            const uint4 x = __ldcg(from + 32 * j);
            sums.add(4 * j, x.x), sums.add(4 * j + 1, x.y), sums.add(4 * j + 2, x.z), sums.add(4 * j + 3, x.w);
        }
    }
    return true;
}

// Store 16 rows from `row` on. Of two units of eight columns, lanes with odd t take the second and those with even t the
// first, so that each stores four neighbouring columns and a row gets whole sectors.
__device__ __forceinline__ void store_rows(
    const SUMS& sums, half* __restrict__ c, long long ldc, int row, int n0, int n, int lane) {
    const int g = lane / 4, t = lane % 4;
    const bool odd = t % 2;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const unsigned first = sums.pair(j, lower), second = sums.pair(j + 1, lower);
            const unsigned other = __shfl_xor_sync(~0u, odd ? first : second, 1);
            const int column = n0 + 8 * (j + odd) + t / 2 * 4;
            if (column < n) {
                *reinterpret_cast<uint2*>(c + (row + 8 * lower + g) * ldc + column) =
                    odd ? make_uint2(other, second) : make_uint2(first, other);
            }
        }
    }
}

// A CTA multiplies one item of `work`, blocks x to y - 1 of panel z; w is its partial sum, or -1 for a whole panel. The
// stages begin at the first multiple of 1024 in `shared`.
template <class Product>
__device__ __forceinline__ void multiply_panel(
    char* shared, const int4* __restrict__ work, const int4* __restrict__ cut, const int* __restrict__ indptr,
    const int* __restrict__ indices, const int4* __restrict__ tiles, const char* __restrict__ data,
    const char* __restrict__ metadata, const ptx::TensorMap& b_map, half* __restrict__ c, uint4* partials,
    int partial_count, int n, int ldc) {
    __shared__ Ring ring;
    const Stages<Product::METADATA> stages = {shared + (1024 - ptx::shared_address(shared) % 1024) % 1024};
    // The shuffle tells the compiler that the value is the same in all lanes: products only overlap on paths that it
    // knows a warp takes as a whole.
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int n0 = blockIdx.x * TILE_N;
    const int4 item = work[blockIdx.y];
    if (threadIdx.x == 0) {
        for (int i = 0; i < TILE_STAGES; ++i) {
            ptx::mbarrier_init(&ring.full[i], 1);
            ptx::mbarrier_init(&ring.empty[i], WARPS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (warp == WARPS) {
        copy_blocks(ring, stages, item.x, item.y, indices, tiles, data, metadata, b_map, n0, lane);
        return;
    }
    SUMS sums;
    multiply_blocks<Product>(sums, ring, stages, item.y - item.x, indptr[2 * item.z + 1] - item.x, warp, lane);
    if (item.w < 0 || add_partials(sums, split_of(cut, item.w), item.w, partials, partial_count, warp, lane)) {
        store_rows(sums, c, ldc, item.z * TILE_M + 16 * warp, n0, n, lane);
    }
}

}  // namespace tile
