#pragma once
// What the kernels of windows of eight rows share (format vectors_8x1): pieces of work, and windows that several warps
// have worked on.

namespace tile {

constexpr int WINDOW = 8, SLAB = 64;

// Sums of a row of a window that is cut, from which its row of C is made; `columns` of them, a multiple of SLAB.
__device__ __forceinline__ float* part_of(float* parts, int part, int row, int columns) {
    return parts + (static_cast<long long>(part) * WINDOW + row) * columns;
}

// Sums of eight neighbouring columns over all parts of a window.
__device__ __forceinline__ void add_eight(
    float (&sums)[8], const float* parts, int first, int count, int row, int columns, int column) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = 0.0f;
    for (int part = first; part < first + count; ++part) {
        const float4* from = reinterpret_cast<const float4*>(
            parts + (static_cast<long long>(part) * WINDOW + row) * columns + column);
        const float4 low = from[0], high = from[1];
        sums[0] += low.x, sums[1] += low.y, sums[2] += low.z, sums[3] += low.w;
        sums[4] += high.x, sums[5] += high.y, sums[6] += high.z, sums[7] += high.w;
    }
}

}  // namespace tile
