/*---
name: csr_split
study: packing
source: "this project; nonzero splitting after Yang, Buluç and Owens (2018), section 4.2"
idea: every lane group of every partition finds its first row by a binary search
min_arch: sm_80
features: []
deviations: []
---*/
// Packs a CSR in device memory for lane groups with equal numbers of entries (formats/csr_split.py).
#include "packing/partition.cuh"
#include "packing/rows.cuh"

// First slot and row of each lane group of a partition; ~row where the row began in an earlier group. Replaces the end of
// the partition in work[p].y by the number of its groups that have slots. One CTA a partition.
//
//   a partition's batches   dealt evenly to its warps, in order; the first warps have one more if they do not divide
//   a warp's batches        dealt evenly to its groups, in order
extern "C" __global__ void split_groups(
    const int* __restrict__ begins, int m, int warps, int groups, int batch, int4* work,
    int2* __restrict__ group_starts) {
    using namespace packing;
    const int begin = work[blockIdx.x].x, end = work[blockIdx.x].y, warp_slots = groups * batch;
    // A unit is one batch for each group of a warp.
    const int units = (end - begin + warp_slots - 1) / warp_slots, least = units / warps, more = units % warps;
    int busy = 0;
    for (int first = 0; first < warps * groups; first += blockDim.x) {
        const int own = first + threadIdx.x, warp = own / groups, group = own % groups;
        bool has_slots = false;
        if (own < warps * groups) {
            const int before = least * warp + min(warp, more);
            const long long offset =
                static_cast<long long>(batch) * (groups * before + (least + (warp < more)) * group);
            const int slot = static_cast<int>(min(begin + offset, static_cast<long long>(end)));
            const int row = segment_of(begins, m, slot);
            group_starts[blockIdx.x * warps * groups + own] = make_int2(slot, begins[row] == slot ? row : ~row);
            has_slots = slot < end;
        }
        busy += __syncthreads_count(has_slots);
    }
    if (threadIdx.x == 0) {
        work[blockIdx.x].y = busy;
        if (blockIdx.x == gridDim.x - 1) group_starts[gridDim.x * warps * groups] = make_int2(end, m);
    }
}
