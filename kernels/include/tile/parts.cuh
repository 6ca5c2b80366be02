#pragma once
// Rows of which several CTAs or warps have left parts.

namespace tile {

// Sum of parts[first] to parts[last - 1], in each of the eight lanes that share a row; the whole warp calls it.
__device__ __forceinline__ double sum_by_eight(const double* __restrict__ parts, int first, int last) {
    double sum = 0.0;
    for (int i = first + threadIdx.x % 8; i < last; i += 8) sum += parts[i];
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
}

}  // namespace tile
