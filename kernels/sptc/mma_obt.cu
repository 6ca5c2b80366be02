/*---
name: mma_obt
study: sptc
source: Mistry 2025, section 2.2 "mmaOBT", figure 2.1
idea: two stages of operands, so that the copies of the next tile overlap the product of this one
after: mma_cbt
format: bcsr_16x16
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 16}
min_arch: sm_80
requires: {n: 8}
tile: {k: 16}
constants: {sums: SumsF16}
features: [cp_async, ldmatrix, mma]
launch:
  grid: ceil_div(n, 8), a.block_rows
  block: 32
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
variants:
  f32:
    idea: the same kernel with sums in single precision, for rows too long for half precision
    after: mma_obt
    dtype: {accumulator: float32}
    constants: {sums: SumsF32}
  large:
    idea: tiles of 32 columns, half the iterations of the pipeline
    after: mma_obt
    format: bcsr_16x32
    pads: {k: 32}
    tile: {k: 32}
deviations:
  - "every iteration commits a group of copies, an empty one after the last tile; the original's wait returns too early in rows of one tile"
  - "the column of the tile after next is read while the next one is copied; the original reads it when it is needed"
  - "cp.async and its groups instead of cuda::pipeline and memcpy_async, which compile to the same instructions"
---*/
#include "tile/copy_async.cuh"
#include "tile/rows.cuh"
#include "tile/sums.cuh"

struct alignas(128) Operands {
    half a[tile::WARP_M * TILE_K];
    half b[tile::WARP_N * TILE_K];
};

extern "C" __global__ void __launch_bounds__(32) mma_obt(
    const int* __restrict__ indptr, const int* __restrict__ indices, const half* __restrict__ data,
    const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    __shared__ Operands stages[2];
    __shared__ alignas(16) half staging[tile::WARP_M * tile::WARP_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * tile::WARP_N;
    const half* b_columns = b + static_cast<long long>(n0) * ldb;
    const int begin = indptr[blockIdx.y], end = indptr[blockIdx.y + 1];

    int column = begin < end ? indices[begin] : 0;
    auto copy = [&](int position) {
        if (position < end) {
            Operands& stage = stages[(position - begin) % 2];
            const half* block = data + static_cast<long long>(position) * (tile::WARP_M * TILE_K);
            tile::copy<tile::Asynchronous, tile::WARP_M, TILE_K>(stage.a, block, TILE_K, lane);
            tile::copy<tile::Asynchronous, tile::WARP_N, TILE_K>(stage.b, b_columns + column * TILE_K, ldb, lane);
            if (position + 1 < end) column = indices[position + 1];
        }
        ptx::cp_async_commit();
    };

    tile::SUMS sums;
    copy(begin);
    for (int position = begin; position < end; ++position) {
        copy(position + 1);
        ptx::cp_async_wait<1>();
        __syncwarp();
        const Operands& stage = stages[(position - begin) % 2];
#pragma unroll
        for (int k0 = 0; k0 < TILE_K; k0 += 16) {
            unsigned fragment_a[4], fragment_b[2];
            tile::load_a<TILE_K>(fragment_a, stage.a, 0, k0, lane);
            tile::load_b<TILE_K>(fragment_b, stage.b, 0, k0, lane);
            sums.multiply(fragment_a, fragment_b);
        }
        __syncwarp();
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * tile::WARP_M, n0, lane);
}
