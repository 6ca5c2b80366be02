#pragma once
// Asynchronous copies from global to shared memory (PTX ISA, section "Data movement: cp.async").

namespace ptx {

// cp.async.cg.shared.global 16: 16 bytes, both addresses 16-byte aligned, bypassing L1
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
}

// The same if `wanted`; otherwise the source size is 0, nothing is read and 16 zero bytes are written.
__device__ __forceinline__ void cp_async_16_or_zero(void* shared, const void* global, bool wanted) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(wanted ? 16 : 0)
                 : "memory");
}

// cp.async.commit_group: the copies that this thread has issued since the last commit become one group
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// cp.async.wait_group: waits until at most `pending` of this thread's latest groups are in flight
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace ptx
