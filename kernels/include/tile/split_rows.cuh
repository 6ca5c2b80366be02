#pragma once
// Shared by the kernels of format csr_split, which gives all lane groups equally many batches of entries, wherever rows
// end: what a CTA keeps in shared memory, and the fix-up of rows that several groups cover. A lane sums the one,
// four or eight columns of a Sum.
//
//   entries    | a a a b b b b b | b b b b b b b b | b b c c d d d d |     letters are rows
//   groups     |     group 0     |     group 1     |     group 2     |
//
// Group 0 stores row a and opens row b. Group 1 is inside row b. Row b ends in group 2, which stores row c and opens
// row d. Group 0 collects the sums of row b from groups 1 and 2.

#include "tile/csr_split.cuh"
#include "tile/lane_groups.cuh"

namespace tile {

template <int WARPS, int LANES, class Sum>
struct SplitShared {
    // Entries that a warp multiplies at a time, and groups of the CTA.
    static constexpr int OF_WARP = LANES > SPLIT_BATCH ? 32 : 32 / LANES * SPLIT_BATCH, GROUPS = WARPS * 32 / LANES;
    // Entries on their way from the lanes that load them to all lanes of the group.
    __align__(16) int columns[WARPS][OF_WARP];
    __align__(16) typename NumberOf<Sum>::Type values[WARPS][OF_WARP];
    // A group's sum of its first row, if the row began in an earlier group.
    Sum sums[GROUPS][LANES];
    // A group's first row; ~row (negative) if it began in an earlier group; ENDED if it also ends in this group.
    int heads[GROUPS];
    // This CTA's entry of `work`, kept here so that it takes no registers during the loop: first slot, groups that have
    // any entries, head partial, tail partial (tile/split.cuh).
    int4 work;
};

// The end of a CTA: the group in which a row begins adds the sums of the groups that follow it in that row, and rows of
// several CTAs are added by the last one to arrive. `first_row`, `began_before` and `ended` are this group's first row,
// whether it began in an earlier group, and how many rows have ended; `sum` is that of the open row. store(row, sum)
// takes complete rows.
template <int WARPS, int LANES, class Sum, class Store>
__device__ __forceinline__ void join_rows(
    SplitShared<WARPS, LANES, Sum>& shared, int first_row, bool began_before, int ended, Sum& sum,
    const int4* __restrict__ cut, Sum* partials, int partial_count, const Store& store) {
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool inside = began_before && ended == 0;
    if (inside) shared.sums[group][lane] = sum;
    if (lane == 0 && began_before && !inside) shared.heads[group] = ENDED;
    __syncthreads();
    // First the row that continues after this group, then the row that an earlier CTA began.
    const int4 own = shared.work;
    const int busy = own.y;
    const bool continues = group + 1 < busy ? shared.heads[group + 1] < 0 : group + 1 == busy && own.w >= 0;
    const bool takes_head = group == 0 && busy > 0 && shared.heads[0] < 0;
#pragma unroll 1
    for (int turn = continues && !inside ? 0 : 1; turn < (takes_head ? 2 : 1); ++turn) {
        int next = group + 1, partial = -1;
        if (turn == 1) {
            next = 0, partial = own.z;
            sum = {};
        }
        // Search for the group in which the row ends; `busy` if it continues after this CTA.
        int last = next;
        while (true) {
            const bool here = last + lane >= busy || shared.heads[last + lane] == ENDED;
            const unsigned found = group_bits<LANES>(__ballot_sync(group_mask<LANES>(), here));
            if (found) {
                last += __ffs(found) - 1;
                break;
            }
            last += LANES;
        }
#pragma unroll 4
        for (; next <= min(last, busy - 1); ++next) add(sum, shared.sums[next][lane]);
        if (last == busy) partial = own.w;
        if (partial < 0) {
            store(first_row + ended, sum);
        } else {
            const Split split = split_of(cut, partial);
            if (add_partials<LANES>(sum, partials, partial_count, partial, split)) store(split.target, sum);
        }
    }
}

}  // namespace tile
