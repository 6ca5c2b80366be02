#pragma once
// Exchange between lanes (PTX ISA, section "shfl.sync").

namespace ptx {

// shfl.sync.bfly.b32: x of the lane whose number differs in the bits of `mask`. The compiler's own function takes whole
// numbers. A sum of an asynchronous product that it meets becomes one, by a copy in each loop that carries it, and the
// assembler then waits for each product at once.
__device__ __forceinline__ float shfl_bfly(float x, int mask) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}

}  // namespace ptx
