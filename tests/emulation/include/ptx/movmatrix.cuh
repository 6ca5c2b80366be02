#pragma once
namespace ptx {

inline unsigned movmatrix_trans(unsigned a) {
    const auto given = emulation::exchange(~0u, a);
    const int r = emulation::current->lane / 4, c = emulation::current->lane % 4;
    const auto element = [&](int row, int column) { return given[4 * row + column / 2] >> column % 2 * 16 & 0xffff; };
    return element(2 * c, r) | element(2 * c + 1, r) << 16;
}

}  // namespace ptx
