#pragma once
// Sparse tensor-core products D = A·B + D of one warp with TF32 operands, A with one value in every pair of columns
// (PTX ISA, section "Warp-level matrix multiply-accumulate with sparse matrix A").
//
// Fragments of m16n8k16, for lane l with g = l / 4 and t = l % 4; a register of A is the value of one pair:
//   a[0] row g, pair t       a[1] row g+8, pair t       a[2] row g, pair t+4       a[3] row g+8, pair t+4
//   b[i] (t + 4i, g)                                    B is 16×8, column-major
//   d    (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)        D is 16×8
//
// Metadata is four bits a value: 0100 for the first column of its pair, 1110 for the second, no other. The first pair
// of a word takes its lowest four bits. Rows g in the low half of a word, g+8 in the high half: lane 4g + 2 selector
// supplies pairs 0 to 3, the next lane pairs 4 to 7. Words of other lanes are ignored.

namespace ptx {

// mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k16_f32_tf32(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    static_assert(0 <= selector && selector < 2, "the selector of m16n8k16 with TF32 is 0 to 1");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(selector));
}

}  // namespace ptx
