/*---
name: mma_obts_large_separate
study: sptc
source: Mistry 2025, section 2.3 "mmaOBTS_large_separate"
idea: one loop for the row's 2:4 tiles and one for its dense tiles, so that no iteration waits for the class of its tile
after: mma_obts_large
format: bcsr_separated
format_options: {block_k: 32}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 32}
min_arch: sm_80
requires: {n: 8}
tile: {k: 32}
constants: {sums: SumsF16}
features: [cp_async, ldmatrix, mma, mma_sp]
launch:
  grid: ceil_div(n, 8), a.block_rows
  block: 32
  args: a.indptr24, a.indices24, a.data24, a.metadata, a.indptr_dense, a.indices_dense, a.data, b, c, b.ld, c.ld
variants:
  f32:
    idea: the same kernel with sums in single precision, for rows too long for half precision
    after: mma_obts_large_separate
    dtype: {accumulator: float32}
    constants: {sums: SumsF32}
deviations:
  - "the loop of 2:4 tiles runs; in the latest state of the original it is commented out"
  - "a warp synchronises before it reads what other lanes have copied; the original only waits for its own copies"
  - "metadata, the test for 2:4 and the slices of B are corrected; see mma_st"
---*/
#include "tile/copy_async.cuh"
#include "tile/two_four.cuh"

using Copy = tile::Asynchronous;

// Walk the tiles from begin to end; the copies of the next tile overlap the product of this one.
template <typename CopyA, typename Multiply>
__device__ __forceinline__ void walk(
    tile::Operands (&stages)[2], int begin, int end, const int* __restrict__ indices, const half* __restrict__ b, int ldb,
    int n0, int lane, CopyA copy_a, Multiply multiply) {
    if (begin == end) return;
    int column = indices[begin];
    auto copy = [&](int block) {
        if (block < end) {
            tile::Operands& stage = stages[(block - begin) % 2];
            copy_a(stage, block);
            tile::copy_b<Copy>(stage, b, ldb, column * TILE_K, n0, lane);
            if (block + 1 < end) column = indices[block + 1];
        }
        ptx::cp_async_commit();
    };
    copy(begin);
    for (int block = begin; block < end; ++block) {
        copy(block + 1);
        ptx::cp_async_wait<1>();
        __syncwarp();
        multiply(stages[(block - begin) % 2]);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32) mma_obts_large_separate(
    const int* __restrict__ indptr24, const int* __restrict__ indices24, const half* __restrict__ data24,
    const unsigned* __restrict__ metadata, const int* __restrict__ indptr_dense, const int* __restrict__ indices_dense,
    const half* __restrict__ data, const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    __shared__ tile::Operands stages[2];
    __shared__ alignas(16) half staging[tile::WARP_M * tile::WARP_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * tile::WARP_N;

    tile::SUMS sums;
    walk(
        stages, indptr24[blockIdx.y], indptr24[blockIdx.y + 1], indices24, b, ldb, n0, lane,
        [&](tile::Operands& stage, int block) { tile::copy_24<Copy>(stage, data24, metadata, block, lane); },
        [&](const tile::Operands& stage) { tile::multiply_24(sums, stage, lane); });
    walk(
        stages, indptr_dense[blockIdx.y], indptr_dense[blockIdx.y + 1], indices_dense, b, ldb, n0, lane,
        [&](tile::Operands& stage, int block) { tile::copy_dense<Copy>(stage, data, block, lane); },
        [&](const tile::Operands& stage) { tile::multiply_dense(sums, stage, lane); });
    tile::store(sums, staging, c, ldc, blockIdx.y * tile::WARP_M, n0, lane);
}
