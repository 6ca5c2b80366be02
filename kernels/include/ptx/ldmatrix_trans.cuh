#pragma once
// Loading 8×8 matrices of 16-bit values from shared memory, each transposed on its way (PTX ISA, section "ldmatrix").
// Addresses as in ptx/ldmatrix.cuh; lane 4g + t then holds column g of a matrix at rows 2t and 2t + 1.

namespace ptx {

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16: all lanes give the addresses
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

}  // namespace ptx
