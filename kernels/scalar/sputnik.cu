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
deviations:
  - "up to 32 lanes a row and CTAs of four warps; the original has slabs of 64 columns, eight lanes a row and one warp"
  - "entries of the next step are read ahead, and lanes that belong to no entry read nothing of B; the original reads row 0"
  - "column ids have 32 bits also in half precision, so that matrices may have more than 65,536 columns"
  - "any number of columns and of non-zeros per row; the original needs an even number of both in half precision"
---*/
#include "tile/staged_row.cuh"

using Wide = tile::Packet<VALUE>;
static_assert(TILE_WIDTH == Wide::WIDTH, "a thread owns the columns of one 16-byte packet of a wide B");

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

extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) sputnik(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const VALUE* __restrict__ data, const VALUE* __restrict__ b, VALUE* __restrict__ c, int m, int n, int ldb, int ldc) {
    __shared__ tile::StagedFours<TILE_THREADS> staged;
    if constexpr (TILE_WIDTH == 8) {
        if (n <= 32) {
            row_of_c<tile::HalfPacket>(staged, order, indptr, indices, data, b, c, m, n, ldb, ldc);
            return;
        }
    }
    row_of_c<Wide>(staged, order, indptr, indices, data, b, c, m, n, ldb, ldc);
}
