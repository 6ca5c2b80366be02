#pragma once
// Sums over a run of entries of A that a lane group multiplies, as in tile/staged_row.cuh, with rows of B in flight across
// the steps in which entries are copied. A group has at least four lanes.

#include "ptx/cp_async.cuh"
#include "ptx/cp_async_ca.cuh"
#include "ptx/mov.cuh"
#include "tile/four.cuh"
#include "tile/packet.cuh"

namespace tile {

// Two steps of entries of the groups of a CTA, four entries a lane and step. For each eight lanes of a group a place is
// left empty, so that the two groups of a half warp read from different banks.
template <int THREADS>
struct RollingFours {
    static constexpr int PLACES = 2 * THREADS + THREADS / 8;
    int4 columns[PLACES];
    float4 values[PLACES];
};
// The same with values of 16 bits.
template <int THREADS>
struct RollingFours16 {
    static constexpr int PLACES = 2 * THREADS + THREADS / 8;
    int4 columns[PLACES];
    ushort4 values[PLACES];
};
// The same with values of 64 bits.
template <int THREADS>
struct RollingFours64 {
    static constexpr int PLACES = 2 * THREADS + THREADS / 8;
    int4 columns[PLACES];
    Double4 values[PLACES];
};
__device__ __forceinline__ void copy_four(float4* shared, const float* global) {
    ptx::cp_async_16_cached(shared, global);
}
__device__ __forceinline__ void copy_four(ushort4* shared, const unsigned short* global) {
    ptx::cp_async_8_cached(shared, global);
}
__device__ __forceinline__ void copy_four(Double4* shared, const double* global) {
    ptx::cp_async_16_cached(shared, global);
    ptx::cp_async_16_cached(&shared->z, global + 2);
}

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
template <class P, int FOURS, class Rolling>
__device__ __forceinline__ void add_rolling(
    typename P::Number (&sums)[P::WIDTH], Rolling& staged, const int* __restrict__ indices,
    const typename P::Stored* __restrict__ data, int start, int end, const typename P::Stored* __restrict__ b,
    unsigned stride) {
    using Stored = typename P::Stored;
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
            copy_four(&staged.values[place(four)], data + (aligned + 4 * four));
        }
        ptx::cp_async_commit();
    };

    P packets[FOURS][4];
    const auto add = [&](int i, unsigned four) {
        const auto of_a = staged.values[place(four) + i];
        const Stored values[4] = {of_a.x, of_a.y, of_a.z, of_a.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) packets[i][j].add_to(sums, P::widened(values[j]));
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
            const auto of_a = staged.values[at];
            const Stored none = 0;
            staged.values[at] = {
                valid[0] ? of_a.x : none, valid[1] ? of_a.y : none, valid[2] ? of_a.z : none,
                valid[3] ? of_a.w : none};
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
                    packets[i][j].load(reinterpret_cast<const Stored*>(rows + offset * stride));
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
