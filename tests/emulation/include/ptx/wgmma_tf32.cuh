#pragma once
#include "ptx/fragments.cuh"
#include "ptx/wgmma.cuh"
namespace ptx {

inline unsigned long long wgmma_columns_32_descriptor(const void* shared, int eight_columns) {
    if (reinterpret_cast<std::size_t>(shared) % 256) emulation::fail("columns of B do not begin at a multiple of 256");
    return emulated_descriptor(shared, eight_columns, 0);
}

inline void wgmma_m64n64k8_f32_tf32_registers(
    float (&d)[32], const unsigned (&a)[4], unsigned long long of_b, bool add) {
    const auto lanes = emulation::exchange(~0u, &a);
    float rows[16][8];
    for (int row = 0; row < 16; ++row) {
        for (int k = 0; k < 8; ++k) rows[row][k] = emulation::tf32((*lanes[row % 8 * 4 + k % 4])[row / 8 + k / 4 * 2]);
    }
    emulation::exchange(~0u, 0);
    const emulation::Described b(of_b);
    const auto a_of = [&](int row, int k) { return rows[row % 16][k]; };
    const auto b_of = [&](int k, int column) {
        const int half = k / 4 ^ column % 8 / 4;
        return emulation::tf32(b.at<unsigned>(column / 8 * b.distance + column % 8 * 32 + half * 16 + k % 4 * 4));
    };
    emulation::multiply_group<8>(d, add, a_of, b_of);
}

}  // namespace ptx
