#pragma once
// Bytes that begin anywhere, from aligned chunks of 16 bytes, which one instruction reads:
//
//   chunks          | . . . 0 1 2 3 4 | 5 6 7 8 9 … |     numbers are elements of 16 bits
//   wanted                  |---------------|             eight of them, six bytes behind the start of a chunk

namespace tile {

// Bytes from the start of a chunk to `at`.
__device__ __forceinline__ int offset_in_chunk(const void* at) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(at) % 16);
}

// The 16 bytes that begin `offset` bytes behind the start of chunk `first`, of which `second` is the next one. Elements
// of BYTES bytes begin at multiples of their size.
template <int BYTES>
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, int offset) {
    const unsigned words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    unsigned by_two[6], by_one[5], out[4];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = offset & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = BYTES < 8 && offset & 4 ? by_two[i + 1] : by_two[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[i] = BYTES < 4 ? __funnelshift_r(by_one[i], by_one[i + 1], offset % 4 * 8) : by_one[i];
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

}  // namespace tile
