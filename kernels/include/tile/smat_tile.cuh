#pragma once
// Tiles of the SMaT kernels: one warp computes a 16×8 tile of C; A comes in dense 16×16 blocks of halves, B in
// 16×8 tiles of a column-major matrix. Lane l owns 16 bytes of each: half l % 2 of row l / 2 of a block of A, and,
// for l < 16, half l % 2 of column l / 2 of a tile of B.

#include "ptx/ldmatrix.cuh"
#include "tile/sums.cuh"

namespace tile {

static_assert(TILE_M == 16 && TILE_N == 8 && TILE_K == 16, "the SMaT tile is one m16n8k16 product");

// One stage of operands in shared memory.
struct alignas(16) SmatOperands {
    half a[TILE_M * TILE_K];
    half b[TILE_N * TILE_K];
};

// Offset of this lane's 16 bytes in a block of A, in halves; the same in global and in shared memory.
__device__ __forceinline__ int a_lane_offset(int lane) { return lane * 8; }

// Offset of this lane's 16 bytes of a tile of B in shared memory, in halves; for lanes 0..15.
__device__ __forceinline__ int b_lane_offset(int lane) { return lane * 8; }

// The same 16 bytes in global memory: B is column-major with leading dimension ldb, (k0, n0) the tile's corner.
__device__ __forceinline__ const half* b_lane_source(const half* b, long long ldb, int k0, int n0, int lane) {
    return b + (n0 + lane / 2) * ldb + k0 + (lane % 2) * 8;
}

// Multiply one stage: ldmatrix brings both operands into fragments, one mma adds their product.
template <typename Sums>
__device__ __forceinline__ void multiply(Sums& sums, const SmatOperands& stage, int lane) {
    unsigned a[4], b[2];
    ptx::ldmatrix_x4(a, stage.a + (lane % 16) * TILE_K + (lane / 16) * 8);
    ptx::ldmatrix_x2(b, stage.b + (lane % 8) * TILE_K + ((lane / 8) % 2) * 8);
    sums.multiply(a, b);
}

}  // namespace tile
