#pragma once
// Four neighbouring columns of a row, which a lane loads, sums and stores at a time: 16 bytes in FP32, 32 bytes, in two
// accesses, in FP64.

namespace tile {

struct __align__(16) Double4 {
    double x, y, z, w;
};

template <class Number>
struct FourOf;
template <>
struct FourOf<float> {
    using Type = float4;
};
template <>
struct FourOf<double> {
    using Type = Double4;
};
template <class Number>
using Four = typename FourOf<Number>::Type;

// Loads through the read-only path; Vector is any type that one instruction loads, or Double4.
template <class Vector>
__device__ __forceinline__ Vector load(const Vector* from) {
    return __ldg(from);
}
__device__ __forceinline__ Double4 load(const Double4* from) {
    const double2* halves = reinterpret_cast<const double2*>(from);
    const double2 low = __ldg(halves), high = __ldg(halves + 1);
    return {low.x, low.y, high.x, high.y};
}

// Stores of values that are not read again.
__device__ __forceinline__ void store_streaming(float4* to, const float4& x) { __stcs(to, x); }
__device__ __forceinline__ void store_streaming(Double4* to, const Double4& x) {
    double2* halves = reinterpret_cast<double2*>(to);
    __stcs(halves, make_double2(x.x, x.y));
    __stcs(halves + 1, make_double2(x.z, x.w));
}

}  // namespace tile
