#pragma once
#include "ptx/fragments.cuh"
namespace ptx {

inline void mma_m16n8k8_f32_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    emulation::multiply_32<2>(d, a, b);
}

}  // namespace ptx
