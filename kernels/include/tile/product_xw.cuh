#pragma once
// Dense times sparse: Y = X·W, X (tokens × inputs) and Y (tokens × outputs) row-major, W (inputs × outputs) in CSC. The
// project writes the same product as C = A·B with A = Wᵀ: CSR of A is CSC of W, array by array, B in column-major order
// is X in row-major, C is Y. In a head m is thus the outputs (columns of W), k the inputs and n the tokens (rows of X);
// in the code x is B, y is C. Collections of pruned weights store A: a layer from 512 to 2,048 features is 2048×512.

namespace tile {

// Sum of a warp's values, in every lane; the whole warp calls it.
__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

// Sum of the values of a block of THREADS, for its first thread; the whole block calls it, once.
template <int THREADS>
__device__ __forceinline__ float sum_of_block(float value) {
    constexpr int WARPS = THREADS / 32;
    static_assert(THREADS % 32 == 0, "full warps");
    __shared__ float sums[WARPS];
    value = sum_of_warp(value);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = sums[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) sum += sums[warp];
    return sum;
}

// A row of X (from input k0 on) times the entries first, first + STRIDE, … below end of W.
template <int STRIDE>
__device__ __forceinline__ float product(
    const int* __restrict__ indices, const float* __restrict__ data, int first, int end, const float* x, int k0 = 0) {
    float sum = 0.f;
#pragma unroll 4
    for (int p = first; p < end; p += STRIDE) sum += data[p] * x[indices[p] - k0];
    return sum;
}

// The first of the sorted entries begin to end - 1 of a column of W whose input is not below k0, or end.
__device__ __forceinline__ int entry_from(const int* __restrict__ indices, int begin, int end, int k0) {
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (indices[middle] < k0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

}  // namespace tile
