#pragma once
// Fence between this thread's accesses to shared memory and those of asynchronous products (PTX ISA, section
// "membar/fence"). Without a state space, as in ptx/wgmma.cuh, it also waits for all accesses to global memory.

namespace ptx {

// fence.proxy.async.shared::cta
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace ptx
