#pragma once
// The two 16-bit dtypes behind one interface, for kernels with a variant for each.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tile {

struct Bf16 {
    // Round two sums; the first one goes to the low half.
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

}  // namespace tile
