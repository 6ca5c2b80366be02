#pragma once
// Copies of boxes of a matrix into shared memory by the copy engine (PTX ISA, sections "cp.async.bulk.tensor" and
// "Tensor"). A box lies in shared memory row by row; with the swizzle of 128 bytes, whose rows are 128 bytes and whose
// boxes begin at multiples of 1024, unit u of 16 bytes of row r lies at position u ^ (r % 8). Elements outside the
// matrix arrive as zeros.

namespace ptx {

// The result of the driver's cuTensorMapEncodeTiled, passed by value as a __grid_constant__.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

// cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes: the box whose first element is (row,
// column); its bytes arrive at `barrier`
__device__ __forceinline__ void tma_load(
    void* shared, const TensorMap& map, int row, int column, unsigned long long* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(&map), "r"(column), "r"(row), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier)))
        : "memory");
}

// The same with .multicast::cluster: to the same offset in the shared memory of every CTA of the cluster whose bit is
// set in `ctas`, with arrival at the barrier at the same offset there
__device__ __forceinline__ void tma_load_multicast(
    void* shared, const TensorMap& map, int row, int column, unsigned long long* barrier, unsigned short ctas) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(&map), "r"(column), "r"(row), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "h"(ctas)
        : "memory");
}

}  // namespace ptx
