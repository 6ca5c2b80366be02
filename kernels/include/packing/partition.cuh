#pragma once
// Cuts segments of elements (windows of tiles, rows of entries) into work partitions of about equal cost.

#include "packing/scan.cuh"
#include "packing/search.cuh"

namespace packing {

// formats/partitions.py, PartitionRule: costs are in elements.
struct PartitionRule {
    int segment_cost, least_cost, least_slack, slack_divisor, small, small_slack;
};

// Threads of the one CTA that cuts.
constexpr int CUTTER = 1024;

// First element of partition `number`: the element at its fraction of the total cost, or a segment border that is at most
// `slack` elements away.
__device__ inline int partition_begin(
    const int* begins, int segments, int segment_cost, int cost, int partitions, int slack, int number) {
    if (number == 0 || number == partitions) return number == 0 ? 0 : begins[segments];
    const int goal = static_cast<int>(static_cast<long long>(number) * cost / partitions);
    const int segment =
        first_where(0, segments + 1, [&](int i) { return begins[i] + segment_cost * i > goal; }) - 1;
    const int here = begins[segment], after = begins[min(segment + 1, segments)];
    const int border = min(here + goal - (here + segment_cost * segment), after);
    return border - here <= slack ? here : after - border <= slack ? after : border;
}

}  // namespace packing

// At most `most` partitions of the elements of all segments; `begins`[segments + 1] holds each segment's first element.
//
//   work[p]     first element, element after the last one, index in `cut` of the partial sum for the segment that began
//               in an earlier partition, and of the one for the segment that continues in a later one; -1 for none. A
//               segment that does both has the latter only.
//   cut[q]      first partial sum of the same segment, their number, the segment, the partition
//   counts      elements, partitions, partial sums
extern "C" __global__ void __launch_bounds__(packing::CUTTER) partition(
    const int* __restrict__ begins, int segments, int most, const packing::PartitionRule rule,
    int4* __restrict__ work, int4* cut, int* __restrict__ counts) {
    using namespace packing;
    const int cost = begins[segments] + rule.segment_cost * segments;
    const int partitions = max(min(most, cost / rule.least_cost), 1), size = cost / partitions;
    const int slack = max(size / rule.slack_divisor, size < rule.small ? rule.small_slack : rule.least_slack);
    const auto begin_of = [&](int number) {
        return partition_begin(begins, segments, rule.segment_cost, cost, partitions, slack, number);
    };
    int partials = 0;
    for (int first = 0; first < partitions; first += CUTTER) {
        const int own = first + threadIdx.x;
        int begin = 0, end = 0, segment = 0, next = 0;
        bool began_before = false, continues = false;
        if (own < partitions) {
            begin = begin_of(own), end = begin_of(own + 1);
            segment = segment_of(begins, segments, begin), next = segment_of(begins, segments, end);
            continues = begin < end && begins[next] != end;
            began_before = begin < end && begins[segment] != begin && !(continues && segment == next);
        }
        int total;
        const int partial = partials + scan_cta<CUTTER>(began_before + continues, total) - began_before - continues;
        partials += total;
        if (own < partitions) {
            work[own] = make_int4(begin, end, began_before ? partial : -1, continues ? partial + began_before : -1);
            if (began_before) cut[partial] = make_int4(0, 0, segment, own);
            if (continues) cut[partial + began_before] = make_int4(0, 0, next, own);
        }
    }
    __syncthreads();
    for (int partial = threadIdx.x; partial < partials; partial += CUTTER) {
        const int segment = cut[partial].z;
        const int first = first_where(0, partials, [&](int i) { return cut[i].z >= segment; });
        const int last = first_where(0, partials, [&](int i) { return cut[i].z > segment; });
        cut[partial].x = first, cut[partial].y = last - first;
    }
    if (threadIdx.x == 0) counts[0] = begins[segments], counts[1] = partitions, counts[2] = partials;
}
