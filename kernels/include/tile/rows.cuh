#pragma once
// Tiles of halves in shared memory, rows of K halves, for ldmatrix. The index of a 16-byte chunk is XORed with the
// number of its row, so that the eight rows of one 8×8 matrix lie in different banks. For K = 64:
//
//   row 0    0 1 2 3 4 5 6 7        numbers are chunks
//   row 1    1 0 3 2 5 4 7 6
//   row 2    2 3 0 1 6 7 4 5

#include <cuda_fp16.h>

#include "ptx/ldmatrix.cuh"

namespace tile {

// Offset of a chunk of a row, in halves, after the swizzle.
template <int K>
__device__ __forceinline__ int chunk_offset(int row, int chunk) {
    static_assert(K == 8 || K == 16 || K == 32 || K == 64, "a row is 16, 32, 64 or 128 bytes");
    return row * K + (chunk ^ (row / (64 / K)) % (K / 8)) * 8;
}

// Copy ROWS rows of K halves, ld apart in global memory, with THREADS threads and the method Copy.
template <typename Copy, int ROWS, int K, int THREADS = 32>
__device__ __forceinline__ void copy(half* rows, const half* source, long long ld, int thread) {
    constexpr int CHUNKS = ROWS * K / 8;
#pragma unroll
    for (int step = 0; step < (CHUNKS + THREADS - 1) / THREADS; ++step) {
        const int i = step * THREADS + thread;
        const int row = i / (K / 8), chunk = i % (K / 8);
        if (CHUNKS % THREADS == 0 || i < CHUNKS) Copy::copy_16(rows + chunk_offset<K>(row, chunk), source + row * ld + chunk * 8);
    }
}

// A's fragment of m16n8k16: rows m0 to m0 + 15, columns k0 to k0 + 15.
template <int K>
__device__ __forceinline__ void load_a(unsigned (&a)[4], const half* rows, int m0, int k0, int lane) {
    ptx::ldmatrix_x4(a, rows + chunk_offset<K>(m0 + lane % 16, k0 / 8 + lane / 16));
}

// The half of it that holds columns 0 to 7: the values of a 2:4 tile of 16 columns.
template <int K>
__device__ __forceinline__ void load_a(unsigned (&a)[2], const half* rows, int m0, int k0, int lane) {
    ptx::ldmatrix_x2(a, rows + chunk_offset<K>(m0 + lane % 16, k0 / 8));
}

// B's fragment of m16n8k16, from columns of B as rows: columns n0 to n0 + 7, k0 to k0 + 15.
template <int K>
__device__ __forceinline__ void load_b(unsigned (&b)[2], const half* rows, int n0, int k0, int lane) {
    ptx::ldmatrix_x2(b, rows + chunk_offset<K>(n0 + lane % 8, k0 / 8 + lane / 8 % 2));
}

// B's fragment of the sparse m16n8k32, which is also those of two m16n8k16: k0 to k0 + 31.
template <int K>
__device__ __forceinline__ void load_b(unsigned (&b)[4], const half* rows, int n0, int k0, int lane) {
    ptx::ldmatrix_x4(b, rows + chunk_offset<K>(n0 + lane % 8, k0 / 8 + lane / 8));
}

}  // namespace tile
