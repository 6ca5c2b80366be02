#pragma once
// Sixteen bytes of a row of B, and their product with a value of A, summed in single precision, or in double in FP64.

#include <cuda_fp16.h>

namespace tile {

template <typename T>
struct Packet;

template <>
struct Packet<float> {
    using Stored = float;
    using Number = float;
    static constexpr int WIDTH = 4;
    float4 raw;

    __device__ __forceinline__ static float widened(float x) { return x; }
    __device__ __forceinline__ void load(const float* source) { raw = __ldg(reinterpret_cast<const float4*>(source)); }
    __device__ __forceinline__ void add_to(float (&sums)[WIDTH], float value) const {
        sums[0] += value * raw.x;
        sums[1] += value * raw.y;
        sums[2] += value * raw.z;
        sums[3] += value * raw.w;
    }
    __device__ __forceinline__ static void store(float* target, const float (&sums)[WIDTH]) {
        *reinterpret_cast<float4*>(target) = make_float4(sums[0], sums[1], sums[2], sums[3]);
    }
};

template <>
struct Packet<double> {
    using Stored = double;
    using Number = double;
    enum : int { WIDTH = 2 };  // unlike a constant, no symbol in the machine code of kernels that do not use it
    double2 raw;

    __device__ __forceinline__ static double widened(double x) { return x; }
    __device__ __forceinline__ void load(const double* source) {
        raw = __ldg(reinterpret_cast<const double2*>(source));
    }
    __device__ __forceinline__ void add_to(double (&sums)[WIDTH], double value) const {
        sums[0] += value * raw.x;
        sums[1] += value * raw.y;
    }
};

template <>
struct Packet<half> {
    static constexpr int WIDTH = 8;
    uint4 raw;

    __device__ __forceinline__ void load(const half* source) { raw = __ldg(reinterpret_cast<const uint4*>(source)); }
    __device__ __forceinline__ void add_to(float (&sums)[WIDTH], float value) const {
        const __half2* pairs = reinterpret_cast<const __half2*>(&raw);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(pairs[i]);
            sums[2 * i] += value * pair.x;
            sums[2 * i + 1] += value * pair.y;
        }
    }
    __device__ __forceinline__ static void store(half* target, const float (&sums)[WIDTH]) {
        uint4 packed;
        __half2* pairs = reinterpret_cast<__half2*>(&packed);
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs[i] = __floats2half2_rn(sums[2 * i], sums[2 * i + 1]);
        *reinterpret_cast<uint4*>(target) = packed;
    }
};

// Sixteen bytes of the sums of a lane, as one access of shared memory moves them.
template <class Number>
using Sixteen = decltype(Packet<Number>::raw);
__device__ __forceinline__ void copy_sums(float4& own, const float* sums) {
    own = make_float4(sums[0], sums[1], sums[2], sums[3]);
}
__device__ __forceinline__ void copy_sums(double2& own, const double* sums) { own = make_double2(sums[0], sums[1]); }
__device__ __forceinline__ void add_sums(float* sums, const float4 own) {
    sums[0] += own.x, sums[1] += own.y, sums[2] += own.z, sums[3] += own.w;
}
__device__ __forceinline__ void add_sums(double* sums, const double2 own) { sums[0] += own.x, sums[1] += own.y; }

// Add a packet of sums to C atomically; other threads add to the same values.
__device__ __forceinline__ void add_atomically(float* target, const float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) atomicAdd(target + i, sums[i]);
}

// Four consecutive values of A in single precision; the address is a multiple of four values.
__device__ __forceinline__ void load_four(float (&values)[4], const float* source) {
    const float4 raw = __ldg(reinterpret_cast<const float4*>(source));
    values[0] = raw.x, values[1] = raw.y, values[2] = raw.z, values[3] = raw.w;
}
__device__ __forceinline__ void load_four(float (&values)[4], const half* source) {
    const uint2 raw = __ldg(reinterpret_cast<const uint2*>(source));
    const float2 low = __half22float2(reinterpret_cast<const __half2&>(raw.x));
    const float2 high = __half22float2(reinterpret_cast<const __half2&>(raw.y));
    values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
}

// Four neighbouring entries of A; those outside start to end - 1 are ignored.
template <typename T>
struct FourEntries {
    int columns[4];
    float values[4];

    __device__ __forceinline__ void load(
        const int* __restrict__ indices, const T* __restrict__ data, int first, int start, int end) {
        const int4 ids = __ldg(reinterpret_cast<const int4*>(indices + first));
        columns[0] = ids.x, columns[1] = ids.y, columns[2] = ids.z, columns[3] = ids.w;
        load_four(values, data + first);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first + j < start || first + j >= end) columns[j] = -1;
        }
    }
};

}  // namespace tile
