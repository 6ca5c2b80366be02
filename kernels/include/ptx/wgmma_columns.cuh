#pragma once
// Columns of B as operands of a product of one warpgroup, in boxes of 32 16-bit values a column with the swizzle of 64
// bytes (PTX ISA, sections "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions" and "Tensor"): unit u
// of 16 bytes of column c lies at position u ^ (c / 2 % 4).

namespace ptx {

// Matrix descriptor of such a box. `shared` is its beginning, a multiple of 512 bytes, or a number of whole units after
// it: the products then begin as much further along k.
__device__ __forceinline__ unsigned long long wgmma_columns_64_descriptor(const void* shared) {
    const unsigned long long address = __cvta_generic_to_shared(shared), eight_columns = 512, swizzle_64 = 2;
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | eight_columns >> 4 << 32 | swizzle_64 << 62;
}

}  // namespace ptx
