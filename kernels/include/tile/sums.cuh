#pragma once
// Sums of one 16×8 tile of C in the registers of a warp, as fragments of m16n8 products, and their store to C.

#include <cuda_fp16.h>

#include "ptx/mma.cuh"

namespace tile {

constexpr int WARP_M = 16, WARP_N = 8;

// In half precision, as in the original kernels.
struct SumsF16 {
    unsigned d[2] = {0u, 0u};

    __device__ __forceinline__ void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) {
        ptx::mma_m16n8k16_f16_f16(d, a, b);
    }
    // Row g of the tile, or g + 8 (lower), columns 2t and 2t + 1.
    __device__ __forceinline__ unsigned packed(int lower) const { return d[lower]; }
};

// In single precision.
struct SumsF32 {
    float d[4] = {0.f, 0.f, 0.f, 0.f};

    __device__ __forceinline__ void multiply(const unsigned (&a)[4], const unsigned (&b)[2]) {
        ptx::mma_m16n8k16_f32_f16(d, a, b);
    }
    __device__ __forceinline__ unsigned packed(int lower) const {
        const __half2 pair = __floats2half2_rn(d[2 * lower], d[2 * lower + 1]);
        return reinterpret_cast<const unsigned&>(pair);
    }
};

// Write the tile at (m0, n0) of row-major C through shared memory, so that sixteen lanes write one 16-byte row each.
template <typename Sums>
__device__ __forceinline__ void store(const Sums& sums, half* staging, half* c, long long ldc, int m0, int n0, int lane) {
    unsigned* words = reinterpret_cast<unsigned*>(staging);
    const int g = lane / 4, t = lane % 4;
    words[g * (WARP_N / 2) + t] = sums.packed(0);
    words[(g + 8) * (WARP_N / 2) + t] = sums.packed(1);
    __syncwarp();
    if (lane < WARP_M) {
        *reinterpret_cast<uint4*>(c + (m0 + lane) * ldc + n0) = *reinterpret_cast<const uint4*>(staging + lane * WARP_N);
    }
}

}  // namespace tile
