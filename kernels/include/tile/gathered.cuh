#pragma once
// What the kernels of blocks of windows share (format gathered_8x1): the lines of B that a block needs, once each, in
// shared memory, and its way through the strips of B.

#include "ptx/cp_async.cuh"

namespace tile {

constexpr int WINDOW = 8, TILE_WIDTH = 16;
// A strip of a row of B, in bytes, of which eight lanes copy a chunk of 16 each.
constexpr int LINE = 128;

// Where a chunk of a line lies: chunks are swapped by the line's number, so that tensor cores' operands, which are the
// same chunk of lines that often follow each other, come from different banks.
__device__ __forceinline__ int place_of(int line, int chunk) {
    return line * LINE + (chunk ^ (line & 1 | line >> 1 & 6)) * 16;
}

// Arrays of the format, and B, whose rows have `stride` bytes.
struct Gathered {
    const int2* work;
    const int *windows, *columns;
    const char* b;
    int stride;
};

// A CTA's way through its block and `strips` strips from `first_strip` on. While one strip is multiplied the lines of the
// next one are on their way to the other half of `buffers`, 2·CAPACITY lines. A window alone that has entries in more
// columns than there is room for comes in several parts, of which all warps have some tiles.
// multiply(buffer, tile, end, step, part) is for tiles `tile`, `tile` + `step`, … before `end`, whose places count from
// `part` on; store(window, strip, warps) adds up what so many warps have of a window, and forgets it.
template <int WARPS, int CAPACITY, class Multiply, class Store>
__device__ __forceinline__ void walk_block(
    const Gathered& of, char* buffers, int first_strip, int strips, const Multiply& multiply, const Store& store) {
    static_assert(CAPACITY % TILE_WIDTH == 0, "parts of a window are tiles");
    const int2 own = __ldg(of.work + blockIdx.x), next = __ldg(of.work + blockIdx.x + 1);
    const int count = next.x - own.x, parts = max((count + CAPACITY - 1) / CAPACITY, 1), stages = parts * strips;

    const auto gather = [&](int stage) {
        const int part = stage % parts * CAPACITY, lines = min(count - part, CAPACITY), chunk = threadIdx.x % 8;
        const char* strip = of.b + min((first_strip + stage / parts) * LINE + 16 * chunk, of.stride - 16);
        char* const buffer = buffers + stage % 2 * (CAPACITY * LINE);
#pragma unroll 4
        for (int i = threadIdx.x / 8; i < lines; i += 4 * WARPS) {
            const int row = __ldg(of.columns + (own.x + part + i));
            ptx::cp_async_16(buffer + place_of(i, chunk), strip + static_cast<long long>(row) * of.stride);
        }
        ptx::cp_async_commit();
    };

    gather(0);
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
        if (stage + 1 < stages) {
            gather(stage + 1);
            ptx::cp_async_wait<1>();
        } else {
            ptx::cp_async_wait<0>();
        }
        __syncthreads();
        const char* const buffer = buffers + stage % 2 * (CAPACITY * LINE);
        const int strip = first_strip + stage / parts, warp = threadIdx.x / 32;
        if (parts == 1) {
#pragma unroll 1
            for (int window = own.y + warp; window < next.y; window += WARPS) {
                multiply(buffer, __ldg(of.windows + window), __ldg(of.windows + window + 1), 1, 0);
                store(window, strip, 1);
            }
        } else {
            const int part = stage % parts, first = __ldg(of.windows + own.y) + part * (CAPACITY / TILE_WIDTH);
            const int end = min(first + CAPACITY / TILE_WIDTH, __ldg(of.windows + next.y));
            multiply(buffer, first + warp, end, WARPS, part * CAPACITY);
            if (part == parts - 1) store(own.y, strip, WARPS);
        }
        __syncthreads();
    }
}

// Where sums of warps meet that have parts of one window.
__device__ __forceinline__ void meet(int warps) {
    if (warps > 1) {
        __syncthreads();
    } else {
        __syncwarp();
    }
}

}  // namespace tile
