#pragma once
// Rows whose partial sums were computed by several CTAs or warps.

namespace tile {

// Sum of partials[first] to partials[last - 1], in each of the eight lanes that share a row; the whole warp calls it.
__device__ __forceinline__ double sum_by_eight(const double* __restrict__ partials, int first, int last) {
    double sum = 0.0;
    for (int i = first + threadIdx.x % 8; i < last; i += 8) sum += partials[i];
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
}

}  // namespace tile
