#pragma once
// Loads that stay where they are written (PTX ISA, section "ld.global.nc").

namespace ptx {

// ld.global.nc.L1::no_allocate.v4.u32: 16 bytes that nobody writes and that are not needed again, past the first-level
// cache
__device__ __forceinline__ uint4 load_once(const uint4* global) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(global));
    return x;
}

// ld.global.nc.L1::no_allocate.u32: the same for four bytes
__device__ __forceinline__ unsigned load_once(const unsigned* global) {
    unsigned x;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(x) : "l"(global));
    return x;
}

}  // namespace ptx
