#pragma once
#include "ptx/fragments.cuh"
namespace ptx {

inline void mma_m16n8k16_f32_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    emulation::multiply_16(d, a, b, emulation::bf16);
}

}  // namespace ptx
