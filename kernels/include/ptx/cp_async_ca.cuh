#pragma once
// Asynchronous copies through L1 (PTX ISA, section "cp.async"); groups and waits are those of
// ptx/cp_async.cuh.

namespace ptx {

// cp.async.ca.shared.global 16: 16 bytes, both addresses 16-byte aligned, cached at all levels
__device__ __forceinline__ void cp_async_16_cached(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
}

// cp.async.ca.shared.global 8: the same for 8 bytes, at addresses that are multiples of 8
__device__ __forceinline__ void cp_async_8_cached(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
}

// cp.async.ca.shared.global 4: the same for 4 bytes, at addresses that are multiples of 4
__device__ __forceinline__ void cp_async_4_cached(void* shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
}

}  // namespace ptx
