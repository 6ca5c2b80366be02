/*---
name: csr_binned
study: packing
source: "this project"
idea: where sorted lengths leave a bin, their number is the number of rows of that bin and all above
min_arch: sm_80
features: []
deviations: []
---*/
// Writes the runs of rows that are sorted by descending length, and counts rows by bins (formats/csr_binned.py).
#include "packing/search.cuh"

namespace {

// Number of bins whose least length, 1, 2, 3, 4, 6, 8, 12, ..., is at most `length`.
__device__ int bins_up_to(int length) {
    if (length < 2) return length;
    const int octave = 31 - __clz(length);
    return 2 * octave + (length >= 3 << (octave - 1) ? 1 : 0);
}

}  // namespace

// One thread for each row. The caller clears `longer`.
extern "C" __global__ void runs_of_rows(
    const long long* __restrict__ order, const int* __restrict__ indptr, int m, int4* __restrict__ runs,
    int* __restrict__ longer) {
    const int rank = packing::thread();
    if (rank >= m) return;
    const auto length = [&](int row) { return indptr[row + 1] - indptr[row]; };
    const int row = static_cast<int>(order[rank]);
    runs[rank] = make_int4(row, indptr[row], indptr[row + 1], 0);
    const int next = rank + 1 < m ? bins_up_to(length(static_cast<int>(order[rank + 1]))) : 0;
    for (int bin = next; bin < bins_up_to(length(row)); ++bin) longer[bin] = rank + 1;
}
