#pragma once
// Tiles of 16×TILE_K halves of A that are dense or 2:4, as formats bcsr_classed and bcsr_separated store them, and
// the tile of B that they are multiplied by: 8 columns of TILE_K rows.

#include "ptx/mma_sp.cuh"
#include "tile/rows.cuh"
#include "tile/sums.cuh"

namespace tile {

static_assert(TILE_K == 16 || TILE_K == 32, "mma.sp multiplies 16-bit tiles of 16 or 32 columns");

// One stage of operands in shared memory. A 2:4 tile takes half of a; it has TILE_K / 2 words of metadata.
struct alignas(128) Operands {
    half a[WARP_M * TILE_K];
    half b[WARP_N * TILE_K];
    alignas(16) unsigned metadata[TILE_K / 2];
};

template <typename Copy>
__device__ __forceinline__ void copy_dense(Operands& stage, const half* data, int position, int lane) {
    copy<Copy, WARP_M, TILE_K>(stage.a, data + static_cast<long long>(position) * (WARP_M * TILE_K), TILE_K, lane);
}

template <typename Copy>
__device__ __forceinline__ void copy_24(Operands& stage, const half* data24, const unsigned* metadata, int position, int lane) {
    constexpr int HALF_K = TILE_K / 2;
    copy<Copy, WARP_M, HALF_K>(stage.a, data24 + static_cast<long long>(position) * (WARP_M * HALF_K), HALF_K, lane);
    if (lane < TILE_K / 8) Copy::copy_16(stage.metadata + 4 * lane, metadata + static_cast<long long>(position) * HALF_K + 4 * lane);
}

// B is column-major with leading dimension ldb.
template <typename Copy>
__device__ __forceinline__ void copy_b(Operands& stage, const half* b, long long ldb, int k0, int n0, int lane) {
    copy<Copy, WARP_N, TILE_K>(stage.b, b + n0 * ldb + k0, ldb, lane);
}

// One mma.sp of A, two values in each group of four columns.
__device__ __forceinline__ void multiply_24(SumsF16& sums, const unsigned (&a)[2], const unsigned (&b)[2], unsigned metadata) {
    ptx::mma_sp_m16n8k16_f16_f16<0>(sums.d, a, b, metadata);
}
__device__ __forceinline__ void multiply_24(SumsF16& sums, const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    ptx::mma_sp_m16n8k32_f16_f16<0>(sums.d, a, b, metadata);
}
__device__ __forceinline__ void multiply_24(SumsF32& sums, const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    ptx::mma_sp_m16n8k32_f32_f16<0>(sums.d, a, b, metadata);
}

// The word of a 2:4 tile's metadata that this lane supplies to selector 0. Lanes that supply none get one as well.
__device__ __forceinline__ unsigned metadata_word(const unsigned* metadata, int lane) {
    return TILE_K == 16 ? metadata[lane / 4] : metadata[lane / 4 * 2 + lane % 2];
}

// Multiply a stage that holds a dense tile: one or two m16n8k16.
template <typename Sums>
__device__ __forceinline__ void multiply_dense(Sums& sums, const Operands& stage, int lane) {
#pragma unroll
    for (int k0 = 0; k0 < TILE_K; k0 += 16) {
        unsigned a[4], b[2];
        load_a<TILE_K>(a, stage.a, 0, k0, lane);
        load_b<TILE_K>(b, stage.b, 0, k0, lane);
        sums.multiply(a, b);
    }
}

// Multiply a stage that holds a 2:4 tile: one sparse product of TILE_K.
template <typename Sums>
__device__ __forceinline__ void multiply_24(Sums& sums, const Operands& stage, int lane) {
    unsigned a[TILE_K / 8], b[TILE_K / 8];
    load_a<TILE_K / 2>(a, stage.a, 0, 0, lane);
    load_b<TILE_K>(b, stage.b, 0, 0, lane);
    multiply_24(sums, a, b, metadata_word(stage.metadata, lane));
}

}  // namespace tile
