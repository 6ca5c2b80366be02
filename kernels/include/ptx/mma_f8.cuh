#pragma once
// Tensor-core products D = A·B + D of one warp with 8-bit operands, on sm_89 and later (PTX ISA, section "Warp-level
// matrix multiply-accumulate instructions: mma").
//
// Fragments for lane l with g = l / 4 and t = l % 4; a register is four values that follow each other along k:
//   a[0] (g, 4t…)  a[1] (g+8, 4t…)  a[2] (g, 4t+16…)  a[3] (g+8, 4t+16…)
//   b[0] (4t…, g)  b[1] (4t+16…, g)
//   d as in ptx/mma.cuh

namespace ptx {

// mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
__device__ __forceinline__ void mma_m16n8k32_f32_e4m3(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ptx
