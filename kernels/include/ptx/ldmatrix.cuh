#pragma once
// Loading 8×8 matrices of 16-bit values from shared memory into mma fragments (PTX ISA, section "ldmatrix").
// Lane l passes the address of row l % 8 of matrix l / 8; rows are 16 bytes and 16-byte aligned.

namespace ptx {

// ldmatrix.sync.aligned.m8n8.x2.shared.b16: lanes 0..15 give the addresses
__device__ __forceinline__ void ldmatrix_x2(unsigned (&d)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.shared.b16: all lanes give the addresses
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
}

}  // namespace ptx
