#pragma once
// Sums over a run of entries of A that a lane group multiplies: the group copies the entries together to shared memory,
// and then each lane reads its columns of many rows of B at a time (Gale et al. 2020, sections 5.1 and 5.2). A group is
// the threads of one threadIdx.y, a power of two and at least four of them; the groups of a warp take the same number
// of steps, so that the warp stays together.

#include "ptx/cp_async.cuh"
#include "ptx/cp_async_ca.cuh"
#include "ptx/mov.cuh"
#include "tile/packet.cuh"

namespace tile {

// Eight bytes of a row of B in half precision: lane groups of a narrow B have more lanes with them.
struct HalfPacket {
    static constexpr int WIDTH = 4;
    uint2 raw;

    __device__ __forceinline__ void load(const half* source) { raw = __ldg(reinterpret_cast<const uint2*>(source)); }
    __device__ __forceinline__ void add_to(float (&sums)[WIDTH], float value) const {
        const float2 low = __half22float2(reinterpret_cast<const __half2&>(raw.x));
        const float2 high = __half22float2(reinterpret_cast<const __half2&>(raw.y));
        sums[0] += value * low.x;
        sums[1] += value * low.y;
        sums[2] += value * high.x;
        sums[3] += value * high.y;
    }
    __device__ __forceinline__ static void store(half* target, const float (&sums)[WIDTH]) {
        uint2 packed;
        reinterpret_cast<__half2&>(packed.x) = __floats2half2_rn(sums[0], sums[1]);
        reinterpret_cast<__half2&>(packed.y) = __floats2half2_rn(sums[2], sums[3]);
        *reinterpret_cast<uint2*>(target) = packed;
    }
};

// Values of four neighbouring entries of A: how they are copied, and each of them in single precision.
struct FourFloats {
    float4 raw;

    __device__ __forceinline__ void copy_from(const float* source) { ptx::cp_async_16_cached(this, source); }
    __device__ __forceinline__ void widen(float (&values)[4]) const {
        values[0] = raw.x, values[1] = raw.y, values[2] = raw.z, values[3] = raw.w;
    }
    __device__ __forceinline__ void keep(const bool (&wanted)[4]) {
        raw = make_float4(
            wanted[0] ? raw.x : 0.f, wanted[1] ? raw.y : 0.f, wanted[2] ? raw.z : 0.f, wanted[3] ? raw.w : 0.f);
    }
};
struct FourHalves {
    uint2 raw;

    __device__ __forceinline__ void copy_from(const half* source) { ptx::cp_async_8_cached(this, source); }
    __device__ __forceinline__ void widen(float (&values)[4]) const {
        const float2 low = __half22float2(reinterpret_cast<const __half2&>(raw.x));
        const float2 high = __half22float2(reinterpret_cast<const __half2&>(raw.y));
        values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
    }
    __device__ __forceinline__ void keep(const bool (&wanted)[4]) {
        raw.x &= (wanted[0] ? 0xffffu : 0u) | (wanted[1] ? 0xffff0000u : 0u);
        raw.y &= (wanted[2] ? 0xffffu : 0u) | (wanted[3] ? 0xffff0000u : 0u);
    }
};
template <class T>
struct ValuesOf {
    using Four = FourFloats;
};
template <>
struct ValuesOf<half> {
    using Four = FourHalves;
};

// Two steps of entries of the groups of a CTA, four entries a lane and step. For each eight lanes of a group a place is
// left empty, so that the two groups of a half warp read from different banks.
template <class T, int THREADS>
struct Staged {
    static constexpr int PLACES = 2 * THREADS + THREADS / 8;
    int4 columns[PLACES];
    typename ValuesOf<T>::Four values[PLACES];
};

// Sums of a packet of columns over the entries start to end - 1 of A; a group may have none. All threads of a warp call
// it. A lane copies four column ids at a time and four values; they are aligned, so the first four may begin before
// `start`, and the last may end behind `end`. FOURS fours of packets of B are in flight, two or four: as soon as a four
// has been added, its packets are loaded for the four that comes FOURS later, also in the next step, whose entries have
// arrived by then. `b` points at the lane's columns in row 0 of B, and `stride` is the length of a row in bytes.
//
//   four         0  1  2  3  4  5  6  7 | 8  9 …      a step of a group of eight lanes | the next step
//   in flight    ----                                 FOURS = 2, before four 0 is added
//                   ----                              before four 1 is added
//                                     -----           before four 7 is added
template <class P, int FOURS, class T, int THREADS>
__device__ __forceinline__ void add_staged(
    float (&sums)[P::WIDTH], Staged<T, THREADS>& staged, const int* __restrict__ indices, const T* __restrict__ data,
    int start, int end, const T* __restrict__ b, unsigned stride) {
    const unsigned lanes = blockDim.x, lane = threadIdx.x;
    const unsigned group = ptx::kept(threadIdx.y * (2 * lanes + lanes / 8));
    const char* const rows = reinterpret_cast<const char*>(ptx::kept(b));
    const unsigned aligned = start & ~3;
    const unsigned fours = start < end ? (end - aligned + 3) / 4 : 0;  // of this group
    const unsigned most = __reduce_max_sync(~0u, fours);
    // Where a four lies: the step behind the next one takes the place of this one.
    const auto place = [&](unsigned four) { return group + (four & (2 * lanes - 1)); };
    const auto copy = [&](unsigned four) {
        if (four < fours) {
            ptx::cp_async_16_cached(&staged.columns[place(four)], indices + (aligned + 4 * four));
            staged.values[place(four)].copy_from(data + (aligned + 4 * four));
        }
        ptx::cp_async_commit();
    };

    P packets[FOURS][4];
    const auto add = [&](int i, unsigned four) {
        float values[4];
        staged.values[place(four) + i].widen(values);
#pragma unroll
        for (int j = 0; j < 4; ++j) packets[i][j].add_to(sums, values[j]);
    };

    copy(lane);
    for (unsigned first = 0; first < most; first += lanes) {
        ptx::cp_async_wait<0>();
        const int own = aligned + 4 * (first + lane);
        const bool partial = first + lane < fours && (own < start || own + 4 > end);
        if (partial) {
            bool valid[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) valid[j] = own + j >= start && own + j < end;
            const unsigned at = place(first + lane);
            const int4 ids = staged.columns[at];
            staged.columns[at] = make_int4(
                valid[0] ? ids.x : -1, valid[1] ? ids.y : -1, valid[2] ? ids.z : -1, valid[3] ? ids.w : -1);
            staged.values[at].keep(valid);
        }
        // Bit f: four f of a group of this warp has entries of other rows.
        unsigned cut = __ballot_sync(~0u, partial);
        for (unsigned i = lanes; i < 32; i *= 2) cut |= cut >> i;
        __syncwarp();
        const unsigned last = min(most, first + lanes);
        for (unsigned four = first; four < last; four += FOURS, cut >>= FOURS) {
#pragma unroll
            for (int i = 0; i < FOURS; ++i) {
                const int4 ids = staged.columns[place(four) + i];
                // False in the first FOURS fours, since the numbers are unsigned.
                if (four - FOURS + i < fours) add(i, four - FOURS);
                if (four + i >= fours) continue;
                const int columns[4] = {ids.x, ids.y, ids.z, ids.w};
                const auto load = [&](int j) {
                    // Unsigned, so that one instruction multiplies 32 bits by 32 bits.
                    const unsigned long long offset = static_cast<unsigned>(columns[j]);
                    packets[i][j].load(reinterpret_cast<const T*>(rows + offset * stride));
                };
                if (cut & 1u << i) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        packets[i][j].raw = {};
                        if (columns[j] >= 0) load(j);
                    }
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j) load(j);
                }
            }
            // Now the step before this one has been added.
            if (four == first) {
                __syncwarp();
                copy(first + lanes + lane);
            }
        }
    }
    // The fours that are still in flight.
    const unsigned behind = (most + FOURS - 1) / FOURS * FOURS - FOURS;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        if (behind + i < fours) add(i, behind);
    }
}

}  // namespace tile
