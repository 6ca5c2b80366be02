#pragma once
// An arrival counter in global memory (PTX ISA, section "atom"). A thread that reads the count and then fences sees all
// writes that this thread made, or synchronised with, before the increment. __threadfence() before an atomicInc
// guarantees the same, but also invalidates the L1 cache of the multiprocessor.

namespace ptx {

// atom.inc.release.gpu.global.u32: counts up to `last`, then from 0 again; returns the previous count
__device__ __forceinline__ unsigned atomic_inc_release(unsigned* count, unsigned last) {
    unsigned before;
    asm volatile("atom.inc.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
    return before;
}

}  // namespace ptx
