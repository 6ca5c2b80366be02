#pragma once
// Loads of data that nobody writes while the kernel runs, which the assembler keeps in the order in which they are
// written (PTX ISA, section "ld.global.nc"): it moves ordinary ones down to where their values are used, one wait each.

namespace ptx {

// ld.global.nc.f64: kept in the first-level cache
__device__ __forceinline__ double load_cached(const double* global) {
    double x;
    asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(x) : "l"(global));
    return x;
}

// ld.global.nc.L1::no_allocate.L2::128B.f64: read once, and the rest of its line soon
__device__ __forceinline__ double load_streamed(const double* global) {
    double x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.f64 %0, [%1];" : "=d"(x) : "l"(global));
    return x;
}

// ld.global.nc.L1::no_allocate.L2::128B.s32: the same for four bytes
__device__ __forceinline__ int load_streamed(const int* global) {
    int x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.s32 %0, [%1];" : "=r"(x) : "l"(global));
    return x;
}

}  // namespace ptx
