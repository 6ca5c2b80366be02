#pragma once
// Copies of registers (PTX ISA, section "mov").

namespace ptx {

// mov.b64 and mov.b32: the same value. The compiler does not see where it comes from, so it keeps the register instead
// of computing the value again from special registers and parameters wherever it is used.
template <class T>
__device__ __forceinline__ const T* kept(const T* pointer) {
    const T* same;
    asm volatile("mov.b64 %0, %1;" : "=l"(same) : "l"(pointer));
    return same;
}
__device__ __forceinline__ unsigned kept(unsigned number) {
    unsigned same;
    asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(number));
    return same;
}

}  // namespace ptx
