#pragma once
// What the kernels of CSR in shares have in common (formats csr_shares and csr_split): groups of LANES lanes, each with
// a strip of four or eight columns a lane, the shares of CTAs, batches of entries, and rows that are cut, whose parts are
// added up by the last group that comes.

#include "ptx/atom_inc.cuh"
#include "tile/store.cuh"

namespace tile {

// The lanes of the warp before those of the group, the group's bits of a ballot, and the group as a mask.
template <int LANES>
__device__ __forceinline__ int below() {
    return threadIdx.x % 32 / LANES * LANES;
}
template <int LANES>
__device__ __forceinline__ unsigned of_group(unsigned ballot) {
    return ballot >> below<LANES>() & ~0u >> (32 - LANES);
}
template <int LANES>
__device__ __forceinline__ unsigned group_mask() {
    return ~0u >> (32 - LANES) << below<LANES>();
}

// The share of this CTA. As a rule CTAs go to all multiprocessors in turn: those of one get shares that follow each
// other.
__device__ __forceinline__ int share(int multiprocessors) {
    const int on = blockIdx.x % multiprocessors, turn = blockIdx.x / multiprocessors;
    return on * (gridDim.x / multiprocessors) + min(on, gridDim.x % multiprocessors) + turn;
}

// Sums of eight columns; those of four are a float4. They are added, and put to memory and got from it past the
// first-level cache.
struct Eight {
    float4 low, high;
};
__device__ __forceinline__ void add(float4& sum, const float4& x) {
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}
__device__ __forceinline__ void add(Eight& sum, const Eight& x) {
    add(sum.low, x.low);
    add(sum.high, x.high);
}
__device__ __forceinline__ void put(float4* to, const float4& sum) { __stcg(to, sum); }
__device__ __forceinline__ void put(Eight* to, const Eight& sum) {
    __stcg(&to->low, sum.low);
    __stcg(&to->high, sum.high);
}
__device__ __forceinline__ float4 get(const float4* from) { return __ldcg(from); }
__device__ __forceinline__ Eight get(const Eight* from) { return {__ldcg(&from->low), __ldcg(&from->high)}; }

// A lane's columns of the rows of B of a batch, all on their way at the same time.
template <class Piece, int BATCH>
__device__ __forceinline__ void load_rows(
    Piece (&x)[BATCH], const int* columns, const char* strip, int stride) {
#pragma unroll
    for (int i = 0; i < BATCH; i += 4) {
        const int4 four = *reinterpret_cast<const int4*>(columns + i);
        const int rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const char* from = strip + static_cast<long long>(rows[j]) * stride;
            x[i + j] = __ldg(reinterpret_cast<const Piece*>(from));
        }
    }
}

// Calls add(i, value) for all entries of a batch in turn, and close() behind those of which `ends` has the bit.
template <int BATCH, class Add, class Close>
__device__ __forceinline__ void each_entry(const float* values, unsigned ends, const Add& add, const Close& close) {
#pragma unroll
    for (int i = 0; i < BATCH; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(values + i);
        const float a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            add(i + j, a[j]);
            if (ends & 1u << (i + j)) close();
        }
    }
}

// Sums of a part of a row go to memory, Sum[part][strip][LANES] and a counter a part and strip. True for the group that
// is the last of the row's to come here, whose sum is then that of all parts, added in their order. `of` is what the
// format's `cut` says of the part. The counters count from any number that is not below that of a row's parts, and end
// where they began. A row whose groups are all of this CTA may have one in shared memory instead, `here`, which spares
// two ways to the second-level cache and the contents of the first.
template <int LANES, class Sum>
__device__ __forceinline__ bool add_parts(
    Sum& sum, Sum* parts, int part_count, int part, const int4& of, unsigned* here = nullptr) {
    const int lane = threadIdx.x % LANES;
    const unsigned group = group_mask<LANES>();
    const long long step = static_cast<long long>(LANES) * gridDim.y;
    Sum* strip = parts + LANES * blockIdx.y + lane;
    put(strip + part * step, sum);
    __syncwarp(group);
    unsigned before = 0;
    if (lane == 0 && here != nullptr) {
        __threadfence_block();
        before = atomicInc(here, of.y - 1);
    } else if (lane == 0) {
        unsigned* arrived = reinterpret_cast<unsigned*>(parts + part_count * step) + of.x * gridDim.y + blockIdx.y;
        before = ptx::atomic_inc_release(arrived, of.y - 1);
    }
    if (__shfl_sync(group, before, 0, LANES) != of.y - 2) return false;
    if (here != nullptr) {
        __threadfence_block();
    } else {
        __threadfence();
    }
    sum = {};
#pragma unroll 4
    for (int each = 0; each < of.y; ++each) add(sum, get(strip + (of.x + each) * step));
    return true;
}

}  // namespace tile
