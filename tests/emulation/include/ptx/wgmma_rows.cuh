#pragma once
#include "ptx/wgmma.cuh"
namespace ptx {

inline unsigned long long wgmma_rows_descriptor(const void* shared, int box) {
    if (reinterpret_cast<std::size_t>(shared) % 1024) emulation::fail("rows of B do not begin at a multiple of 1024");
    return emulated_descriptor(shared, box / 16, 0);
}

namespace emulated {

// A in core matrices, B in boxes of 64 columns.
template <int SUMS, class Number, class Widen>
inline void multiply_rows(
    float (&d)[SUMS], unsigned long long of_a, unsigned long long of_b, bool add, const Widen& widen) {
    const emulation::Described a(of_a), b(of_b);
    const auto a_of = [&](int row, int k) {
        return widen(a.at<Number>(row / 8 * a.other + k / 8 * a.distance + row % 8 * 16 + k % 8 * 2));
    };
    const auto b_of = [&](int k, int column) {
        const int unit = column % 64 / 8 ^ k % 8;
        return widen(b.at<Number>(column / 64 * 16 * b.distance + k * 128 + unit * 16 + column % 8 * 2));
    };
    emulation::multiply_group<16>(d, add, a_of, b_of);
}
template <int SUMS>
inline void multiply_f16(float (&d)[SUMS], unsigned long long a, unsigned long long b, bool add) {
    multiply_rows<SUMS, __half>(d, a, b, add, [](__half x) { return __half2float(x); });
}
template <int SUMS>
inline void multiply_bf16(float (&d)[SUMS], unsigned long long a, unsigned long long b, bool add) {
    multiply_rows<SUMS, __nv_bfloat16>(d, a, b, add, [](__nv_bfloat16 x) { return __bfloat162float(x); });
}

}  // namespace emulated

inline void wgmma_m64n128k16_f32_f16_rows(float (&d)[64], unsigned long long a, unsigned long long b, bool add) {
    emulated::multiply_f16(d, a, b, add);
}
inline void wgmma_m64n256k16_f32_f16_rows(float (&d)[128], unsigned long long a, unsigned long long b, bool add) {
    emulated::multiply_f16(d, a, b, add);
}
inline void wgmma_m64n128k16_f32_bf16_rows(float (&d)[64], unsigned long long a, unsigned long long b, bool add) {
    emulated::multiply_bf16(d, a, b, add);
}
inline void wgmma_m64n256k16_f32_bf16_rows(float (&d)[128], unsigned long long a, unsigned long long b, bool add) {
    emulated::multiply_bf16(d, a, b, add);
}

}  // namespace ptx
