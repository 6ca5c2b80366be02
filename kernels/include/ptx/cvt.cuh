#pragma once
// Rounding to the operand formats of tensor cores (PTX ISA, section "cvt").

namespace ptx {

// cvt.rna.tf32.f32: to 10 fraction bits, nearest, halves away from zero
__device__ __forceinline__ unsigned cvt_rna_tf32(float value) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded;
}

}  // namespace ptx
