#pragma once
// What the kernels of CSR in shares have in common: groups of LANES lanes, each with a strip of four or eight columns a
// lane, the shares of CTAs, and rows that are cut, whose parts are added up by the last group that comes (formats
// csr_shares and csr_split).

#include "ptx/atom_inc.cuh"

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

// In code of `FACTORS`, alpha times the sum plus beta times what is there, which is not read for beta = 0.
template <bool FACTORS>
__device__ __forceinline__ void store(float4* c, float4 sum, float alpha, float beta) {
    if constexpr (FACTORS) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        if (beta != 0.0f) {
            const float4 old = *c;
            sum.x += beta * old.x, sum.y += beta * old.y, sum.z += beta * old.z, sum.w += beta * old.w;
        }
    }
    __stcs(c, sum);
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

// Sums of a part of a row go to memory, Sum[part][strip][LANES] and a counter a part and strip. True for the group that
// is the last of the row's to come here, whose sum is then that of all parts, added in their order. `of` is what the
// format's `cut` says of the part. The counters count from any number that is not below that of a row's parts, and end
// where they began.
template <int LANES, class Sum>
__device__ __forceinline__ bool add_parts(Sum& sum, Sum* parts, int part_count, int part, const int4& of) {
    const int lane = threadIdx.x % LANES;
    const unsigned group = group_mask<LANES>();
    const long long step = static_cast<long long>(LANES) * gridDim.y;
    Sum* strip = parts + LANES * blockIdx.y + lane;
    put(strip + part * step, sum);
    __syncwarp(group);
    unsigned* arrived = reinterpret_cast<unsigned*>(parts + part_count * step) + of.x * gridDim.y + blockIdx.y;
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(arrived, of.y - 1);
    if (__shfl_sync(group, before, 0, LANES) != of.y - 2) return false;
    __threadfence();
    sum = {};
#pragma unroll 4
    for (int each = 0; each < of.y; ++each) add(sum, get(strip + (of.x + each) * step));
    return true;
}

}  // namespace tile
