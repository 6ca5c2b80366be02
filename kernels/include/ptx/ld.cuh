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

// ld.relaxed.gpu.global.L1::no_allocate.v2.u64: the same, as two words of 8 bytes
__device__ __forceinline__ ulonglong2 load_here(const ulonglong2* global) {
    ulonglong2 x;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];"
                 : "=l"(x.x), "=l"(x.y)
                 : "l"(global)
                 : "memory");
    return x;
}

// ld.relaxed.gpu.global.L1::no_allocate.u64: the same for eight bytes
__device__ __forceinline__ unsigned long long load_here(const unsigned long long* global) {
    unsigned long long x;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.u64 %0, [%1];" : "=l"(x) : "l"(global) : "memory");
    return x;
}

// ld.relaxed.gpu.global.L1::no_allocate.u32: the same for four bytes
__device__ __forceinline__ unsigned load_here(const unsigned* global) {
    unsigned x;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.u32 %0, [%1];" : "=r"(x) : "l"(global) : "memory");
    return x;
}

}  // namespace ptx
