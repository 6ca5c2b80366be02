#pragma once
// Binary searches of the packers.

namespace packing {

__device__ inline int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// First index in [begin, end) for which `right(index)` holds, or `end`; `right` is false before that index and true after.
template <class Predicate>
__device__ inline int first_where(int begin, int end, const Predicate& right) {
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (right(middle)) {
            end = middle;
        } else {
            begin = middle + 1;
        }
    }
    return begin;
}

// First index in [begin, end) of an ascending array whose element is not below `value`.
__device__ inline int lower_bound(const int* sorted, int begin, int end, int value) {
    return first_where(begin, end, [&](int i) { return sorted[i] >= value; });
}

// Segment that holds element `at`: segment s has elements begins[s] to begins[s+1] - 1. An empty segment holds none.
__device__ inline int segment_of(const int* begins, int segments, int at) {
    return lower_bound(begins, 0, segments + 1, at + 1) - 1;
}

// segment_of() for a whole warp whose lanes ask for consecutive elements. The warp finds the first lane's segment with 32
// probes a step; each other lane gallops forward from there.
__device__ inline int segment_of_lane(const int* begins, int segments, int at) {
    const int lane = threadIdx.x % 32, first = __shfl_sync(~0u, at, 0);
    int low = 0;
    for (int length = segments; length > 1;) {
        const int step = (length + 31) / 32, probe = low + step * lane;
        const bool not_after = step * lane < length && begins[probe] <= first;
        const int skipped = step * (__popc(__ballot_sync(~0u, not_after)) - 1);
        low += skipped, length = min(step, length - skipped);
    }
    int step = 1;
    while (low + step < segments && begins[low + step] <= at) low += step, step *= 2;
    return lower_bound(begins, low + 1, min(low + step, segments), at + 1) - 1;
}

}  // namespace packing
