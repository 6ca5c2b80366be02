#pragma once
// What the kernels of CSR in shares have in common: groups of LANES lanes, each with a strip of four columns a lane, the
// shares of CTAs, and rows that are cut, whose parts are added up by the last group that comes (formats csr_shares and
// csr_split).

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

// Sums of a part of a row go to memory, float4[part][strip][LANES] and a counter a part and strip. True for the group
// that is the last of the row's to come here, whose sum is then that of all parts, added in their order. `of` is what the
// format's `cut` says of the part. The counters count from any number that is not below that of a row's parts, and end
// where they began.
template <int LANES>
__device__ __forceinline__ bool add_parts(float4& sum, float4* parts, int part_count, int part, const int4& of) {
    const int lane = threadIdx.x % LANES;
    const unsigned group = group_mask<LANES>();
    const long long step = static_cast<long long>(LANES) * gridDim.y;
    float4* strip = parts + LANES * blockIdx.y + lane;
    __stcg(strip + part * step, sum);
    __syncwarp(group);
    unsigned* arrived = reinterpret_cast<unsigned*>(parts + part_count * step) + of.x * gridDim.y + blockIdx.y;
    unsigned before = 0;
    if (lane == 0) before = ptx::atomic_inc_release(arrived, of.y - 1);
    if (__shfl_sync(group, before, 0, LANES) != of.y - 2) return false;
    __threadfence();
    sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int each = 0; each < of.y; ++each) {
        const float4 x = __ldcg(strip + (of.x + each) * step);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    return true;
}

}  // namespace tile
