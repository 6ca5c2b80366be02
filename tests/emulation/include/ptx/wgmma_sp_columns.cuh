#pragma once
#include "ptx/wgmma_columns.cuh"
namespace ptx {

template <int selector>
inline void wgmma_sp_m64n64k32_f16_f16(
    unsigned (&d)[16], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
    static_assert(selector == 0, "the emulation has no other");
    emulation::multiply_sparse<__half, 16>(d, a, b, metadata);
}
template <int selector>
inline void wgmma_sp_m64n128k32_f16_f16(
    unsigned (&d)[32], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
    static_assert(selector == 0, "the emulation has no other");
    emulation::multiply_sparse<__half, 32>(d, a, b, metadata);
}
template <int selector>
inline void wgmma_sp_m64n128k32_f32_f16(
    float (&d)[64], const unsigned (&a)[4], unsigned long long b, unsigned metadata) {
    static_assert(selector == 0, "the emulation has no other");
    emulation::multiply_sparse<float, 64>(d, a, b, metadata);
}

}  // namespace ptx
