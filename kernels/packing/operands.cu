/*---
name: operands
study: packing
source: "this project"
idea: a dense operand of any strides is read once, along its shorter stride, and written in rows that kernels can read; results are copied back likewise
min_arch: sm_80
features: []
deviations: []
---*/
// Copies of dense operands whose rows are not contiguous, not aligned or not padded.
#include "packing/search.cuh"

namespace {

constexpr int TILE = 32;

// Rows of `to` = rows of `from`, and zeros from `columns` to `padded`. Elements of a row follow each other, and rows begin
// at any element. A group of lanes, one an element, copies DEPTH rows at a time, and neighbouring groups neighbouring
// rows: whatever the length of a row, a warp then reads and writes nearly whole sectors, without a division.
template <class Bits>
__device__ void copy_rows(
    const Bits* from, long long down, int rows, int columns, Bits* to, long long to_down, int padded, int lanes) {
    constexpr int DEPTH = 16 / sizeof(Bits);
    const int groups = blockDim.x / lanes, first = blockIdx.x * groups * DEPTH + threadIdx.x / lanes;
    for (int column = threadIdx.x % lanes; column < padded; column += lanes) {
        Bits values[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            const int row = first + i * groups;
            values[i] = row < rows && column < columns ? from[row * down + column] : Bits{};
        }
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            const int row = first + i * groups;
            if (row < rows) to[row * to_down + column] = values[i];
        }
    }
}

// to[rows, padded] = from[rows, columns] with zeros after each row, for a `from` whose columns are closer together than
// its rows. A CTA turns a tile in shared memory.
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

extern "C" __global__ void rows_16(
    const unsigned short* __restrict__ from, long long down, int rows, int columns, unsigned short* __restrict__ to, long long to_down,
    int padded, int lanes) {
    copy_rows(from, down, rows, columns, to, to_down, padded, lanes);
}

extern "C" __global__ void rows_32(
    const unsigned* __restrict__ from, long long down, int rows, int columns, unsigned* __restrict__ to, long long to_down,
    int padded, int lanes) {
    copy_rows(from, down, rows, columns, to, to_down, padded, lanes);
}

extern "C" __global__ void rows_64(
    const unsigned long long* __restrict__ from, long long down, int rows, int columns, unsigned long long* __restrict__ to, long long to_down,
    int padded, int lanes) {
    copy_rows(from, down, rows, columns, to, to_down, padded, lanes);
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
