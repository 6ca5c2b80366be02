/*---
name: csr
study: packing
source: "this project"
idea: one pass copies a CSR and checks it; columns that do not ascend are counted in all entries, less those between rows
min_arch: sm_80
features: []
deviations: []
---*/
// Takes a CSR from the caller, whose indices have 32 or 64 bits: copies them as 32-bit numbers, and counts what is wrong
// with them (multiply/matrix.py).
#include "packing/search.cuh"

namespace {

// The caller clears it. Entries are compared with the one before in their row.
struct Found {
    unsigned decreasing;    // pointers below the one before
    unsigned outside;       // columns that A does not have
    unsigned descending;    // entries with a smaller column
    unsigned repeated;      // entries with the same column
    long long first, last;  // pointers
};

// Any number of CTAs.
template <class Index>
__device__ void take(
    const Index* pointers, const Index* columns, int m, int nnz, long long k, int* own_pointers, int* own_columns,
    Found* found) {
    const unsigned threads = gridDim.x * blockDim.x, first = packing::thread();
    unsigned decreasing = 0, outside = 0, descending = 0, repeated = 0;
    const auto compare = [&](Index before, Index column, unsigned one) {
        descending += column < before ? one : 0;
        repeated += column == before ? one : 0;
    };
    for (unsigned entry = first; entry < static_cast<unsigned>(nnz); entry += threads) {
        const Index column = columns[entry];
        own_columns[entry] = static_cast<int>(column);
        outside += column < 0 || column >= k;
        if (entry > 0) compare(columns[entry - 1], column, 1);
    }
    for (unsigned row = first; row <= static_cast<unsigned>(m); row += threads) {
        const Index begin = pointers[row];
        own_pointers[row] = static_cast<int>(begin);
        if (row == 0) found->first = begin;
        if (row == m) {
            found->last = begin;
            break;
        }
        const Index end = pointers[row + 1];
        decreasing += end < begin;
        // The first entry of a row was compared with the last one of a row before. Counts are right modulo 2^32.
        if (0 < begin && begin < end && begin < nnz) compare(columns[begin - 1], columns[begin], ~0u);
    }
    unsigned counts[] = {decreasing, outside, descending, repeated};
    __shared__ unsigned of_cta[4];
    if (threadIdx.x < 4) of_cta[threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        for (int distance = 16; distance > 0; distance /= 2) counts[i] += __shfl_xor_sync(~0u, counts[i], distance);
        if (threadIdx.x % 32 == 0 && counts[i] != 0) atomicAdd(of_cta + i, counts[i]);
    }
    __syncthreads();
    if (threadIdx.x < 4 && of_cta[threadIdx.x] != 0) {
        atomicAdd(reinterpret_cast<unsigned*>(found) + threadIdx.x, of_cta[threadIdx.x]);
    }
}

}  // namespace

// The structure of the transpose, k×m, of a CSR m×k; `order` has the entries by column, those of a column by row. One thread
// for each entry.
extern "C" __global__ void __launch_bounds__(256) transpose(
    const int* __restrict__ indptr, const int* __restrict__ indices, const long long* __restrict__ order, int m, int k,
    int nnz, int* __restrict__ pointers, int* __restrict__ columns) {
    const int place = packing::thread();
    if (place >= nnz) return;
    const int entry = static_cast<int>(order[place]), row = indices[entry];
    columns[place] = packing::segment_of(indptr, m, entry);
    // Rows that begin here: this one, and those without entries before it.
    for (int i = place > 0 ? indices[order[place - 1]] + 1 : 0; i <= row; ++i) pointers[i] = place;
    if (place == nnz - 1) {
        for (int i = row + 1; i <= k; ++i) pointers[i] = nnz;
    }
}

extern "C" __global__ void __launch_bounds__(256) take_32(
    const int* __restrict__ pointers, const int* __restrict__ columns, int m, int nnz, long long k,
    int* __restrict__ own_pointers, int* __restrict__ own_columns, Found* found) {
    take(pointers, columns, m, nnz, k, own_pointers, own_columns, found);
}

extern "C" __global__ void __launch_bounds__(256) take_64(
    const long long* __restrict__ pointers, const long long* __restrict__ columns, int m, int nnz, long long k,
    int* __restrict__ own_pointers, int* __restrict__ own_columns, Found* found) {
    take(pointers, columns, m, nnz, k, own_pointers, own_columns, found);
}
