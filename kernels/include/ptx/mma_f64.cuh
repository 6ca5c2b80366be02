#pragma once
// Dense tensor-core products D = A·B + D of one warp in double precision (PTX ISA, section "Warp-level matrix
// multiply-accumulate").
//
// Fragments of m8n8k4, for lane l with g = l / 4 and t = l % 4:
//   a    (g, t)             A is 8×4, row-major
//   b    (t, g)             B is 4×8, column-major
//   d    (g, 2t) (g, 2t+1)  D is 8×8

namespace ptx {

// mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
__device__ __forceinline__ void mma_m8n8k4_f64(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a), "d"(b));
}

}  // namespace ptx
