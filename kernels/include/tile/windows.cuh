#pragma once
// What the kernels of windows of eight rows share (format vectors_8x1): the walk of a CTA through its tiles, and the
// windows that several warps or CTAs work on.

#include "ptx/atom_inc.cuh"

namespace tile {

constexpr int WINDOW = 8;

// What shares are made of (arrays `work` and `cut` of the format) and how many there are, and where sums of parts of windows
// meet: float4[part][strip][sums of a lane][32], and a counter a part and strip. Where the grid has fewer CTAs than there
// are shares, each CTA takes several that follow each other.
struct Share {
    const int4 *work, *cut;
    int count;
    float4* parts;
    int part_count;

    __device__ __forceinline__ bool merged() const { return gridDim.x != count; }
    // Shares of a CTA.
    __device__ __forceinline__ int merge() const { return (count + gridDim.x - 1) / gridDim.x; }
};

// What this CTA has to do, as an entry of `work`.
__device__ __forceinline__ int4 work_of(const Share& share) {
    if (!share.merged()) return __ldg(share.work + blockIdx.x);
    const int first = blockIdx.x * share.merge();
    if (first >= share.count) return make_int4(0, 0, -1, -1);
    int4 own = __ldg(share.work + first);
    const int4 last = __ldg(share.work + (min(first + share.merge(), share.count) - 1));
    // Of a share that lies inside a window, the part that goes on also began before.
    int before = own.z;
    if (before < 0 && own.w >= 0 && __ldg(share.cut + own.w).x < own.w) before = own.w;
    own.y = last.y, own.z = before, own.w = last.w;
    if (before >= 0 && last.w >= 0 && __ldg(share.cut + before).z == __ldg(share.cut + last.w).z) {
        own.z = -1, own.w = before;
    }
    return own;
}

// Sums of a part go to memory. Returns the window if this warp was the last of those that share it, whose sums are then
// those of all parts, added in their order, and -1 otherwise. The counters count from any number that is not below that
// of a window's parts, and end where they began.
template <int SUMS>
__device__ __forceinline__ int add_parts(float (&sums)[SUMS][4], const Share& share, int part) {
    const int4 of = __ldg(share.cut + part);
    int count = of.y;
    if (share.merged()) {
        // As many parts as CTAs.
        const int first = __ldg(share.cut + of.x).w / share.merge();
        part = of.x + blockIdx.x - first;
        count = __ldg(share.cut + (of.x + of.y - 1)).w / share.merge() + 1 - first;
    }
    const int lane = threadIdx.x % 32;
    const long long step = 32ll * SUMS * gridDim.y, strip = 32ll * SUMS * blockIdx.y + lane;
    float4* own = share.parts + part * step + strip;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) __stcg(own + 32 * i, make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
    __syncwarp();
    unsigned* arrived = reinterpret_cast<unsigned*>(share.parts + share.part_count * step);
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(arrived + (of.x * gridDim.y + blockIdx.y), count - 1);
    if (__shfl_sync(~0u, before, 0) != count - 2) return -1;
    __threadfence();
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    const float4* from = share.parts + of.x * step + strip;
#pragma unroll 1
    for (int each = 0; each < count; ++each, from += step) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float4 x = __ldcg(from + 32 * i);
            sums[i][0] += x.x, sums[i][1] += x.y, sums[i][2] += x.z, sums[i][3] += x.w;
        }
    }
    return of.z;
}

// A warp's equal part of its CTA's share, tiles `begin` to `last` (none where that is before), and the sums of the window
// that it is at. `store(window, sums)` writes eight rows. Windows that reach from one warp to the next are added up in
// shared memory, by the warp where they begin.
template <int WARPS, int SUMS>
class Part {
  public:
    // In shared memory, for each warp: a copy of what the CTA has to do, the sums of the warp's first window where that
    // began with another warp, and the window if it ends with this one, or -1.
    struct Shared {
        int4 own;
        float4 of[SUMS][32];
        int4 closed;
    };
    int begin, last;
    float sums[SUMS][4];

    __device__ __forceinline__ Part(const Share& share, const int* __restrict__ ends, void* shared)
        : share_(share), warps_(static_cast<Shared*>(shared)) {
        const int4 own = work_of(share);
        if (lane() == 0) warps_[warp()].own = own;
        begin = first_of(own, warp()), last = first_of(own, warp() + 1) - 1;
        begun_before_ = begin == own.x && own.z >= 0;
        joins_ = begun_before_ || (begin > own.x && begin <= last && __ldg(ends + begin - 1) < 0);
        kept_ = false;
        clear();
    }

    // A window ends here.
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

    // All tiles are multiplied; `window` ended with the last one, or is -1. For all threads of the CTA.
    template <class Store>
    __device__ __forceinline__ void finish(int window, Store store) {
        __syncwarp();
        const int4 own = warps_[warp()].own;  // rather than registers that wait in the loop
        begin = first_of(own, warp()), last = first_of(own, warp() + 1) - 1;
        bool open = begin <= last && window < 0;
        if (open && joins_ && !begun_before_) {
            open = false;
            keep(-1);
        }
        __syncthreads();
        // First the window that goes on behind this warp, then the one that a CTA before has begun.
        const bool both = kept_ && begun_before_;
#pragma unroll 1
        for (int turn = open ? 0 : 1; turn < (both ? 2 : 1); ++turn) {
            int part = own.z;
            window = -1;
            if (turn == 0) {
                for (int next = warp() + 1; next < WARPS && window < 0; ++next) {
                    if (first_of(own, next) < first_of(own, next + 1)) window = add(next);
                }
                if (window < 0) {
                    part = own.w;
                } else if (both || !begun_before_) {
                    part = -1;
                }
            } else {
                clear();
                window = add(warp());
            }
            if (part >= 0) window = add_parts(sums, share_, part);
            if (window >= 0) store(window, sums);
        }
    }

  private:
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int warp() { return threadIdx.x / 32; }
    static __device__ __forceinline__ int first_of(const int4& own, int warp) {
        return own.x + (own.y - own.x) * warp / WARPS;
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    }
    __device__ __forceinline__ void keep(int window) {
        if (lane() == 0) warps_[warp()].closed.x = window;
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            warps_[warp()].of[i][lane()] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        }
    }
    __device__ __forceinline__ int add(int warp) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float4 x = warps_[warp].of[i][lane()];
            sums[i][0] += x.x, sums[i][1] += x.y, sums[i][2] += x.z, sums[i][3] += x.w;
        }
        return warps_[warp].closed.x;
    }

    Share share_;
    Shared* warps_;
    // Whether the first window began with a CTA before, whether it began with another warp or CTA and is not at its end
    // yet, and whether its sums wait in shared memory.
    bool begun_before_, joins_, kept_;
};

// Loads what is read once in a call: where it does not fit L2 together with B and C (PASSES), it is not to displace them;
// where it does, it is to stay for the next call.
template <bool PASSES, class T>
__device__ __forceinline__ T load_once(const T* from) {
    return PASSES ? __ldcs(from) : __ldg(from);
}

// A warp's way through its tiles with operands in registers: while one tile is multiplied the columns of the next are on
// their way, and other warps' operands. `source.columns(tile)` and `source.load(operands, columns, tile)` ask for what
// `product(operands)` needs. Returns the window that ends with the last tile, or -1. Tiles of a window are a loop of
// their own: sums that a branch of the loop clears would lie in two sets of registers, and be moved with every tile.
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
