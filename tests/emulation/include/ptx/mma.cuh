#pragma once
#include "ptx/fragments.cuh"
namespace ptx {

inline void mma_m16n8k16_f32_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    emulation::multiply_16(d, a, b, emulation::f16);
}
inline void mma_m16n8k4_f32_tf32(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
    emulation::multiply_32<1>(d, a, b);
}

}  // namespace ptx
