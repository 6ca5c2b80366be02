#pragma once
// Packet (tile/packet.cuh) of a 16-bit dtype, with Of16 one of tile/values_16.cuh.

#include "tile/values_16.cuh"

namespace tile {

template <class Of16>
struct Packet16 {
    using Values = Of16;
    using Stored = unsigned short;
    using Number = float;
    static constexpr int WIDTH = 8;
    uint4 raw;

    __device__ __forceinline__ static float widened(Stored x) { return Values::unpack(x).x; }
    __device__ __forceinline__ void load(const Stored* source) { raw = __ldg(reinterpret_cast<const uint4*>(source)); }
    __device__ __forceinline__ void add_to(float (&sums)[WIDTH], float value) const {
        const unsigned pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = Values::unpack(pairs[i]);
            sums[2 * i] += value * pair.x;
            sums[2 * i + 1] += value * pair.y;
        }
    }
};

}  // namespace tile
