#pragma once
// Sparse tensor-core products D = A·B + D of one warp with 8-bit operands, A with two values in every group of four
// columns, on sm_89 and later (PTX ISA, section "Warp-level matrix multiply-accumulate with sparse matrix A").
//
// Fragments for lane l with g = l / 4 and t = l % 4; a register of A is the four values of two groups, in column order:
//   a[0] row g, groups 2t and 2t+1     a[1] row g+8, the same     a[2] row g, groups 2t+8 and 2t+9     a[3] row g+8
//   b[i] (4t + 16i, g) and the three values below it, d as in ptx/mma.cuh
//
// Metadata is two bits a value, its column within the group, the smaller column first; the first group of a word takes
// its lowest four bits. Every lane supplies one word of eight groups, so that there is no selector:
//   t = 0: row g, groups 0 to 7   t = 1: row g+8, the same   t = 2: row g, groups 8 to 15   t = 3: row g+8

namespace ptx {

// mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32
__device__ __forceinline__ void mma_sp_m16n8k64_f32_e4m3(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata));
}

}  // namespace ptx
