/*---
name: sputnik
study: scalar
source: Gale et al. 2020, section 5 (Sputnik); a rival of the cuTeSpMM study
idea: one-dimensional tiles, a row of C by a column slab, with vector loads of rows of any alignment and the longest rows first
format: csr_swizzled
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {width: 4, fours: 4, lanes: 32, threads: 128, ctas: 4}
constants: {value: float}
features: []
launch:
  grid: ceil_div(m, tile.threads // min(tile.lanes, power_of_two(ceil_div(n, 4 if n <= 32 else tile.width)))), ceil_div(n, tile.lanes * tile.width)
  block: min(tile.lanes, power_of_two(ceil_div(n, 4 if n <= 32 else tile.width))), tile.threads // min(tile.lanes, power_of_two(ceil_div(n, 4 if n <= 32 else tile.width)))
  args: a.order, a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
variants:
  f16:
    idea: the same kernel in half precision with sums in single precision
    after: sputnik
    dtype: {a: float16, b: float16, c: float16}
    tile: {width: 8}
    constants: {value: half}
  short:
    idea: more warps with fewer rows of B in flight, for short rows; lane groups of a CTA share far longer ones
    after: sputnik
    tile: {fours: 2, lanes: 16, ctas: 6}
    constants: {shares: 1}
  short_f16:
    idea: sputnik_short in half precision with sums in single precision
    after: sputnik_short
    dtype: {a: float16, b: float16, c: float16}
    tile: {width: 8, fours: 2, lanes: 16, ctas: 6}
    constants: {value: half, shares: 1}
deviations:
  - "up to 32 lanes a row, or 16 in sputnik_short*, and CTAs of four warps; the original has slabs of 64 columns, eight lanes a row and one warp"
  - "batches of 16 entries, or of eight in sputnik_short*; the original multiplies steps of 32 entries"
  - "in sputnik_short*, lane groups share rows that are far longer than others of their CTA; in the original each row belongs to one group"
  - "entries of the next step are read ahead, and lanes that belong to no entry read nothing of B; the original reads row 0"
  - "column ids have 32 bits also in half precision, so that matrices may have more than 65,536 columns"
  - "any number of columns and of non-zeros per row; the original needs an even number of both in half precision"
---*/
#include "tile/staged_row.cuh"

using Wide = tile::Packet<VALUE>;
static_assert(TILE_WIDTH == Wide::WIDTH, "a thread owns the columns of one 16-byte packet of a wide B");

// Whether lane groups of a CTA share long rows.
#ifndef SHARES
#define SHARES 0
#endif

#if SHARES
// A short row needs few rows of B at a time, so many warps have to hide latency, and each has few registers. A lane group
// would take too long for a long row alone. All lane groups of the CTA share a row of more than LONG entries that has more
// than TIMES the entries of the CTA's last row.
constexpr int LONG = 64, TIMES = 2;

// How many of the `count` rows of a CTA, longest first, all of its lane groups share. All threads call it.
__device__ __forceinline__ int shared_rows(const int* __restrict__ order, const int* __restrict__ indptr, int count) {
    const auto length = [&](int i) { return indptr[order[i] + 1] - indptr[order[i]]; };
    const int own = threadIdx.y < count ? length(threadIdx.y) : 0;
    if (__syncthreads_count(own > LONG) == 0) return 0;
    const int least = max(LONG, TIMES * length(count - 1));
    return __syncthreads_count(threadIdx.x == 0 && own > least);
}

// The columns of this thread in the CTA's rows of C: first of the shared rows, one after the other, and then of a row of
// its own for each group that has one left.
template <class P>
__device__ __forceinline__ void rows_of_c(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const VALUE* __restrict__ data, const VALUE* __restrict__ b, VALUE* __restrict__ c, int m, int n, int ldb, int ldc) {
    __shared__ tile::StagedFours<TILE_THREADS> staged;
    __shared__ float partials[P::WIDTH][TILE_THREADS];
    __shared__ int shared;  // rows that all groups share; in a register it would cost a spill
    const int groups = blockDim.y, group = threadIdx.y, first = blockIdx.x * groups, count = min(groups, m - first);
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * P::WIDTH;
    order += first;
    // Out-of-range lanes read the first columns; their sums are never stored.
    b += n0 < n ? n0 : 0;
    const auto add = [&](float (&sums)[P::WIDTH], int start, int end) {
        tile::add_staged<P, TILE_FOURS>(sums, staged, indices, data, start, end, b, ldb * static_cast<int>(sizeof(VALUE)));
    };
    const auto store = [&](int i, const float (&sums)[P::WIDTH]) {
        if (n0 < n) P::store(c + static_cast<long long>(order[i]) * ldc + n0, sums);
    };
    const int found = shared_rows(order, indptr, count);
    if (group == 0 && threadIdx.x == 0) shared = found;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < shared; ++i) {
        const int start = indptr[order[i]], end = indptr[order[i] + 1];
        // Whole fours, so that no two groups read one.
        const int aligned = start & ~3, share = ((end - aligned + 3) / 4 + groups - 1) / groups * 4;
        const int at = aligned + group * share;
        float sums[P::WIDTH] = {};
        add(sums, max(start, at), min(end, at + share));
#pragma unroll
        for (int j = 0; j < P::WIDTH; ++j) partials[j][group * blockDim.x + threadIdx.x] = sums[j], sums[j] = 0;
        __syncthreads();
        if (group == 0) {
#pragma unroll 1
            for (int of = 0; of < groups; ++of) {
#pragma unroll
                for (int j = 0; j < P::WIDTH; ++j) sums[j] += partials[j][of * blockDim.x + threadIdx.x];
            }
            store(i, sums);
        }
        __syncthreads();
    }
    // The row of this group, unless all groups have shared it.
    int start = 0, end = 0;
    if (group >= shared && group < count) start = indptr[order[group]], end = indptr[order[group] + 1];
    float sums[P::WIDTH] = {};
    add(sums, start, end);
    if (group >= shared && group < count) store(group, sums);
}
#else
// One row of C by the columns of this thread.
template <class P>
__device__ __forceinline__ void row_of_c(
    tile::StagedFours<TILE_THREADS>& staged, const int* __restrict__ order, const int* __restrict__ indptr,
    const int* __restrict__ indices, const VALUE* __restrict__ data, const VALUE* __restrict__ b, VALUE* __restrict__ c,
    int m, int n, int ldb, int ldc) {
    const int i = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * P::WIDTH;
    const int row = i < m ? order[i] : 0;
    const int start = i < m ? indptr[row] : 0, end = i < m ? indptr[row + 1] : 0;
    float sums[P::WIDTH] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const VALUE* own = b + (n0 < n ? n0 : 0);
    tile::add_staged<P, TILE_FOURS>(sums, staged, indices, data, start, end, own, ldb * static_cast<int>(sizeof(VALUE)));
    if (i < m && n0 < n) P::store(c + static_cast<long long>(row) * ldc + n0, sums);
}
#endif

extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) sputnik(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const VALUE* __restrict__ data, const VALUE* __restrict__ b, VALUE* __restrict__ c, int m, int n, int ldb, int ldc) {
#if SHARES
    if constexpr (TILE_WIDTH == 8) {
        if (n <= 32) return rows_of_c<tile::HalfPacket>(order, indptr, indices, data, b, c, m, n, ldb, ldc);
    }
    rows_of_c<Wide>(order, indptr, indices, data, b, c, m, n, ldb, ldc);
#else
    __shared__ tile::StagedFours<TILE_THREADS> staged;
    if constexpr (TILE_WIDTH == 8) {
        if (n <= 32) return row_of_c<tile::HalfPacket>(staged, order, indptr, indices, data, b, c, m, n, ldb, ldc);
    }
    row_of_c<Wide>(staged, order, indptr, indices, data, b, c, m, n, ldb, ldc);
#endif
}
