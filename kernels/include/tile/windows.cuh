#pragma once
// Shared by the kernels of windows of eight or sixteen rows (formats vectors_8x1 and vectors_16x1): the tiles of a
// warp, and the fix-up of windows that several warps or CTAs work on.
//
//   windows       | 0 1 2 | 3 4 5 6 7 8 | 9 | 10 11 |    numbers are tiles
//   partitions    |    first    |      second       |    a CTA takes one or more of them
//   warps         | 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 |    equal numbers of tiles
//
// The window of tiles 3 to 8 is split between the partitions: each stores a partial sum in global memory, and the warp
// that arrives last adds them. A window that only warps of one CTA work on is added up in shared memory, by the warp in
// which it begins.

#include "ptx/atom_inc.cuh"
#include "tile/split.cuh"

namespace tile {

constexpr int WINDOW = 8;

// The work partitions of a call (arrays `work` and `cut` of the format), and scratch memory for partial sums:
//
//   partials    float4[partial][slab][sums of a lane][32]
//   counters    unsigned[partial][slab], behind the partials; a window uses the counter of its first partial sum
//
// If the grid has fewer CTAs than there are partitions, each CTA takes several consecutive ones.
struct Partitions {
    const int4 *work, *cut;
    int count;
    float4* partials;
    int partial_count;

    __device__ __forceinline__ bool merged() const { return gridDim.x != count; }
    __device__ __forceinline__ int per_cta() const { return (count + gridDim.x - 1) / gridDim.x; }
};

// The work of this CTA, as an entry of `work`: x is the first tile, y the tile after the last one, z the head partial
// and w the tail partial (tile/split.cuh).
__device__ __forceinline__ int4 work_of_cta(const Partitions& partitions) {
    if (!partitions.merged()) return __ldg(partitions.work + blockIdx.x);
    const int first = blockIdx.x * partitions.per_cta();
    if (first >= partitions.count) return make_int4(0, 0, -1, -1);
    int4 own = __ldg(partitions.work + first);
    const int last_partition = min(first + partitions.per_cta(), partitions.count) - 1;
    const int4 last = __ldg(partitions.work + last_partition);
    // If the first partition lies inside one window, its head partial is stored as the tail partial.
    int before = own.z;
    if (before < 0 && own.w >= 0 && split_of(partitions.cut, own.w).first < own.w) before = own.w;
    own.y = last.y, own.z = before, own.w = last.w;
    if (before >= 0 && last.w >= 0 &&
        split_of(partitions.cut, before).target == split_of(partitions.cut, last.w).target) {
        own.z = -1, own.w = before;
    }
    return own;
}

// Fix-up of a split window: stores this warp's partial sum and counts its arrival. Returns the window in the warp that
// arrives last; its `sums` are then the totals of all partial sums, added in their order. Returns -1 in other warps.
//
// A counter may start with any value that is at least count - 1: the first arrival wraps it to 0. It ends at count - 1.
template <int SUMS>
__device__ __forceinline__ int add_partials(float (&sums)[SUMS][4], const Partitions& partitions, int partial) {
    const Split split = split_of(partitions.cut, partial);
    int count = split.count;
    if (partitions.merged()) {
        // One partial sum per CTA instead of one per partition.
        const int first_cta = split_of(partitions.cut, split.first).origin / partitions.per_cta();
        partial = split.first + blockIdx.x - first_cta;
        const int last = split.first + split.count - 1;
        count = split_of(partitions.cut, last).origin / partitions.per_cta() + 1 - first_cta;
    }
    const int lane = threadIdx.x % 32;
    const long long step = 32ll * SUMS * gridDim.y, slab = 32ll * SUMS * blockIdx.y + lane;
    float4* own = partitions.partials + partial * step + slab;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) __stcg(own + 32 * i, make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
    __syncwarp();
    unsigned* counters = reinterpret_cast<unsigned*>(partitions.partials + partitions.partial_count * step);
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(counters + (split.first * gridDim.y + blockIdx.y), count - 1);
    if (__shfl_sync(~0u, before, 0) != count - 2) return -1;
    __threadfence();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    const float4* from = partitions.partials + split.first * step + slab;
#pragma unroll 1
    for (int i = 0; i < count; ++i, from += step) {
#pragma unroll
        for (int j = 0; j < SUMS; ++j) {
            const float4 x = __ldcg(from + 32 * j);
            sums[j][0] += x.x, sums[j][1] += x.y, sums[j][2] += x.z, sums[j][3] += x.w;
        }
    }
    return split.target;
}

// A warp's tiles `begin` to `last` of its CTA's partition (none if `last` is before `begin`), and the sums of the open
// window. `store(window, sums)` writes a complete window to C.
template <int WARPS, int SUMS>
class WarpTiles {
  public:
    // Shared memory of one warp.
    struct Shared {
        int4 work;              // copy of the CTA's work
        float4 sums[SUMS][32];  // of the warp's first window, if that began in another warp
        int4 closed;            // x: that window if it ends in this warp, or -1
    };
    int begin, last;
    float sums[SUMS][4];

    __device__ __forceinline__ WarpTiles(const Partitions& partitions, const int* __restrict__ ends, void* shared)
        : partitions_(partitions), warps_(static_cast<Shared*>(shared)) {
        const int4 own = work_of_cta(partitions);
        if (lane() == 0) warps_[warp()].work = own;
        begin = first_tile(own, warp()), last = first_tile(own, warp() + 1) - 1;
        begun_by_cta_ = begin == own.x && own.z >= 0;
        joins_ = begun_by_cta_ || (begin > own.x && begin <= last && __ldg(ends + begin - 1) < 0);
        kept_ = false;
        clear();
    }

    // `window` ends with the tile that was added last.
    template <class Store>
    __device__ __forceinline__ void close(int window, Store store) {
        if (joins_) {
            joins_ = false, kept_ = true;
            keep(window);
        } else {
            store(window, sums);
        }
        clear();
    }

    // The end of the CTA, for all of its threads. `window` is the one that ended with the warp's last tile, or -1.
    template <class Store>
    __device__ __forceinline__ void finish(int window, Store store) {
        __syncwarp();
        // Read again, because registers that hold it would be occupied during the loop.
        const int4 own = warps_[warp()].work;
        begin = first_tile(own, warp()), last = first_tile(own, warp() + 1) - 1;
        bool open = begin <= last && window < 0;
        if (open && joins_ && !begun_by_cta_) {
            open = false;
            keep(-1);
        }
        __syncthreads();
        // First the window that continues after this warp, then the window that an earlier CTA began.
        const bool both = kept_ && begun_by_cta_;
#pragma unroll 1
        for (int turn = open ? 0 : 1; turn < (both ? 2 : 1); ++turn) {
            int partial = own.z;
            window = -1;
            if (turn == 0) {
                for (int next = warp() + 1; next < WARPS && window < 0; ++next) {
                    if (first_tile(own, next) < first_tile(own, next + 1)) window = add_kept(next);
                }
                if (window < 0) {
                    partial = own.w;
                } else if (both || !begun_by_cta_) {
                    partial = -1;
                }
            } else {
                clear();
                window = add_kept(warp());
            }
            if (partial >= 0) window = add_partials(sums, partitions_, partial);
            if (window >= 0) store(window, sums);
        }
    }

  private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
    static __device__ __forceinline__ int first_tile(const int4& own, int warp) {
        return own.x + (own.y - own.x) * warp / WARPS;
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    }
    // Leave the sums of the first window to the warp in which it began.
    __device__ __forceinline__ void keep(int window) {
        if (lane() == 0) warps_[warp()].closed.x = window;
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            warps_[warp()].sums[i][lane()] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        }
    }
    // Add the sums that a warp kept; returns the window if it ends there, or -1.
    __device__ __forceinline__ int add_kept(int warp) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float4 x = warps_[warp].sums[i][lane()];
            sums[i][0] += x.x, sums[i][1] += x.y, sums[i][2] += x.z, sums[i][3] += x.w;
        }
        return warps_[warp].closed.x;
    }

    Partitions partitions_;
    Shared* warps_;
    bool begun_by_cta_;  // an earlier CTA began this warp's first window
    bool joins_;         // another warp or CTA began the open window
    bool kept_;          // the sums of the first window are in shared memory
};

// Load of data that a call reads once. If it does not fit L2 together with B and C (PASSES), it should not displace
// them; otherwise it should stay in L2 for the next call.
template <bool PASSES, class T>
__device__ __forceinline__ T load_once(const T* from) {
    return PASSES ? __ldcs(from) : __ldg(from);
}

// The loop over a warp's tiles with operands in registers. While a tile is multiplied, the column ids of the next one
// are in flight, and so are the operands of other warps. `source.columns(tile)` and `source.load(operands, columns,
// tile)` load what `product(operands)` multiplies. Returns the window that ends with the last tile, or -1.
//
// The tiles of one window are an inner loop: if a branch within a single loop cleared the sums, the compiler would keep
// them in two sets of registers and move them at every tile.
template <bool PASSES, class Operands, class Source, class Product, class Close>
__device__ __forceinline__ int stream(int begin, int last, const Source& source, Product product, Close close) {
    int window = -1;
    if (begin > last) return window;
    auto columns = source.template columns<PASSES>(begin);
    for (int tile = begin; tile <= last;) {
        do {
            Operands operands;
            source.template load<PASSES>(operands, columns, tile);
            ++tile;
            columns = source.template columns<PASSES>(min(tile, last));
            product(operands);
            window = operands.window;
        } while (window < 0 && tile <= last);
        if (window >= 0) close(window);
    }
    return window;
}

}  // namespace tile
