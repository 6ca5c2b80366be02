/*---
name: mma_cbt
study: smat
source: Okanovic et al. 2024, section 4; Mistry 2025, section 1.4.6 "mmaCBT"
idea: copy both operands asynchronously, bypassing registers; copies of A and B overlap each other, but not the product
after: mma_bt
format: bcsr_16x16
dtype: {a: float16, b: float16, accumulator: float16, c: float16}
layout: {b: column_major, c: row_major}
pads: {m: 16, k: 16}
min_arch: sm_80
requires: {n: 8}
tile: {m: 16, n: 8, k: 16}
constants: {sums: SumsF16}
features: [cp_async, ldmatrix, mma]
launch:
  grid: ceil_div(n, tile.n), a.block_rows
  block: 32
  args: a.indptr, a.indices, a.data, b, c, b.ld, c.ld
deviations:
  - "B's tile is copied as 8 columns of 16 halves; the original copies 128 contiguous halves, which is only correct for constant B"
  - "one 16-byte cp.async per lane and an immediate wait, instead of cooperative_groups::memcpy_async of the whole tile"
---*/
#include "ptx/cp_async.cuh"
#include "tile/smat_tile.cuh"

extern "C" __global__ void __launch_bounds__(32) mma_cbt(
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
        ptx::cp_async_16(stage.a + tile::a_lane_offset(lane), block + tile::a_lane_offset(lane));
        if (lane < 16) {
            ptx::cp_async_16(stage.b + tile::b_lane_offset(lane),
                             tile::b_lane_source(b, ldb, indices[position] * TILE_K, n0, lane));
        }
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncwarp();
        tile::multiply(sums, stage, lane);
        __syncwarp();
    }
    tile::store(sums, staging, c, ldc, blockIdx.y * TILE_M, n0, lane);
}
