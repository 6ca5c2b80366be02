#pragma once
// Shared by the kernels of CSR in work partitions (formats csr_partitioned and csr_split): lane groups, the partition
// of a CTA, batches of entries, and the fix-up of split rows.
//
// A lane group is LANES neighbouring lanes; it multiplies one entry at a time by the slab's columns of a row of B:
//
//   lanes of a warp    | group 0: 0 to LANES-1 | group 1: LANES to 2·LANES-1 | … | group 32/LANES-1 |
//   columns of a slab  | lane 0: four or eight | lane 1                      | … | lane LANES-1     |

#include "ptx/atom_inc.cuh"
#include "tile/four.cuh"
#include "tile/split.cuh"
#include "tile/store.cuh"

namespace tile {

// The first lane of this thread's group, within the warp.
template <int LANES>
__device__ __forceinline__ int first_lane() {
    return threadIdx.x % 32 / LANES * LANES;
}
// The group's bits of a ballot, from bit 0 on.
template <int LANES>
__device__ __forceinline__ unsigned group_bits(unsigned ballot) {
    return ballot >> first_lane<LANES>() & ~0u >> (32 - LANES);
}
// The group as a mask of the warp's lanes.
template <int LANES>
__device__ __forceinline__ unsigned group_mask() {
    return ~0u >> (32 - LANES) << first_lane<LANES>();
}

// The work partition of this CTA. The hardware usually deals CTAs to the multiprocessors in turn. The CTAs of one
// multiprocessor get consecutive partitions, so that they share rows of B in L1. With three multiprocessors:
//
//   blockIdx.x        0  1  2  3  4  5  6
//   multiprocessor    0  1  2  0  1  2  0
//   partition         0  3  5  1  4  6  2
//
// In a launch of several waves (formats/partitions.py) `multiprocessors` is the number of partitions, and CTA i takes
// partition i: the partitions of a wave are neighbours, whichever multiprocessor takes them.
__device__ __forceinline__ int partition_of_cta(int multiprocessors) {
    const int multiprocessor = blockIdx.x % multiprocessors, turn = blockIdx.x / multiprocessors;
    return multiprocessor * (gridDim.x / multiprocessors) + min(multiprocessor, gridDim.x % multiprocessors) + turn;
}

// A lane's sums of eight columns; sums of four columns are a Four<Number>, and the sum of one is a Number.
struct Eight {
    float4 low, high;
};
// The type of their numbers, which is also that of A's values in shared memory.
template <class Sum>
struct NumberOf {
    using Type = float;
};
template <>
struct NumberOf<Double4> {
    using Type = double;
};
template <>
struct NumberOf<double> {
    using Type = double;
};
template <class Number>
__device__ __forceinline__ void add(Number& sum, const Number& x) {
    sum += x;
}
__device__ __forceinline__ void add(float4& sum, const float4& x) {
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}
__device__ __forceinline__ void add(Double4& sum, const Double4& x) {
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}
__device__ __forceinline__ void add(Eight& sum, const Eight& x) {
    add(sum.low, x.low);
    add(sum.high, x.high);
}

// Partial sums bypass L1, because other multiprocessors read and write them.
template <class Number>
__device__ __forceinline__ void store_partial(Number* to, const Number& sum) {
    __stcg(to, sum);
}
template <class Number>
__device__ __forceinline__ Number load_partial(const Number* from) {
    return __ldcg(from);
}
__device__ __forceinline__ void store_partial(float4* to, const float4& sum) { __stcg(to, sum); }
__device__ __forceinline__ void store_partial(Eight* to, const Eight& sum) {
    __stcg(&to->low, sum.low);
    __stcg(&to->high, sum.high);
}
__device__ __forceinline__ void store_partial(Double4* to, const Double4& sum) {
    double2* halves = reinterpret_cast<double2*>(to);
    __stcg(halves, make_double2(sum.x, sum.y));
    __stcg(halves + 1, make_double2(sum.z, sum.w));
}
__device__ __forceinline__ float4 load_partial(const float4* from) { return __ldcg(from); }
__device__ __forceinline__ Eight load_partial(const Eight* from) { return {__ldcg(&from->low), __ldcg(&from->high)}; }
__device__ __forceinline__ Double4 load_partial(const Double4* from) {
    const double2* halves = reinterpret_cast<const double2*>(from);
    const double2 low = __ldcg(halves), high = __ldcg(halves + 1);
    return {low.x, low.y, high.x, high.y};
}

// This lane's columns of the rows of B that a batch needs, all in flight at once. `b_slab` points at these columns in
// row 0; `stride` is the length of a row in bytes.
template <class Columns, int BATCH>
__device__ __forceinline__ void load_rows(
    Columns (&x)[BATCH], const int* columns, const char* b_slab, int stride) {
#pragma unroll
    for (int i = 0; i < BATCH; i += 4) {
        const int4 four = *reinterpret_cast<const int4*>(columns + i);
        const int rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const char* from = b_slab + static_cast<long long>(rows[j]) * stride;
            x[i + j] = load(reinterpret_cast<const Columns*>(from));
        }
    }
}

// Calls add(i, value) for each entry i of a batch in order, and close() after each entry whose bit in `ends` is set.
template <int BATCH, class Number, class Add, class Close>
__device__ __forceinline__ void each_entry(const Number* values, unsigned ends, const Add& add, const Close& close) {
#pragma unroll
    for (int i = 0; i < BATCH; i += 4) {
        const Four<Number> four = *reinterpret_cast<const Four<Number>*>(values + i);
        const Number a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            add(i + j, a[j]);
            if (ends & 1u << (i + j)) close();
        }
    }
}

// Fix-up of a split row: stores this group's partial sum and counts its arrival. Returns true in the group that arrives
// last; its `sum` is then the total of all partial sums, added in their order.
//
//   partials    Sum[partial][slab][LANES]
//   counters    unsigned[partial][slab], behind the partials; a row uses the counter of its first partial
//
// A counter may start with any value that is at least count - 1: the first arrival wraps it to 0. It ends at count - 1.
// If all groups of the row belong to this CTA, `shared_counter` may point at a counter in shared memory instead. That
// saves two round trips to L2 and does not invalidate L1.
template <int LANES, class Sum>
__device__ __forceinline__ bool add_partials(
    Sum& sum, Sum* partials, int partial_count, int partial, const Split& split, unsigned* shared_counter = nullptr) {
    const int lane = threadIdx.x % LANES;
    const unsigned group = group_mask<LANES>();
    const long long step = static_cast<long long>(LANES) * gridDim.y;
    Sum* of_slab = partials + LANES * blockIdx.y + lane;
    store_partial(of_slab + partial * step, sum);
    __syncwarp(group);
    unsigned before = 0;
    if (lane == 0 && shared_counter != nullptr) {
        __threadfence_block();
        before = atomicInc(shared_counter, split.count - 1);
    } else if (lane == 0) {
        unsigned* counters = reinterpret_cast<unsigned*>(partials + partial_count * step);
        before = ptx::atomic_inc_release(counters + split.first * gridDim.y + blockIdx.y, split.count - 1);
    }
    if (__shfl_sync(group, before, 0, LANES) != split.count - 2) return false;
    if (shared_counter != nullptr) {
        __threadfence_block();
    } else {
        __threadfence();
    }
    sum = {};
#pragma unroll 4
    for (int i = 0; i < split.count; ++i) add(sum, load_partial(of_slab + (split.first + i) * step));
    return true;
}

}  // namespace tile
