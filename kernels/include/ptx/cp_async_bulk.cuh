#pragma once
// Copies of contiguous bytes into shared memory by the copy engine (PTX ISA, section "cp.async.bulk").

namespace ptx {

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes: addresses and `bytes` are multiples of 16; the bytes
// arrive at `barrier`
__device__ __forceinline__ void cp_async_bulk(void* shared, const void* global, int bytes, unsigned long long* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(global), "r"(bytes), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier)))
        : "memory");
}

}  // namespace ptx
