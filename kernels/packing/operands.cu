/*---
name: operands
study: packing
source: "this project"
idea: a dense operand of any strides is read once, along its shorter stride, and written in rows that kernels can read
min_arch: sm_80
features: []
deviations: []
---*/
// Copies of dense operands whose rows are not contiguous, not aligned or not padded.
#include "packing/search.cuh"

namespace {

constexpr int TILE = 32;

// to[rows, padded] = from[rows, columns] with zeros after each row; `from` has contiguous rows. A thread writes 16 bytes.
template <class Bits>
__device__ void pad(const Bits* from, long long down, int rows, int columns, int padded, Bits* to) {
    constexpr int COUNT = 16 / sizeof(Bits);
    const int vectors = padded / COUNT;
    const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<long long>(rows) * vectors) return;
    const int row = static_cast<int>(at / vectors), first = static_cast<int>(at % vectors) * COUNT;
    const Bits* own = from + row * down;
    __align__(16) Bits values[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] = first + i < columns ? own[first + i] : Bits{};
    reinterpret_cast<uint4*>(to)[at] = *reinterpret_cast<const uint4*>(values);
}

// The same for a `from` whose columns are closer together than its rows. A CTA turns a tile in shared memory.
template <class Bits>
__device__ void turn(
    const Bits* from, long long down, long long right, int rows, int columns, int padded, int tiles, Bits* to) {
    __shared__ Bits tile[TILE][TILE + 1];
    const int row = blockIdx.x / tiles * TILE, column = blockIdx.x % tiles * TILE;
    const int x = threadIdx.x % TILE, steps = blockDim.x / TILE;
    for (int y = threadIdx.x / TILE; y < TILE; y += steps) {
        const bool is_inside = row + x < rows && column + y < columns;
        tile[y][x] = is_inside ? from[(row + x) * down + (column + y) * right] : Bits{};
    }
    __syncthreads();
    for (int y = threadIdx.x / TILE; y < TILE; y += steps) {
        if (row + y < rows && column + x < padded) {
            to[static_cast<long long>(row + y) * padded + column + x] = tile[x][y];
        }
    }
}

}  // namespace

extern "C" __global__ void pad_16(
    const unsigned short* __restrict__ from, long long down, int rows, int columns, int padded,
    unsigned short* __restrict__ to) {
    pad(from, down, rows, columns, padded, to);
}

extern "C" __global__ void pad_32(
    const unsigned* __restrict__ from, long long down, int rows, int columns, int padded, unsigned* __restrict__ to) {
    pad(from, down, rows, columns, padded, to);
}

extern "C" __global__ void pad_64(
    const unsigned long long* __restrict__ from, long long down, int rows, int columns, int padded,
    unsigned long long* __restrict__ to) {
    pad(from, down, rows, columns, padded, to);
}

extern "C" __global__ void turn_16(
    const unsigned short* __restrict__ from, long long down, long long right, int rows, int columns, int padded,
    int tiles, unsigned short* __restrict__ to) {
    turn(from, down, right, rows, columns, padded, tiles, to);
}

extern "C" __global__ void turn_32(
    const unsigned* __restrict__ from, long long down, long long right, int rows, int columns, int padded, int tiles,
    unsigned* __restrict__ to) {
    turn(from, down, right, rows, columns, padded, tiles, to);
}

extern "C" __global__ void turn_64(
    const unsigned long long* __restrict__ from, long long down, long long right, int rows, int columns, int padded,
    int tiles, unsigned long long* __restrict__ to) {
    turn(from, down, right, rows, columns, padded, tiles, to);
}
