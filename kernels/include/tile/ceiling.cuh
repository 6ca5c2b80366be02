#pragma once
// Shared by the ceilings on tensor cores: loading fragments, the loop of products, and a result that depends on all
// sums.

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

// Store the total of this thread's sums, added in order, as the thread's value of C; C has `size` values.
template <typename Total, typename T, int rows, int columns, int count>
__device__ __forceinline__ void store_total(Total* c, int size, const T (&sums)[rows][columns][count]) {
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
    if (thread < size) c[thread] = total;
}

// The loop of a ceiling: every warp runs ROWS × COLUMNS independent chains of TILE_ROUNDS · TILE_TURNS products. Chain
// (i, j) adds A[i]·B[j] to its own sums. The fragments follow each other in `b`, first those of A, and never change.
//
//            B[0]    B[1]    …
//   A[0]     sums    sums            every warp of the device has the same fragments
//   A[1]     sums    sums
//
// `product(sums, a, b)` is one instruction; the sizes of its fragments follow from the types of its arguments.
template <int ROWS, int COLUMNS, class T, class Total, class Product, class Sum, int count_sums, int count_a, int count_b>
__device__ __forceinline__ void multiply_chains(
    const T* b, Total* c, int size, const Product& product,
    void (Product::*)(Sum (&)[count_sums], const T (&)[count_a], const T (&)[count_b]) const) {
    T fragments_a[ROWS][count_a], fragments_b[COLUMNS][count_b];
    fill(fragments_a, b);
    fill(fragments_b, b + 32 * ROWS * count_a);
    Sum sums[ROWS][COLUMNS][count_sums] = {};
#pragma unroll 1
    for (int round = 0; round < TILE_ROUNDS; ++round) {
#pragma unroll
        for (int turn = 0; turn < TILE_TURNS; ++turn) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) product(sums[i][j], fragments_a[i], fragments_b[j]);
            }
        }
    }
    store_total(c, size, sums);
}
template <int ROWS, int COLUMNS, class T, class Total, class Product>
__device__ __forceinline__ void multiply_chains(const T* b, Total* c, int size, const Product& product) {
    multiply_chains<ROWS, COLUMNS>(b, c, size, product, &Product::operator());
}

}  // namespace tile
