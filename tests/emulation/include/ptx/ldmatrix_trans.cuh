#pragma once
#include "ptx/ldmatrix.cuh"
namespace ptx {

inline void ldmatrix_x4_trans(unsigned (&d)[4], const void* row) { emulated_ldmatrix(d, row, true); }

}  // namespace ptx
