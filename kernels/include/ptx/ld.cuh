#pragma once
// Loads that the assembler keeps where they are written (PTX ISA, section "ld"): ordinary ones it moves down to where
// their values are used, which undoes a prefetch into registers.

namespace ptx {

// ld.relaxed.gpu.global.L1::no_allocate.v4.u32: 16 bytes, past the first-level cache
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
