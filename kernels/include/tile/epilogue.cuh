#pragma once
// The epilogue of a product: C = relu(alpha·A·B + beta·C + bias), in code that is compiled with SCALED and EPILOGUE. The
// bias is a vector with one value per column of C, or null; ReLU replaces negative results by zero.

#include "tile/four.cuh"

#ifndef EPILOGUE
#define EPILOGUE 0
#endif
static_assert(SCALED || !EPILOGUE, "bias and ReLU follow alpha and beta, so SCALED must be 1 as well");

// The last parameters of a kernel: the bias in the dtype of C, for every column of the padded C, and whether to apply
// ReLU. Code without an epilogue has no such parameters, and its machine code does not change.
#if EPILOGUE
#define EPILOGUE_PARAMETERS , const void* bias, int relu
#define EPILOGUE_ARGUMENTS {bias, relu != 0}
#else
#define EPILOGUE_PARAMETERS
#define EPILOGUE_ARGUMENTS {}
#endif

namespace tile {

struct Epilogue {
    const void* bias;
    bool relu;

    // The bias of the columns of a Vector of Numbers, the first of which is `column`. It is read for every row anew,
    // from L1: registers that kept it would spill.
    template <class Vector, class Number>
    __device__ __forceinline__ Vector bias_of(int column) const {
        Vector own = {};
        if (EPILOGUE && bias != nullptr) {
            own = *reinterpret_cast<const Vector*>(static_cast<const Number*>(bias) + column);
        }
        return own;
    }

    // NaN stays NaN, unlike in fmax.
    template <class Number>
    __device__ __forceinline__ Number of(Number sum, Number own) const {
        sum += own;
        return relu && sum < 0 ? 0 : sum;
    }
};

// Apply the epilogue to four columns, of which `column` is the first.
template <class Number>
__device__ __forceinline__ void finish(Four<Number>& sum, const Epilogue& epilogue, int column) {
    if constexpr (EPILOGUE) {
        const Four<Number> own = epilogue.bias_of<Four<Number>, Number>(column);
        sum.x = epilogue.of(sum.x, own.x), sum.y = epilogue.of(sum.y, own.y);
        sum.z = epilogue.of(sum.z, own.z), sum.w = epilogue.of(sum.w, own.w);
    }
}

// The same for two columns of the 16-bit dtype Values (tile/values_16.cuh), whose bias is `pair`.
template <class Values>
__device__ __forceinline__ void finish(float& low, float& high, const Epilogue& epilogue, unsigned pair) {
    if constexpr (EPILOGUE) {
        const float2 own = Values::unpack(pair);
        low = epilogue.of(low, own.x), high = epilogue.of(high, own.y);
    }
}

}  // namespace tile
