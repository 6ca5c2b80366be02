#pragma once
// Dense tensor-core products D = A·B + D of one warp with TF32 operands, over eight columns of A at once (PTX ISA,
// section "Warp-level matrix multiply-accumulate"); for four columns see ptx/mma.cuh.
//
// Fragments of m16n8k8, for lane l with g = l / 4 and t = l % 4, one value a register:
//   a[0] (g, t) a[1] (g+8, t) a[2] (g, t+4) a[3] (g+8, t+4)         A is 16×8, row-major
//   b[0] (t, g) b[1] (t+4, g)                                       B is 8×8, column-major
//   d    (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)                    D is 16×8

namespace ptx {

// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
__device__ __forceinline__ void mma_m16n8k8_f32_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ptx
