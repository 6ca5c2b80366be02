#pragma once
// Loads of data that nobody writes while the kernel runs; the assembler keeps their order (PTX ISA, section
// "ld.global.nc"). It moves ordinary loads down to the first use of their values, with one wait each.

namespace ptx {

// ld.global.nc.f64: cached in L1
__device__ __forceinline__ double load_cached(const double* global) {
    double x;
    asm volatile("ld.global.nc.f64 %0, [%1];" : "=d"(x) : "l"(global));
    return x;
}

// ld.global.nc.L1::no_allocate.L2::128B.f64: for data that is read once and whose line is read soon
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
