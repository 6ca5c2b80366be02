#pragma once
// Dense tensor-core products D = A·B + D of one warp in double precision, from sm_90 on, with eight times the
// multiplications of m8n8k4 (PTX ISA, section "Warp-level matrix multiply-accumulate").
//
// Fragments of m16n8k16, for lane l with g = l / 4 and t = l % 4:
//   a[2i] (g, t+4i) a[2i+1] (g+8, t+4i)              A is 16×16, row-major
//   b[i]  (t+4i, g)                                  B is 16×8, column-major
//   d     (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)    D is 16×8

namespace ptx {

// mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64
__device__ __forceinline__ void mma_m16n8k16_f64(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

}  // namespace ptx
