#pragma once
// Products of fragments, from what all lanes of a warp hold.
namespace emulation {

inline float f16(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }
inline float bf16(unsigned bits) { return __uint_as_float(bits << 16); }
inline float tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }

// d += A·B, where `of_a(registers, row, k)` and `of_b(registers, k, column)` find elements in the registers of their
// lanes. One lane widens the operands of all.
template <int K, int A, int B, class OfA, class OfB>
inline void multiply(
    float (&d)[4], const unsigned (&a)[A], const unsigned (&b)[B], const OfA& of_a, const OfB& of_b) {
    struct Wide {
        const unsigned (&registers_of_a)[A], (&registers_of_b)[B];
        float a[16][K], b[8][K];
    } own = {a, b, {}, {}};
    // Read before this lane waits again: the others may then pass on something else.
    const auto lanes = exchange(~0u, &own);
    if (current->lane == 0) {
        for (int row = 0; row < 16; ++row) {
            for (int k = 0; k < K; ++k) own.a[row][k] = of_a(lanes, row, k);
        }
        for (int column = 0; column < 8; ++column) {
            for (int k = 0; k < K; ++k) own.b[column][k] = of_b(lanes, k, column);
        }
    }
    const Wide& wide = *exchange(~0u, &own)[0];
    const int g = current->lane / 4, t = current->lane % 4;
    for (int i = 0; i < 4; ++i) {
        const float *x = wide.a[g + i / 2 * 8], *y = wide.b[2 * t + i % 2];
        double sum = 0;
        for (int k = 0; k < K; ++k) sum += static_cast<double>(x[k]) * y[k];
        d[i] = static_cast<float>(d[i] + sum);
    }
    exchange(~0u, 0);
}

// m16n8k16 with 16-bit operands.
template <class Widen>
inline void multiply_16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const Widen& widen) {
    multiply<16>(
        d, a, b,
        [&](const auto& lanes, int row, int k) {
            return widen(lanes[row % 8 * 4 + k % 8 / 2]->registers_of_a[row / 8 + k / 8 * 2] >> k % 2 * 16 & 0xffff);
        },
        [&](const auto& lanes, int k, int column) {
            return widen(lanes[column * 4 + k % 8 / 2]->registers_of_b[k / 8] >> k % 2 * 16 & 0xffff);
        });
}

// m16n8k(4·STEPS) with TF32 operands.
template <int STEPS>
inline void multiply_32(float (&d)[4], const unsigned (&a)[2 * STEPS], const unsigned (&b)[STEPS]) {
    multiply<4 * STEPS>(
        d, a, b,
        [](const auto& lanes, int row, int k) { return tf32(lanes[row % 8 * 4 + k % 4]->registers_of_a[row / 8 + k / 4 * 2]); },
        [](const auto& lanes, int k, int column) { return tf32(lanes[column * 4 + k % 4]->registers_of_b[k / 4]); });
}

}  // namespace emulation
