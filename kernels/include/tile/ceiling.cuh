#pragma once
// What the loops of the ceilings share: operands of tensor cores out of B, and one number out of their sums.

#include <cuda_fp16.h>

namespace tile {

// Fragments for a warp: register i of fragment f is word 32 (count f + i) + lane of `words`.
template <typename T, int fragments, int count>
__device__ __forceinline__ void fill(T (&registers)[fragments][count], const T* words) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
#pragma unroll
        for (int i = 0; i < count; ++i) registers[f][i] = words[32 * (count * f + i) + lane];
    }
}

__device__ __forceinline__ void add(float& total, float sum) { total += sum; }
__device__ __forceinline__ void add(double& total, double sum) { total += sum; }
// Two sums in half precision.
__device__ __forceinline__ void add(float& total, unsigned sums) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(sums));
    total += pair.x + pair.y;
}

// The total of this thread's sums, one after the other, to its place in C if there is one.
template <typename Total, typename T, int rows, int columns, int count>
__device__ __forceinline__ void store_total(Total* c, int places, const T (&sums)[rows][columns][count]) {
    Total total{};
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int j = 0; j < columns; ++j) {
#pragma unroll
            for (int r = 0; r < count; ++r) add(total, sums[i][j][r]);
        }
    }
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < places) c[thread] = total;
}

}  // namespace tile
