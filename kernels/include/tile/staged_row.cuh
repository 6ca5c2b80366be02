#pragma once
// Sums over a run of entries of A that a lane group multiplies: the group reads the entries together and stages them in
// shared memory, and then each lane reads its columns of many rows of B at a time (Gale et al. 2020, sections 5.1 and
// 5.2). A group is the threads of one threadIdx.y, a power of two of them; the groups of a warp take the same number of
// steps, so that the warp stays together.

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

// Entries that the groups of a CTA have staged, four a thread.
template <int THREADS>
struct StagedFours {
    int4 columns[THREADS];
    float4 values[THREADS];
};

// Add the products of a batch of staged entries with their packets of B, which are all in flight at once: fours
// 0 to count - 1, or all FOURS of them if the batch is WHOLE. Otherwise an entry with a negative column id is none, and
// its value is zero.
template <class P, int FOURS, bool WHOLE, class T>
__device__ __forceinline__ void add_batch(
    float (&sums)[P::WIDTH], const int4* columns, const float4* values, int count, const T* b, unsigned stride) {
    P packets[4 * FOURS];
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        if (!WHOLE && i >= count) continue;
        const int4 four = columns[i];
        const int rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            // Unsigned, so that one instruction multiplies 32 bits by 32 bits.
            const unsigned long long offset = static_cast<unsigned>(rows[j]);
            const char* row = reinterpret_cast<const char*>(b) + offset * stride;
            if (!WHOLE) packets[4 * i + j].raw = {};
            if (WHOLE || rows[j] >= 0) packets[4 * i + j].load(reinterpret_cast<const T*>(row));
        }
    }
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        if (!WHOLE && i >= count) continue;
        const float4 four = values[i];
        packets[4 * i].add_to(sums, four.x);
        packets[4 * i + 1].add_to(sums, four.y);
        packets[4 * i + 2].add_to(sums, four.z);
        packets[4 * i + 3].add_to(sums, four.w);
    }
}

// Sums of a packet of columns over the entries start to end - 1 of A; a group may have none. All threads of a warp call
// it. One load brings four column ids of a lane and another four values; they are aligned, so the first four may begin
// before `start`. While a batch of 4·FOURS packets of B is in flight, so are the entries of the next step. `b` points at
// the lane's columns in row 0 of B, and `stride` is the length of a row in bytes.
//
//   a step of a group of eight lanes, FOURS = 4     lane 0 | lane 1 | lane 2 | lane 3 | lane 4 | …    reads four entries
//                                                   first batch                       | second batch
template <class P, int FOURS, class T, int THREADS>
__device__ __forceinline__ void add_staged(
    float (&sums)[P::WIDTH], StagedFours<THREADS>& staged, const int* __restrict__ indices,
    const T* __restrict__ data, int start, int end, const T* __restrict__ b, unsigned stride) {
    const int lanes = blockDim.x, lane = threadIdx.x;
    int4* columns = staged.columns + threadIdx.y * lanes;
    float4* values = staged.values + threadIdx.y * lanes;
    int first = (start & ~3) + 4 * lane;
    int fours = start < end ? (end - first + 3) / 4 + lane : 0;
    int most = __reduce_max_sync(~0u, fours);
    FourEntries<T> own;
    if (lane < fours) own.load(indices, data, first, start, end);
    while (most > 0) {
        bool valid[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) valid[j] = lane < fours && own.columns[j] >= 0;
        columns[lane] = make_int4(
            valid[0] ? own.columns[0] : -1, valid[1] ? own.columns[1] : -1, valid[2] ? own.columns[2] : -1,
            valid[3] ? own.columns[3] : -1);
        values[lane] = make_float4(
            valid[0] ? own.values[0] : 0.f, valid[1] ? own.values[1] : 0.f, valid[2] ? own.values[2] : 0.f,
            valid[3] ? own.values[3] : 0.f);
        // Bit f: four f of every group of the warp is whole.
        unsigned whole = __ballot_sync(~0u, valid[0] && valid[1] && valid[2] && valid[3]);
        for (int i = lanes; i < 32; i *= 2) whole &= whole >> i;
        __syncwarp();
        const int now = min(most, lanes);
        first += 4 * lanes, fours -= lanes, most -= lanes;
        if (lane < fours) own.load(indices, data, first, start, end);
        for (int four = 0; four < now; four += FOURS, whole >>= FOURS) {
            constexpr unsigned ALL = (1u << FOURS) - 1;
            if ((whole & ALL) == ALL) {
                add_batch<P, FOURS, true>(sums, columns + four, values + four, FOURS, b, stride);
            } else {
                add_batch<P, FOURS, false>(sums, columns + four, values + four, now - four, b, stride);
            }
        }
        __syncwarp();
    }
}

}  // namespace tile
