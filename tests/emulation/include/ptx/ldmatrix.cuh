#pragma once
namespace ptx {

// Matrix `number` of those whose rows the lanes point at: the pair of this lane, of the matrix or its transpose.
inline unsigned emulated_ldmatrix(const emulation::Given<const void*>& rows, int number, bool transposed) {
    const int r = emulation::current->lane / 4, c = emulation::current->lane % 4;
    const auto element = [&](int row, int column) {
        return unsigned(static_cast<const unsigned short*>(rows[8 * number + row])[column]);
    };
    return transposed ? element(2 * c, r) | element(2 * c + 1, r) << 16 : element(r, 2 * c) | element(r, 2 * c + 1) << 16;
}
template <int COUNT>
inline void emulated_ldmatrix(unsigned (&d)[COUNT], const void* row, bool transposed) {
    if (reinterpret_cast<std::size_t>(row) % 16) emulation::fail("a row of ldmatrix is not aligned to 16 bytes");
    const auto rows = emulation::exchange(~0u, row);
    for (int i = 0; i < COUNT; ++i) d[i] = emulated_ldmatrix(rows, i, transposed);
    emulation::exchange(~0u, 0);
}
inline void ldmatrix_x2(unsigned (&d)[2], const void* row) { emulated_ldmatrix(d, row, false); }
inline void ldmatrix_x4(unsigned (&d)[4], const void* row) { emulated_ldmatrix(d, row, false); }

}  // namespace ptx
