#pragma once
// Rows of format csr_split that several warps or CTAs share, in kernels whose warps have one open row each, and a sum of
// it in lane 0.
//
//   entries    | a a a b b b b b | b b b b b b b b | b b c c d d d d |     letters are rows
//   warps      |     warp 0      |     warp 1      |     warp 2      |
//
// Warp 0 stores row a and opens row b. Warp 1 is inside row b. Row b ends in warp 2, which stores row c and opens row d.
// Warp 0 collects the sums of row b from warps 1 and 2. If these belong to later CTAs, the one in which row b ends
// collects the partial sums of the CTAs before it.

#include "ptx/ld.cuh"
#include "tile/csr_split.cuh"
#include "tile/lane_columns.cuh"

namespace tile {

template <int WARPS, class Sum>
struct WarpRows {
    // A warp's sum of its first row, if the row began in an earlier warp.
    Sum sums[WARPS];
    // A warp's first row; ~row (negative) if it began in an earlier warp; ENDED if it also ends in this warp.
    int heads[WARPS];
    // Warps that have any entries, the CTA's head and tail partial (tile/split.cuh), and the first partial sum of the row
    // of the head partial.
    int busy, head_partial, tail_partial, first_partial;
};

// A number's bits, and what a load or store of COUNT numbers transfers at a time.
template <class Number, int COUNT>
struct Transfer {
    using Bits = unsigned;
    using Word = uint4;
};
template <>
struct Transfer<float, 1> {
    using Bits = unsigned;
    using Word = unsigned;
};
template <int COUNT>
struct Transfer<double, COUNT> {
    using Bits = unsigned long long;
    using Word = ulonglong2;
};
template <>
struct Transfer<double, 1> {
    using Bits = unsigned long long;
    using Word = unsigned long long;
};

// Partial sums travel from CTA to CTA without a counter of arrivals: all bits of a number are set until it is there. That
// takes one trip through L2 instead of three. A CTA waits only for those before it. CTAs start in order, so these have
// started already, and none of them waits for a later one.
template <class Number, int COUNT>
__device__ __forceinline__ void publish(ColumnSums<Number, COUNT>* to, ColumnSums<Number, COUNT> sum) {
    using Word = typename Transfer<Number, COUNT>::Word;
    constexpr int WORDS = sizeof(sum) / sizeof(Word);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        // A NaN must not have all bits set.
        if (sum.of[i] != sum.of[i]) sum.of[i] = __int_as_float(0x7fc00000);
    }
    Word words[WORDS];
    memcpy(words, &sum, sizeof(sum));
#pragma unroll
    for (int i = 0; i < WORDS; ++i) __stcg(reinterpret_cast<Word*>(to) + i, words[i]);
}
// Waits for a partial sum, and sets its bits again for the next product.
template <class Number, int COUNT>
__device__ __forceinline__ ColumnSums<Number, COUNT> take(ColumnSums<Number, COUNT>* from) {
    using Word = typename Transfer<Number, COUNT>::Word;
    using Bits = typename Transfer<Number, COUNT>::Bits;
    ColumnSums<Number, COUNT> sum;
    constexpr int WORDS = sizeof(sum) / sizeof(Word);
    Word words[WORDS];
    Bits bits[COUNT];
    while (true) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i] = ptx::load_here(reinterpret_cast<const Word*>(from) + i);
        memcpy(bits, words, sizeof(bits));
        bool is_there = true;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) is_there = is_there && bits[i] != ~Bits(0);
        if (is_there) break;
        // Without a pause the loads hold up the store that they wait for.
        __nanosleep(32);
    }
    memcpy(&sum, bits, sizeof(bits));
    memset(words, 0xff, sizeof(words));
#pragma unroll
    for (int i = 0; i < WORDS; ++i) __stcg(reinterpret_cast<Word*>(from) + i, words[i]);
    return sum;
}

// The end of a CTA. `first_row`, `began_before` and `ended` are this warp's first row, whether it began in an earlier
// warp, and how many rows have ended; `sum` is that of the open row. `partials` are Sum[partial][slab]. store(row, sum)
// takes complete rows, in lane 0.
template <int WARPS, class Sum, class Store>
__device__ __forceinline__ void join_rows(
    WarpRows<WARPS, Sum>& shared, int first_row, bool began_before, int ended, const Sum& sum, Sum* partials,
    const Store& store) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool inside = began_before && ended == 0;
    if (lane == 0 && inside) shared.sums[warp] = sum;
    if (lane == 0 && began_before && !inside) shared.heads[warp] = ENDED;
    __syncthreads();
    const int busy = shared.busy, tail_partial = shared.tail_partial;
    const int head = lane < busy ? shared.heads[lane] : 0;
    const unsigned begun = __ballot_sync(~0u, head < 0), ends = __ballot_sync(~0u, head == ENDED);
    const auto partial_of = [&](int number) {
        return partials + static_cast<long long>(number) * gridDim.y + blockIdx.y;
    };
    // The row that goes on in warp `next`, or that an earlier CTA began, with its sum before that.
    const auto join = [&](int row, Sum whole, int next) {
        const unsigned later = ends & ~0u << next;
        const bool ends_here = later != 0;
        const int last = ends_here ? __ffs(later) - 1 : busy - 1;
#pragma unroll 4
        for (int i = next; i <= last; ++i) whole += shared.sums[i];
        if (next == 0 && ends_here) {
            const int first = shared.first_partial, count = shared.head_partial - first;
            Sum earlier = {};
            for (int i = lane; i < count; i += 32) earlier += take(partial_of(first + i));
            if (count > 1) earlier = earlier.of_all_lanes();
            whole += earlier;
        }
        if (lane != 0) return;
        if (ends_here) {
            store(row, whole);
        } else {
            publish(partial_of(tail_partial), whole);
        }
    };
    const bool goes_on = warp + 1 < busy ? begun >> (warp + 1) & 1 : warp + 1 == busy && tail_partial >= 0;
    if (goes_on && !inside) join(first_row + ended, sum, warp + 1);
    if (warp == 0 && (begun & 1)) join(first_row, Sum{}, 0);
}

}  // namespace tile
