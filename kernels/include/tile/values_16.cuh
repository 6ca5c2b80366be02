#pragma once
// The two 16-bit dtypes behind one interface, for kernels of which a twin multiplies the other one.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tile {

struct Bf16 {
    // Two sums, rounded, the first one in the low half.
    static __device__ __forceinline__ unsigned pack(float low, float high) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return reinterpret_cast<const unsigned&>(pair);
    }
    static __device__ __forceinline__ float2 unpack(unsigned pair) {
        return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
    }
};

struct F16 {
    static __device__ __forceinline__ unsigned pack(float low, float high) {
        const half2 pair = __floats2half2_rn(low, high);
        return reinterpret_cast<const unsigned&>(pair);
    }
    static __device__ __forceinline__ float2 unpack(unsigned pair) {
        return __half22float2(reinterpret_cast<const half2&>(pair));
    }
};

// The tile of C that CTA `index` computes: `group` rows of tiles are walked column by column, so that CTAs at work at
// the same time share what they read of A and of B in L2.
struct Place {
    int row, column;
};
__device__ __forceinline__ Place grouped(int index, int rows, int columns, int group) {
    const int first = index / (group * columns) * group, height = min(group, rows - first);
    const int within = index % (group * columns);
    return {first + within % height, within / height};
}

}  // namespace tile
