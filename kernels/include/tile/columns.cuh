#pragma once
// One to four neighbouring columns of single precision that a lane owns, summed over entries that its warp has staged
// in shared memory (coalesced row caching; Huang et al. 2020, section 4.1).

namespace tile {

constexpr int STAGED = 32;

// One non-zero: the offset of its row of B, in floats, and its value.
struct Entry {
    long long offset;
    float value;
};

template <int WIDTH>
struct Columns {
    float sums[WIDTH] = {};

    __device__ __forceinline__ void add(float value, const float* source) {
        if constexpr (WIDTH == 4) {
            const float4 raw = __ldg(reinterpret_cast<const float4*>(source));
            sums[0] += value * raw.x;
            sums[1] += value * raw.y;
            sums[2] += value * raw.z;
            sums[3] += value * raw.w;
        } else if constexpr (WIDTH == 2) {
            const float2 raw = __ldg(reinterpret_cast<const float2*>(source));
            sums[0] += value * raw.x;
            sums[1] += value * raw.y;
        } else {
            sums[0] += value * __ldg(source);
        }
    }
    __device__ __forceinline__ void store(float* target) const {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) target[i] = sums[i];
    }
    __device__ __forceinline__ void add_atomically(float* target) const {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) atomicAdd(target + i, sums[i]);
    }
};

// Stage up to 32 entries, beginning with `first`; the whole warp calls it.
__device__ __forceinline__ void stage(
    Entry (&staged)[STAGED], const int* __restrict__ indices, const float* __restrict__ data, int first, int end, int ldb,
    int lane) {
    __syncwarp();
    if (first + lane < end) staged[lane] = {static_cast<long long>(indices[first + lane]) * ldb, data[first + lane]};
    __syncwarp();
}

}  // namespace tile
