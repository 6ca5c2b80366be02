#pragma once
// A counter in global memory for those who share a sum (PTX ISA, section "atom"). What the thread wrote before, and what
// it knows of from a barrier, is seen by whoever reads the count and then fences. __threadfence() before an atomicInc
// says the same, but empties the first-level cache of the multiprocessor besides.

namespace ptx {

// atom.inc.release.gpu.global.u32: counts up to `last`, then from 0 again; returns the count before
__device__ __forceinline__ unsigned atomic_inc_release(unsigned* count, unsigned last) {
    unsigned before;
    asm volatile("atom.inc.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
    return before;
}

}  // namespace ptx
