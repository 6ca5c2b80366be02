#pragma once
// Loads that the assembler does not move (PTX ISA, section "ld"). It moves ordinary loads down to the first use of
// their values, which undoes a prefetch into registers.

namespace ptx {

// ld.relaxed.gpu.global.L1::no_allocate.v4.u32: 16 bytes, not allocated in L1
__device__ __forceinline__ uint4 load_here(const uint4* global) {
    uint4 x;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(global)
                 : "memory");
    return x;
}

// ld.relaxed.gpu.global.L1::no_allocate.u32: the same for four bytes
__device__ __forceinline__ unsigned load_here(const unsigned* global) {
    unsigned x;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.u32 %0, [%1];" : "=r"(x) : "l"(global) : "memory");
    return x;
}

}  // namespace ptx
