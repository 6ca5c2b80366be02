#pragma once
// Products of fragments m16n8k8 in TF32 with FP32 sums, for operands in TF32 or, by three products, in FP32.

#include "ptx/mma_tf32.cuh"

namespace tile {

// The exact difference between an FP32 number and its TF32 value: tensor cores drop the last 13 bits.
__device__ __forceinline__ unsigned rest(unsigned x) {
    return __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
}

// D += A·B. With PRODUCTS = 3, operands in FP32 are split into a TF32 value and a rest. Of their four products, that of
// both rests is omitted. It is 2⁻²⁰ of the product at most, and the last bits of a rest are dropped: relative errors are
// four to five times those of FP32 (4.1e-7 instead of 0.8e-7 in the median of 894 recorded cases).
template <int PRODUCTS>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (PRODUCTS == 3) {
        const unsigned low_a[4] = {rest(a[0]), rest(a[1]), rest(a[2]), rest(a[3])}, low_b[2] = {rest(b[0]), rest(b[1])};
        ptx::mma_m16n8k8_f32_tf32(d, low_a, b);
        ptx::mma_m16n8k8_f32_tf32(d, a, low_b);
    }
    ptx::mma_m16n8k8_f32_tf32(d, a, b);
}

}  // namespace tile
