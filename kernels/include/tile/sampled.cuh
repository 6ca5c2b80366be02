#pragma once
// Sampled products on tensor cores: values of X and Y in 16 bytes, their products as fragments, and results as stored.
//
// Both operands of X·Yᵀ are read along their rows. A product of fragments sums over k in any order, as long as X and Y
// have the same one, so the 16 bytes that a lane loads are its operands as they are:
//
//   rows of Y    lane 4g + t: 16 bytes of rows g and g + 8
//   rows of X    lane 4g + t: 16 bytes of row g
//   sums         lane 4g + t: rows g and g + 8 of Y with rows 2t and 2t + 1 of X

#include "tile/multiply_16.cuh"
#include "tile/multiply_tf32.cuh"

namespace tile {

struct Tf32 {};
// FP32 by three products in TF32.
struct F32 {};

// How results of a dtype are stored, and how sums become them.
template <class Values>
struct Result {
    using Stored = unsigned short;
    static __device__ __forceinline__ Stored of(float sum) {
        return static_cast<unsigned short>(Values::pack(sum, 0.0f));
    }
};
struct FloatResult {
    using Stored = float;
    static __device__ __forceinline__ Stored of(float sum) { return sum; }
};
template <>
struct Result<Tf32> : FloatResult {};
template <>
struct Result<F32> : FloatResult {};

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Tf32) {
    multiply<1>(d, a, b);
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], F32) {
    multiply<3>(d, a, b);
}

// Add the products of what the lanes loaded.
template <class Values>
__device__ __forceinline__ void multiply_loaded(float (&sums)[4], const uint4 (&y)[2], const uint4& x, Values values) {
    multiply(sums, {y[0].x, y[1].x, y[0].y, y[1].y}, {x.x, x.y}, values);
    multiply(sums, {y[0].z, y[1].z, y[0].w, y[1].w}, {x.z, x.w}, values);
}

// Tensor cores truncate sums instead of rounding them, so for FP32 they only add up what was loaded at a time.
__device__ __forceinline__ void multiply_loaded(float (&sums)[4], const uint4 (&y)[2], const uint4& x, F32) {
    float loaded[4] = {};
    multiply(loaded, {y[0].x, y[1].x, y[0].y, y[1].y}, {x.x, x.y}, F32{});
    multiply(loaded, {y[0].z, y[1].z, y[0].w, y[1].w}, {x.z, x.w}, F32{});
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += loaded[i];
}

// 16 bytes of a row of X or Y, or zeros.
template <class Stored>
__device__ __forceinline__ uint4 load_16(const Stored* from, bool wanted) {
    uint4 loaded = {};
    if (wanted) loaded = __ldg(reinterpret_cast<const uint4*>(from));
    return loaded;
}

}  // namespace tile
