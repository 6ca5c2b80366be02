#pragma once
// Transposing an 8×8 matrix of 16-bit values between the registers of a warp (PTX ISA, section "movmatrix").

namespace ptx {

// movmatrix.sync.aligned.m8n8.trans.b16: lane 4r + c gives row r at columns 2c and 2c + 1, and gets column r at rows 2c
// and 2c + 1; the first of each pair is in the low half
__device__ __forceinline__ unsigned movmatrix_trans(unsigned a) {
    unsigned d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

}  // namespace ptx
