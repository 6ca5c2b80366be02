#pragma once
// Tensor-core products D = A·B + D of one warpgroup in TF32 with FP32 sums, with A in registers and B by columns in shared
// memory (PTX ISA, section "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"). Fences, groups and the
// sums, of which there are 32, are those of ptx/wgmma.cuh. Tensor cores drop the last 13 bits of an operand.
//
// Warp w multiplies rows 16w to 16w+15 of A. With g = lane / 4 and t = lane % 4:
//   a[0] (16w+g, t)  a[1] (16w+g+8, t)  a[2] (16w+g, t+4)  a[3] (16w+g+8, t+4)
//
// B has eight values of each column, 32 bytes, in 256 bytes for eight columns with the swizzle of 32 bytes: the two halves
// of a column c change places where c / 4 is odd.

namespace ptx {

// Matrix descriptor of columns that begin at `shared`, a multiple of 256 bytes; the next eight columns follow at a distance
// of `eight_columns` bytes.
__device__ __forceinline__ unsigned long long wgmma_columns_32_descriptor(const void* shared, int eight_columns) {
    const unsigned long long address = __cvta_generic_to_shared(shared), swizzle_32 = 3;
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | static_cast<unsigned long long>(eight_columns >> 4) << 32 |
           swizzle_32 << 62;
}

// wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32; D is overwritten unless `add` is set
__device__ __forceinline__ void wgmma_m64n64k8_f32_tf32_registers(
    float (&d)[32], const unsigned (&a)[4], unsigned long long b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

}  // namespace ptx
