/*---
name: mma_bt
study: smat
source: Okanovic et al. 2024, section 4; Mistry 2025, section 1.4.6 "mmaBT"
idea: walk the block row's stored tiles instead of testing every tile
after: mma_t
format: bcsr_16x16
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
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
variants:
  f32:
    idea: the same kernel with sums in single precision, for rows too long for half precision
    after: mma_bt
    dtype: {accumulator: float32}
    constants: {sums: SumsF32}
deviations:
  - "indices hold block columns; the original stores starting columns, and still looks up the dense maps of mma_t"
  - "values of A and B are real numbers; the original was checked with ones only"
---*/
#include "tile/smat_tile.cuh"

extern "C" __global__ void __launch_bounds__(32) mma_bt(
    const int* __restrict__ indptr, const int* __restrict__ indices, const half* __restrict__ blocks,
    const half* __restrict__ b, half* __restrict__ c, int ldb, int ldc) {
    __shared__ tile::SmatOperands stage;
    __shared__ alignas(16) half staging[TILE_M * TILE_N];
    const int lane = threadIdx.x;
    const int n0 = blockIdx.x * TILE_N;

    tile::SUMS sums;
    const int end = indptr[blockIdx.y + 1];
    for (int position = indptr[blockIdx.y]; position < end; ++position) {
        const half* block = blocks + static_cast<long long>(position) * (TILE_M * TILE_K);
        *reinterpret_cast<uint4*>(stage.a + tile::a_lane_offset(lane)) =
            *reinterpret_cast<const uint4*>(block + tile::a_lane_offset(lane));
        if (lane < 16) {
            *reinterpret_cast<uint4*>(stage.b + tile::b_lane_offset(lane)) =
                *reinterpret_cast<const uint4*>(tile::b_lane_source(b, ldb, indices[position] * TILE_K, n0, lane));
        }
        __syncwarp();
        tile::multiply(sums, stage, lane);
        __syncwarp();
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * TILE_M, n0, lane);
}
