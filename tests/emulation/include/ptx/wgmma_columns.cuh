#pragma once
// A descriptor is the address itself.
namespace ptx {

inline unsigned long long wgmma_columns_64_descriptor(const void* shared) {
    return reinterpret_cast<std::size_t>(shared);
}

}  // namespace ptx

namespace emulation {

// Element k of a column of a box.
inline float of_column(unsigned long long box, int k, int column) {
    const std::size_t at = box + 64 * column + 2 * k;
    return __half2float(*reinterpret_cast<const __half*>(at ^ (at >> 7 & 3) << 4));
}

inline void add_to(float& sum, double product) { sum = static_cast<float>(sum + product); }
inline void add_to(__half& sum, double product) { sum = __float2half(static_cast<float>(__half2float(sum) + product)); }

// d += A·B for the sixteen rows of a warp and N columns; `row_of(registers, row, at)` calls `at(k, value)` for each value of
// a row of A. Number is the type of the sums.
template <class Number, int REGISTERS, class Operand, class RowOf>
inline void multiply_columns(void* d, const Operand& own, unsigned long long box, const RowOf& row_of) {
    constexpr int COLUMNS = 2 * 4 * REGISTERS / static_cast<int>(sizeof(Number));
    const auto lanes = exchange(~0u, &own);
    float a[2][32] = {};
    const int g = current->lane / 4, t = current->lane % 4;
    for (int lower = 0; lower < 2; ++lower) {
        row_of(lanes, g, lower, [&](int k, float value) { a[lower][k] += value; });
    }
    exchange(~0u, 0);
    Number* sums = static_cast<Number*>(d);
    for (int column = 0; column < COLUMNS; column += 8) {
        for (int lower = 0; lower < 2; ++lower) {
            for (int i = 0; i < 2; ++i, ++sums) {
                double sum = 0;
                for (int k = 0; k < 32; ++k) {
                    if (a[lower][k] != 0) sum += static_cast<double>(a[lower][k]) * of_column(box, k, column + 2 * t + i);
                }
                add_to(*sums, sum);
            }
        }
    }
}

inline float half_of(unsigned pair, int which) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16 * which)));
}

struct DenseRows {
    const unsigned (&a)[4];
};
// Registers of m16n8k16.
template <class Number, int REGISTERS>
inline void multiply_dense(void* d, const unsigned (&a)[4], unsigned long long box) {
    const DenseRows own = {a};
    multiply_columns<Number, REGISTERS>(d, own, box, [](const auto& lanes, int g, int lower, const auto& at) {
        for (int k = 0; k < 16; ++k) at(k, half_of(lanes[4 * g + k % 8 / 2]->a[lower + k / 8 * 2], k % 2));
    });
}

struct SparseRows {
    const unsigned (&a)[4];
    unsigned metadata;
};
// Registers and metadata of the sparse m16n8k32, with selector 0.
template <class Number, int REGISTERS>
inline void multiply_sparse(void* d, const unsigned (&a)[4], unsigned long long box, unsigned metadata) {
    const SparseRows own = {a, metadata};
    multiply_columns<Number, REGISTERS>(d, own, box, [](const auto& lanes, int g, int lower, const auto& at) {
        for (int group = 0; group < 8; ++group) {
            const unsigned word = lanes[4 * g + group / 4]->metadata >> (16 * lower + 4 * (group % 4));
            if ((word & 3) >= (word >> 2 & 3)) fail("metadata does not increase within a group");
            for (int i = 0; i < 2; ++i) {
                at(4 * group + (word >> 2 * i & 3), half_of(lanes[4 * g + group % 4]->a[lower + group / 4 * 2], i));
            }
        }
    });
}

}  // namespace emulation
