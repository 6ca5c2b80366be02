#pragma once
// Barriers in shared memory that count arrivals and bytes (PTX ISA, section "mbarrier"). Phases alternate: a wait for
// parity p returns once the phase of that parity is over. On a fresh barrier a wait for parity 1 returns at once.

namespace ptx {

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// mbarrier.init.shared::cta.b64: a phase is over after `count` arrivals and all bytes that they expect
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

// fence.mbarrier_init.release.cluster: makes initialised barriers visible to the cluster and to copies
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.expect_tx.shared::cta.b64: one arrival, and `bytes` more to wait for
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned long long* barrier, int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
        : "memory");
}

// mbarrier.arrive.shared::cluster.b64: one arrival at the barrier of CTA `rank` of the cluster; it orders
// only memory of this CTA, so the compiler puts no device-wide fence before it
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier, int rank) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// mbarrier.try_wait.parity.shared::cta.b64, until it succeeds
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, int parity) {
    asm volatile(
        "{\n.reg .pred over;\nagain_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again_%=;\n}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

}  // namespace ptx
