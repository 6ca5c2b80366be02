/*---
name: csr_partitioned
study: packing
source: "this project"
idea: short rows are gathered to row segments of about equal cost, long rows are split into several
min_arch: sm_80
features: []
deviations: []
---*/
// Packs a CSR in device memory as row segments of about equal cost (formats/csr_partitioned.py).
#include "packing/rows.cuh"

namespace {

using namespace packing;

// formats/csr_partitioned.py, SegmentRule: costs are in entries.
struct SegmentRule {
    int row_cost, least_cost, least_segment, most_segment, segments_per_group;
    int long_groups, least_long, most_long, kept_divisor, kept_entries;
};

// Number of segments of a row that is split at `longest` entries.
__device__ int segments_of(const int* begins, int row, int longest) {
    return (begins[row + 1] - begins[row] + longest - 1) / longest;
}

// Whether a segment begins with this row: rows whose first slots lie in one interval of `segment_cost` form a segment, and
// a split row stands alone.
__device__ bool leads(const int* begins, int row, int row_cost, int segment_cost, int longest) {
    const auto interval = [&](int i) { return (begins[i] + row_cost * i) / segment_cost; };
    return row == 0 || segments_of(begins, row, longest) > 1 || segments_of(begins, row - 1, longest) > 1 ||
        interval(row) != interval(row - 1);
}

}  // namespace

// Segments and partial sums of the rows before each row; counts = {slots, segments, partial sums}.
extern "C" __global__ void __launch_bounds__(packing::CTA) count_segments(
    const int* __restrict__ begins, int m, int most, int groups, const SegmentRule rule, packing::Count* states,
    int* __restrict__ first, int* __restrict__ first_partial, int* __restrict__ counts) {
    const int cost = begins[m] + rule.row_cost * m, partitions = max(min(most, cost / rule.least_cost), 1);
    const int of_group = static_cast<int>(cost / (static_cast<long long>(partitions) * groups));
    const int segment_cost = min(max(of_group / rule.segments_per_group, rule.least_segment), rule.most_segment);
    const int longest =
        min(max(rule.long_groups * min(of_group, rule.most_long), rule.least_long), rule.most_long);
    const int row = take_ticket(states);
    int count = 0, own = 0;
    if (row < m) {
        count = segments_of(begins, row, longest);
        own = leads(begins, row, rule.row_cost, segment_cost, longest) ? count : 0;
    }
    const Count up_to = scan_grid(pair(own, count > 1 ? count : 0), row, states);
    if (row == 0) first[0] = first_partial[0] = 0;
    if (row < m) first[row + 1] = low_of(up_to), first_partial[row + 1] = high_of(up_to);
    if (row == max(m, 1) - 1) counts[0] = begins[m], counts[1] = low_of(up_to), counts[2] = high_of(up_to);
}

// Writes all segments, marks the slots before them as ends, and describes the partial sums: first partial sum of the row,
// their number, the row, its first segment.
extern "C" __global__ void scatter_segments(
    const int* __restrict__ begins, const int* __restrict__ first, const int* __restrict__ first_partial, int m,
    int* __restrict__ columns, int2* __restrict__ segments, int4* __restrict__ cut) {
    const int row = thread();
    if (row == m) segments[first[m]] = make_int2(begins[m], 0);
    if (row >= m) return;
    const int begin = begins[row], length = begins[row + 1] - begin, count = first[row + 1] - first[row];
    const bool is_split = first_partial[row + 1] > first_partial[row];
    for (int i = 0; i < count; ++i) {
        const int at = begin + static_cast<int>(static_cast<long long>(length) * i / count);
        const int partial = first_partial[row] + i;
        segments[first[row] + i] = make_int2(at, is_split ? ~partial : row);
        if (is_split) cut[partial] = make_int4(first_partial[row], count, row, first[row]);
        if (i > 0) columns[at - 1] = ~columns[at - 1];
    }
}

// First segment of each partition. A segment belongs to the partition that holds the middle of its cost; the segments of a
// split row stay together, at the middle of the row, where the row is short.
extern "C" __global__ void partition_segments(
    const int2* __restrict__ segments, const int4* __restrict__ cut, int count, int cost, int partitions, int groups,
    const SegmentRule rule, int* __restrict__ work) {
    const int partition = thread();
    if (partition > partitions) return;
    const long long goal = 2 * (static_cast<long long>(partition) * cost / partitions);
    // Cost of all segments before this one.
    const auto cost_before = [&](int segment) {
        if (segment == count) return static_cast<long long>(cost);
        const int2 of = segments[segment];
        return of.x + static_cast<long long>(rule.row_cost) * (of.y < 0 ? cut[~of.y].z : of.y);
    };
    const long long kept = max(
        static_cast<long long>(cost / partitions / rule.kept_divisor),
        static_cast<long long>(rule.kept_entries) * groups);
    const auto twice_middle = [&](int segment) {
        int first = segment, after = segment + 1;
        const int row = segments[segment].y;
        if (row < 0) {
            const int4 of = cut[~row];
            if (cost_before(of.w + of.y) - cost_before(of.w) <= kept) first = of.w, after = of.w + of.y;
        }
        return cost_before(first) + cost_before(after);
    };
    work[partition] = first_where(0, count, [&](int segment) { return twice_middle(segment) >= goal; });
}
