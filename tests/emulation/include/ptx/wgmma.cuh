#pragma once
// Products of a warpgroup are computed warp by warp, at once.
namespace ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
// All lanes have read their operands.
template <int pending>
inline void wgmma_wait() {
    __syncwarp();
}

// A descriptor is an address, with units of 16 bytes of one distance from bit 48 on and of another one from bit 56 on.
inline unsigned long long emulated_descriptor(const void* shared, int distance, int other) {
    if (distance % 16 || other % 16 || distance >= 4096 || other >= 4096) emulation::fail("no distance of a descriptor");
    return reinterpret_cast<std::size_t>(shared) | static_cast<unsigned long long>(distance / 16) << 48 |
           static_cast<unsigned long long>(other / 16) << 56;
}
inline unsigned long long wgmma_descriptor(const void* shared, int along_k, int along_rows) {
    return emulated_descriptor(shared, along_k, along_rows);
}

}  // namespace ptx

namespace emulation {

// What a descriptor says.
struct Described {
    const char* first;
    int distance, other;

    explicit Described(unsigned long long descriptor)
        : first(reinterpret_cast<const char*>(descriptor & ((1ull << 48) - 1))),
          distance(16 * (descriptor >> 48 & 255)),
          other(16 * (descriptor >> 56)) {}
    template <class Number>
    Number at(std::size_t byte) const {
        Number value;
        std::memcpy(&value, first + byte, sizeof value);
        return value;
    }
};

// d = A·B, or d += A·B, for the rows of a warp: `a_of(row, k)`, with rows of the warpgroup, and `b_of(k, column)`.
template <int K, int SUMS, class OfA, class OfB>
inline void multiply_group(float (&d)[SUMS], bool add, const OfA& a_of, const OfB& b_of) {
    const int first = current->warp % 4 * 16 + current->lane / 4, t = current->lane % 4;
    for (int i = 0; i < SUMS; ++i) {
        const int row = first + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * t + i % 2;
        double sum = 0;
        for (int k = 0; k < K; ++k) sum += static_cast<double>(a_of(row, k)) * b_of(k, column);
        d[i] = static_cast<float>((add ? d[i] : 0) + sum);
    }
}

}  // namespace emulation
