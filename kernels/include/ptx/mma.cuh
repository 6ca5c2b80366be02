#pragma once
// Dense tensor-core products D = A·B + D of one warp (PTX ISA, section "Warp-level matrix multiply-accumulate").
//
// Fragments of m16n8k16 with 16-bit operands, for lane l with g = l / 4 and t = l % 4 (two values a register):
//   a[0] (g, 2t) a[1] (g+8, 2t) a[2] (g, 2t+8) a[3] (g+8, 2t+8)     A is 16×16, row-major
//   b[0] (2t, g) b[1] (2t+8, g)                                     B is 16×8, column-major
//   d    (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)                    D is 16×8
//
// Fragments of m16n8k4 with TF32 operands, one value a register; d as above:
//   a[0] (g, t) a[1] (g+8, t)                                       A is 16×4, row-major
//   b[0] (t, g)                                                     B is 4×8, column-major

namespace ptx {

// mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
__device__ __forceinline__ void mma_m16n8k16_f16_f16(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
__device__ __forceinline__ void mma_m16n8k16_f32_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32
__device__ __forceinline__ void mma_m16n8k4_f32_tf32(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
    asm volatile(
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

}  // namespace ptx
