/*---
name: mma_obts
study: sptc
source: Mistry 2025, table 2.1 "mmaOBTS", sections 2.1 and 2.2
idea: the pipeline and the sparse tensor core together, with a test of every tile's class
after: mma_obt
format: bcsr_classed
format_options: {block_k: 16}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 16}
min_arch: sm_80
requires: {n: 8}
tile: {k: 16}
constants: {sums: SumsF16}
features: [cp_async, ldmatrix, mma, mma_sp]
launch:
  grid: ceil_div(n, 8), a.block_rows
  block: 32
  args: a.indptr, a.indices, a.codes, a.data, a.data24, a.metadata, b, c, b.ld, c.ld
variants:
  large:
    source: Mistry 2025, table 2.1 "mmaOBTS_large"
    idea: tiles of 32 columns, which take one sparse product or two dense ones
    after: mma_obts
    format_options: {block_k: 32}
    pads: {k: 32}
    tile: {k: 32}
deviations:
  - "class and position of a tile are listed next to its column; the original looks them up in dense maps"
  - "metadata, the test for 2:4 and the slices of B are corrected; see mma_st"
---*/
#include "tile/copy_async.cuh"
#include "tile/two_four.cuh"

extern "C" __global__ void __launch_bounds__(32) mma_obts(
    const int* __restrict__ indptr, const int* __restrict__ indices, const int* __restrict__ codes,
    const half* __restrict__ data, const half* __restrict__ data24, const unsigned* __restrict__ metadata,
    const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    using Copy = tile::Asynchronous;
    __shared__ tile::Operands stages[2];
    __shared__ alignas(16) half staging[tile::WARP_M * tile::WARP_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * tile::WARP_N;
    const int begin = indptr[blockIdx.y], end = indptr[blockIdx.y + 1];

    // Copies a tile, commits, and says whether it is 2:4.
    auto copy = [&](int block) {
        bool is_24 = false;
        if (block < end) {
            tile::Operands& stage = stages[(block - begin) % 2];
            const int code = codes[block];
            is_24 = code % 2 == 0;
            tile::copy_b<Copy>(stage, b, ldb, indices[block] * TILE_K, n0, lane);
            if (is_24) {
                tile::copy_24<Copy>(stage, data24, metadata, code / 2, lane);
            } else {
                tile::copy_dense<Copy>(stage, data, code / 2, lane);
            }
        }
        ptx::cp_async_commit();
        return is_24;
    };

    tile::SUMS sums;
    bool is_24 = copy(begin);
    for (int block = begin; block < end; ++block) {
        const bool next_is_24 = copy(block + 1);
        ptx::cp_async_wait<1>();
        __syncwarp();
        if (is_24) {
            tile::multiply_24(sums, stages[(block - begin) % 2], lane);
        } else {
            tile::multiply_dense(sums, stages[(block - begin) % 2], lane);
        }
        __syncwarp();
        is_24 = next_is_24;
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * tile::WARP_M, n0, lane);
}
