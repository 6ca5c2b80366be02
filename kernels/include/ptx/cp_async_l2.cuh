#pragma once
// Asynchronous copies that also prefetch the rest of the line into L2 (PTX ISA, section "cp.async"); groups and waits
// are those of ptx/cp_async.cuh.

namespace ptx {

// cp.async.cg.shared.global.L2::128B: 16 bytes if `wanted`; otherwise the source size is 0, nothing is read and 16 zero
// bytes are written
__device__ __forceinline__ void cp_async_16_line_or_zero(void* shared, const void* global, bool wanted) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(wanted ? 16 : 0)
                 : "memory");
}

// cp.async.ca.shared.global.L2::128B: the same through L1
__device__ __forceinline__ void cp_async_16_line_cached_or_zero(void* shared, const void* global, bool wanted) {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(wanted ? 16 : 0)
                 : "memory");
}

// The same for 8 bytes, at addresses that are multiples of 8; a copy that bypasses L1 has 16.
__device__ __forceinline__ void cp_async_8_line_cached_or_zero(void* shared, const void* global, bool wanted) {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(wanted ? 8 : 0)
                 : "memory");
}

}  // namespace ptx
