#pragma once
// Stores of two, four or eight neighbouring columns of a row of C, of which `column` is the first. With FACTORS they
// store relu(alpha·sum + beta·C + bias), as far as tile/epilogue.cuh compiles it in; C is not read if beta is 0.

#include "tile/epilogue.cuh"

namespace tile {

template <bool FACTORS, class Number>
__device__ __forceinline__ void store(
    Four<Number>* c, Four<Number> sum, Number alpha, Number beta, const Epilogue& epilogue, int column) {
    if constexpr (FACTORS) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        if (beta != 0) {
            const Four<Number> old = *c;
            sum.x += beta * old.x, sum.y += beta * old.y, sum.z += beta * old.z, sum.w += beta * old.w;
        }
        finish<Number>(sum, epilogue, column);
    }
    store_streaming(c, sum);
}

// The same for two columns in FP64.
template <bool FACTORS>
__device__ __forceinline__ void store(
    double2* c, double2 sum, double alpha, double beta, const Epilogue& epilogue, int column) {
    if constexpr (FACTORS) {
        const double2 old = beta != 0 ? *c : double2{}, own = epilogue.bias_of<double2, double>(column);
        sum.x = alpha * sum.x + beta * old.x, sum.y = alpha * sum.y + beta * old.y;
        if constexpr (EPILOGUE) sum.x = epilogue.of(sum.x, own.x), sum.y = epilogue.of(sum.y, own.y);
    }
    __stcs(c, sum);
}

// The same, rounded to the 16-bit dtype Values (tile/values_16.cuh).
template <class Values, bool FACTORS>
__device__ __forceinline__ void store(
    uint2* c, float4 sum, float alpha, float beta, const Epilogue& epilogue, int column) {
    if constexpr (FACTORS) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        if (beta != 0.0f) {
            const uint2 old = *c;
            const float2 low = Values::unpack(old.x), high = Values::unpack(old.y);
            sum.x += beta * low.x, sum.y += beta * low.y, sum.z += beta * high.x, sum.w += beta * high.y;
        }
        const uint2 own = epilogue.bias_of<uint2, unsigned short>(column);
        finish<Values>(sum.x, sum.y, epilogue, own.x);
        finish<Values>(sum.z, sum.w, epilogue, own.y);
    }
    __stcs(c, make_uint2(Values::pack(sum.x, sum.y), Values::pack(sum.z, sum.w)));
}

// The same for eight columns.
template <class Values, bool FACTORS>
__device__ __forceinline__ void store(
    uint4* c, const float (&sums)[8], float alpha, float beta, const Epilogue& epilogue, int column) {
    uint4 out = {};
    unsigned* pairs = reinterpret_cast<unsigned*>(&out);
    const uint4 own = epilogue.bias_of<uint4, unsigned short>(column);
    const unsigned biases[4] = {own.x, own.y, own.z, own.w};
    if constexpr (FACTORS) {
        if (beta != 0.0f) out = *c;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float low = sums[2 * i], high = sums[2 * i + 1];
        if constexpr (FACTORS) {
            const float2 before = Values::unpack(pairs[i]);
            low = alpha * low + beta * before.x, high = alpha * high + beta * before.y;
            finish<Values>(low, high, epilogue, biases[i]);
        }
        pairs[i] = Values::pack(low, high);
    }
    __stcs(c, out);
}

}  // namespace tile
