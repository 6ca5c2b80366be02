/*---
name: mma_st
study: sptc
source: Mistry 2025, section 2.1 "mmaST", listings 2.1 and 2.2
idea: multiply the tiles that are 2:4 on the sparse tensor core, from half of their values
after: mma_t
format: bcsr_classed
format_options: {block_k: 16, block_map: true}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 16}
min_arch: sm_80
requires: {n: 8}
tile: {k: 16}
constants: {sums: SumsF16}
features: [ldmatrix, mma, mma_sp]
launch:
  grid: ceil_div(n, 8), a.block_rows
  block: 32
  args: a.block_map, a.data, a.data24, a.metadata, b, c, a.block_columns, b.ld, c.ld
variants:
  large:
    source: Mistry 2025, section 2.1 "mmaST_large"
    idea: tiles of 32 columns, which take one sparse product or two dense ones
    after: mma_st
    format_options: {block_k: 32}
    pads: {k: 32}
    tile: {k: 32}
deviations:
  - "one dense map (-1 for a zero tile, else its class and position) where the original keeps two"
  - "metadata is packed on the host in the order of the lanes, with increasing indices in every group; the original swaps the groups of a byte, and pairs an index with itself where a group holds one non-zero"
  - "a tile is 2:4 if no group of four holds three non-zeros; the original treats {0, 1, 3} and {0, 2, 3} as 2:4"
  - "in tiles of 32 columns all four slices of B are multiplied; the original multiplies two of them twice"
---*/
#include "tile/copy_registers.cuh"
#include "tile/two_four.cuh"

extern "C" __global__ void __launch_bounds__(32) mma_st(
    const int* __restrict__ block_map, const half* __restrict__ data, const half* __restrict__ data24,
    const unsigned* __restrict__ metadata, const half* __restrict__ b, half* __restrict__ c, int block_columns, int ldb,
    int ldc) {
    using Copy = tile::ThroughRegisters;
    __shared__ tile::Operands stage;
    __shared__ alignas(16) half staging[tile::WARP_M * tile::WARP_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * tile::WARP_N;
    const int* row_map = block_map + static_cast<long long>(blockIdx.y) * block_columns;

    tile::SUMS sums;
#pragma unroll 4
    for (int column = 0; column < block_columns; ++column) {
        const int code = row_map[column];
        if (code < 0) continue;
        const int position = code / 2;
        tile::copy_b<Copy>(stage, b, ldb, column * TILE_K, n0, lane);
        if (code % 2) {
            tile::copy_dense<Copy>(stage, data, position, lane);
            __syncwarp();
            tile::multiply_dense(sums, stage, lane);
        } else {
            tile::copy_24<Copy>(stage, data24, metadata, position, lane);
            __syncwarp();
            tile::multiply_24(sums, stage, lane);
        }
        __syncwarp();
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * tile::WARP_M, n0, lane);
}
