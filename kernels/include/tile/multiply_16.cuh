#pragma once
// One product of fragments m16n8k16 with FP32 sums, for either 16-bit dtype.

#include "ptx/mma.cuh"
#include "ptx/mma_bf16.cuh"
#include "tile/values_16.cuh"

namespace tile {

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], F16) {
    ptx::mma_m16n8k16_f32_f16(d, a, b);
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Bf16) {
    ptx::mma_m16n8k16_f32_bf16(d, a, b);
}

}  // namespace tile
