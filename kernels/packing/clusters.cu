/*---
name: clusters
study: packing
source: "this project"
idea: clusters of rows grow from one row each, all at the same time, through the columns that rows have in common
min_arch: sm_80
features: []
deviations: []
---*/
// Clusters of the rows of a CSR in device memory (multiply/reorder.py). In each round a cluster reaches the columns of
// the rows that it reached in the round before, and then the rows of these columns. A row or column belongs to the
// cluster that reaches it first; of those that reach it in one round, to the one with the lowest number.
//
// A key holds the round above the number of the cluster, so the least key is the one that counts.
#include "packing/search.cuh"

namespace {

// multiply/reorder.py, NUMBER_BITS.
constexpr int NUMBER_BITS = 27;
constexpr unsigned ONE_ROUND = 1u << NUMBER_BITS;

// The test spares most atomic operations: many entries of a row or column have the same key.
__device__ void lower(unsigned* key, unsigned value) {
    if (value < *key) atomicMin(key, value);
}

}  // namespace

// One thread for each entry: the columns of the rows that were reached in the round before `round`.
extern "C" __global__ void reach_columns(
    const int* __restrict__ rows, const int* __restrict__ columns, int nnz, unsigned round,
    const unsigned* __restrict__ row_keys, unsigned* column_keys) {
    const int entry = packing::thread();
    if (entry >= nnz) return;
    const unsigned key = row_keys[rows[entry]];
    if (key >> NUMBER_BITS == round - 1) lower(column_keys + columns[entry], key + ONE_ROUND);
}

// The rows of the columns that were reached in this round. `last_round` becomes the last one in which any row was.
extern "C" __global__ void reach_rows(
    const int* __restrict__ rows, const int* __restrict__ columns, int nnz, unsigned round,
    const unsigned* __restrict__ column_keys, unsigned* row_keys, unsigned* last_round) {
    const int entry = packing::thread();
    if (entry >= nnz) return;
    const unsigned key = column_keys[columns[entry]];
    if (key >> NUMBER_BITS != round || key >= row_keys[rows[entry]]) return;
    lower(row_keys + rows[entry], key);
    *last_round = round;
}
