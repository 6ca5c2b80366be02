/*---
name: mma_t
study: smat
source: Okanovic et al. 2024, section 4; Mistry 2025, section 1.4.6 "mmaT"
idea: one warp computes one 16x8 tile of C with tensor cores, testing every tile of its row of A and skipping zeros
format: bcsr_16x16
format_options: {block_map: true}
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 16}
min_arch: sm_80
requires: {n: 8}
tile: {m: 16, n: 8, k: 16}
constants: {sums: SumsF16}
features: [ldmatrix, mma]
launch:
  grid: ceil_div(n, tile.n), a.block_rows
  block: 32
  args: a.block_map, a.data, b, c, a.block_columns, b.ld, c.ld
deviations:
  - "one dense map (-1 for a zero tile, else the block's position) where the original keeps two, class and position"
  - "values of A and B are real numbers; the original was checked with ones only"
---*/
#include "tile/smat_tile.cuh"

extern "C" __global__ void __launch_bounds__(32) mma_t(
    const int* __restrict__ block_map, const half* __restrict__ blocks, const half* __restrict__ b, half* __restrict__ c,
    int block_columns, int ldb, int ldc) {
    __shared__ tile::SmatOperands stage;
    __shared__ alignas(16) half staging[TILE_M * TILE_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * TILE_N;
    const int* row_map = block_map + static_cast<long long>(blockIdx.y) * block_columns;

    tile::SUMS sums;
    for (int column = 0; column < block_columns; ++column) {
        const int position = row_map[column];
        if (position < 0) continue;
        const half* block = blocks + static_cast<long long>(position) * (TILE_M * TILE_K);
        *reinterpret_cast<uint4*>(stage.a + tile::a_lane_offset(lane)) =
            *reinterpret_cast<const uint4*>(block + tile::a_lane_offset(lane));
        if (lane < 16) {
            *reinterpret_cast<uint4*>(stage.b + tile::b_lane_offset(lane)) =
                *reinterpret_cast<const uint4*>(tile::b_lane_source(b, ldb, column * TILE_K, n0, lane));
        }
        __syncwarp();
        tile::multiply(sums, stage, lane);
        __syncwarp();
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * TILE_M, n0, lane);
}
