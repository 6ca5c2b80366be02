#pragma once
// What the kernels of CSR in equal parts for all groups of LANES lanes have in common (format csr_split): batches of
// entries of each group, and rows that several groups have a part of. A lane sums the columns of a Sum: four or eight.

#include "tile/cut_rows.cuh"

namespace tile {

constexpr int SPLIT_BATCH = 8;
// Of a group's first row, that it began before and ends in this group.
constexpr int ENDED = 1 << 31;

template <int WARPS, int LANES, class Sum>
struct SplitShared {
    static constexpr int OF_WARP = 32 / LANES * SPLIT_BATCH, GROUPS = WARPS * 32 / LANES;
    // Entries on their way from the lanes that load them to all lanes of the group.
    __align__(16) int columns[WARPS][OF_WARP];
    __align__(16) float values[WARPS][OF_WARP];
    // Of a group's first row its part if it began before; and the row, or ~row (negative) where that was so, or ENDED
    // where it was so and the row ends in this group.
    Sum sums[GROUPS][LANES];
    int heads[GROUPS];
    int4 own;  // a copy of what the CTA has to do, rather than registers that wait in the loop
};

// The end of a CTA: rows that groups have parts of are added up by the one where they begin, and rows of several CTAs
// by the last that comes. Of each group its first row, whether that began before, how many rows have ended, and the sum
// of the row that is open. store(row, sum) is for rows that are complete.
template <int WARPS, int LANES, class Sum, class Store>
__device__ __forceinline__ void join_rows(
    SplitShared<WARPS, LANES, Sum>& shared, int first_row, bool began, int ended, Sum& sum,
    const int4* __restrict__ cut, Sum* parts, int part_count, const Store& store) {
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool inside = began && ended == 0;
    if (inside) shared.sums[group][lane] = sum;
    if (lane == 0 && began && !inside) shared.heads[group] = ENDED;
    __syncthreads();
    // First the row that goes on behind this group, then the one that a CTA before has begun.
    const int4 own = shared.own;
    const int busy = own.y;
    const bool goes_on = group + 1 < busy ? shared.heads[group + 1] < 0 : group + 1 == busy && own.w >= 0;
    const bool first = group == 0 && busy > 0 && shared.heads[0] < 0;
#pragma unroll 1
    for (int turn = goes_on && !inside ? 0 : 1; turn < (first ? 2 : 1); ++turn) {
        int next = group + 1, part = -1;
        if (turn == 1) {
            next = 0, part = own.z;
            sum = {};
        }
        // The group with which the row ends, if one does.
        int last = next;
        while (true) {
            const bool here = last + lane >= busy || shared.heads[last + lane] == ENDED;
            const unsigned found = of_group<LANES>(__ballot_sync(group_mask<LANES>(), here));
            if (found) {
                last += __ffs(found) - 1;
                break;
            }
            last += LANES;
        }
#pragma unroll 4
        for (; next <= min(last, busy - 1); ++next) add(sum, shared.sums[next][lane]);
        if (last == busy) part = own.w;
        if (part < 0) {
            store(first_row + ended, sum);
        } else {
            const int4 of = __ldg(cut + part);
            if (add_parts<LANES>(sum, parts, part_count, part, of)) store(of.z, sum);
        }
    }
}

}  // namespace tile
