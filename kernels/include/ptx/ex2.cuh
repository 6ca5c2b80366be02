#pragma once
// Powers of two (PTX ISA, section "ex2").

namespace ptx {

// ex2.approx.ftz.f32: 2 to the power of x, within 2 units in the last place; 0 for -infinity
__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace ptx
