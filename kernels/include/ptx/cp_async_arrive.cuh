#pragma once
// Arrival of asynchronous copies at a barrier (PTX ISA, section "cp.async.mbarrier.arrive").

namespace ptx {

// cp.async.mbarrier.arrive.noinc.shared::cta.b64: one arrival, of those that the barrier was initialised with, once all
// earlier cp.async of this thread are complete
__device__ __forceinline__ void cp_async_arrive(unsigned long long* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(barrier)))
                 : "memory");
}

}  // namespace ptx
