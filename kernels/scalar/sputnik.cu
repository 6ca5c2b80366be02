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
tile: {width: 4}
constants: {value: float}
features: []
launch:
  grid: ceil_div(m, 128 // min(32, power_of_two(ceil_div(n, tile.width)))), ceil_div(n, 32 * tile.width)
  block: min(32, power_of_two(ceil_div(n, tile.width))), 128 // min(32, power_of_two(ceil_div(n, tile.width)))
  args: a.order, a.indptr, a.indices, a.data, b, c, m, n, b.ld, c.ld
variants:
  f16:
    idea: the same kernel in half precision with sums in single precision
    after: sputnik
    dtype: {a: float16, b: float16, c: float16}
    tile: {width: 8}
    constants: {value: half}
deviations:
  - "column ids have 32 bits also in half precision, so that matrices may have more than 65,536 columns"
  - "any number of columns and of non-zeros per row; the original needs an even number of both in half precision"
---*/
#include "tile/packet.cuh"

static_assert(TILE_WIDTH == tile::Packet<VALUE>::WIDTH, "a thread owns the columns of one 16-byte packet");

extern "C" __global__ void __launch_bounds__(128) sputnik(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const VALUE* __restrict__ data, const VALUE* __restrict__ b, VALUE* __restrict__ c, int m, int n, int ldb, int ldc) {
    constexpr int WIDTH = tile::Packet<VALUE>::WIDTH;
    const int i = blockIdx.x * blockDim.y + threadIdx.y;
    const int n0 = (blockIdx.y * blockDim.x + threadIdx.x) * WIDTH;
    if (i >= m || n0 >= n) return;
    const int row = order[i];
    float sums[WIDTH] = {};
    tile::gather(sums, indices, data, indptr[row], indptr[row + 1], b + n0, ldb);
    tile::Packet<VALUE>::store(c + static_cast<long long>(row) * ldc + n0, sums);
}
