#pragma once
// CTAs of one cluster (PTX ISA, sections "%cluster_ctarank" and "barrier.cluster").

namespace ptx {

// %cluster_ctarank
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// barrier.cluster.arrive.release and barrier.cluster.wait.acquire: waits for all threads of all CTAs of the cluster
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace ptx
