#pragma once
#include "ptx/wgmma_columns.cuh"
namespace ptx {

inline void wgmma_m64n64k16_f16_f16_registers(unsigned (&d)[16], const unsigned (&a)[4], unsigned long long b) {
    emulation::multiply_dense<__half, 16>(d, a, b);
}
inline void wgmma_m64n128k16_f16_f16_registers(unsigned (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    emulation::multiply_dense<__half, 32>(d, a, b);
}
inline void wgmma_m64n128k16_f32_f16_registers(float (&d)[64], const unsigned (&a)[4], unsigned long long b) {
    emulation::multiply_dense<float, 64>(d, a, b);
}

}  // namespace ptx
