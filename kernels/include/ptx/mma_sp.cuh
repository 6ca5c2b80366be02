#pragma once
// Sparse tensor-core products D = A·B + D of one warp, A with two values in every group of four columns (PTX ISA,
// section "Warp-level matrix multiply-accumulate with sparse matrix A").
//
// Fragments for lane l with g = l / 4 and t = l % 4; a register of A is the two values of one group, in column order:
//   m16n8k16  a[0] row g, group t       a[1] row g+8, group t
//   m16n8k32  a[0] row g, group t       a[1] row g+8, group t       a[2] row g, group t+4       a[3] row g+8, group t+4
//   b[i] (2t + 8i, g) and the value below it, d as in mma.cuh
//
// Metadata is two bits a value, its column within the group, the smaller column first; the first group of a word takes
// its lowest four bits. Rows g in the low half of a word, g+8 in the high half:
//   m16n8k16  lane 4g + selector supplies groups 0 to 3
//   m16n8k32  lane 4g + 2 selector supplies groups 0 to 3, the next lane groups 4 to 7
// Words of other lanes are ignored.

namespace ptx {

// mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k16_f16_f16(
    unsigned (&d)[2], const unsigned (&a)[2], const unsigned (&b)[2], unsigned metadata) {
    static_assert(0 <= selector && selector < 4, "the selector of m16n8k16 is 0 to 3");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, "
        "{%2, %3}, {%4, %5}, {%0, %1}, %6, %7;"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]),
          "r"(b[0]), "r"(b[1]),
          "r"(metadata), "n"(selector));
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k16_f32_f16(
    float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[2], unsigned metadata) {
    static_assert(0 <= selector && selector < 4, "the selector of m16n8k16 is 0 to 3");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, %9;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]),
          "r"(b[0]), "r"(b[1]),
          "r"(metadata), "n"(selector));
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k16_f32_bf16(
    float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[2], unsigned metadata) {
    static_assert(0 <= selector && selector < 4, "the selector of m16n8k16 is 0 to 3");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, %9;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]),
          "r"(b[0]), "r"(b[1]),
          "r"(metadata), "n"(selector));
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k32_f16_f16(
    unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    static_assert(0 <= selector && selector < 2, "the selector of m16n8k32 is 0 to 1");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {%0, %1}, "
        "{%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, %11;"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(selector));
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k32_f32_f16(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    static_assert(0 <= selector && selector < 2, "the selector of m16n8k32 is 0 to 1");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(selector));
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32
template <int selector>
__device__ __forceinline__ void mma_sp_m16n8k32_f32_bf16(
    float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned metadata) {
    static_assert(0 <= selector && selector < 2, "the selector of m16n8k32 is 0 to 1");
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(selector));
}

}  // namespace ptx
