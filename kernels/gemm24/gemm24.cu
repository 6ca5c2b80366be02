/*---
name: gemm24
study: gemm24
source: "the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores', sections 'GEMMs' and 'Metadata'"
idea: metadata through ldmatrix in an order made for it, both selectors, three stages of asynchronous copies
family: gemm24
format: sparse24
dtype: {a: bfloat16, b: bfloat16, accumulator: float32, c: bfloat16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {m: 128, n: 128, k: 64, stages: 3, warps_m: 2, warps_n: 2, group: 8}
constants: {values: Bf16}
features: [cp_async, cp_async_l2, ldmatrix, ldmatrix_trans, mma_sp]
launch:
  grid: ceil_div(m, tile.m) * ceil_div(n, tile.n)
  block: 32 * tile.warps_m * tile.warps_n
  smem: tile.stages * (tile.m * 88 + tile.k * (tile.n * 2 + 16))
  args: a.data, a.metadata_swizzled, b, c, m, n, k, a.m_padded, a.k_padded, b.ld, c.ld
variants:
  small:
    idea: tiles of a quarter of the size, so that a small product has enough of them
    after: gemm24
    tile: &small {m: 64, n: 64, stages: 4, warps_m: 1, warps_n: 2}
  tall:
    idea: tiles twice as tall, which reuse B twice as often
    after: gemm24
    tile: &tall {m: 256, stages: 5, warps_m: 4}
  wide:
    idea: tiles twice as wide, which reuse A twice as often
    after: gemm24
    tile: &wide {n: 256, stages: 4, warps_n: 4}
  f16:
    idea: gemm24 with operands in half precision
    family: gemm24_f16
    after: gemm24
    dtype: &f16 {a: float16, b: float16, c: float16}
    constants: {values: F16}
  f16_small:
    idea: gemm24_f16 with tiles of a quarter of the size
    family: gemm24_f16
    after: gemm24_f16
    dtype: *f16
    tile: *small
    constants: {values: F16}
  f16_tall:
    idea: gemm24_f16 with tiles twice as tall
    family: gemm24_f16
    after: gemm24_f16
    dtype: *f16
    tile: *tall
    constants: {values: F16}
  f16_wide:
    idea: gemm24_f16 with tiles twice as wide
    family: gemm24_f16
    after: gemm24_f16
    dtype: *f16
    tile: *wide
    constants: {values: F16}
  ca:
    idea: copies through L1 (cp.async.ca), which cost about a tenth of the rate in the post
    after: gemm24
    family: null
    constants: {scheme: CACHED}
  meta_warps:
    idea: metadata copied by the first two warps instead of every other thread, which the post's footnote 3 calls worse
    after: gemm24
    family: null
    constants: {scheme: COPIED_BY_WARPS}
  meta_all:
    idea: metadata copied by all threads, in 8 bytes and thus through L1, as in the library's kernels that the post read
    after: gemm24
    family: null
    constants: {scheme: COPIED_BY_ALL}
  x2:
    idea: two ldmatrix.x2 of metadata instead of one ldmatrix.x4, each of 32 rows
    after: gemm24
    family: null
    constants: {scheme: READ_BY_ROWS}
  x2_halves:
    idea: >-
      one ldmatrix.x2 of metadata for each half of a step, loaded while the other half is multiplied; the selector
      chooses between rows
    after: gemm24_meta_all
    family: null
    constants: {scheme: READ_BY_HALVES}
deviations:
  - "rows in shared memory are padded where the original swizzles by XOR, whose addresses cost more instructions than products"
  - "any m, n and k: what lies outside is read as zeros and not stored; the original needs multiples of 128, 128 and 64"
  - "variants have other tiles than the original, and the fastest of the family is named for each case"
  - "half precision as a variant; the original multiplies bfloat16 only"
  - >-
    ca, meta_warps, meta_all, x2 and x2_halves try one decision each that the post mentions without code; they are no
    tiles to choose from, so they belong to no family
---*/
#include "tile/gemm24.cuh"

// The scheme of a kernel whose head names none.
#ifndef SCHEME
#define SCHEME BYPASSING
#endif

extern "C" __global__ void __launch_bounds__(tile::THREADS) gemm24(
    const uint4* __restrict__ data, const uint4* __restrict__ metadata, const uint4* __restrict__ b,
    uint4* __restrict__ c, int m, int n, int k, int m_padded, int k_padded, int ldb, int ldc) {
    tile::gemm24<tile::VALUES, tile::Scheme::SCHEME>(data, metadata, b, c, m, n, k, m_padded, k_padded, ldb, ldc);
}
