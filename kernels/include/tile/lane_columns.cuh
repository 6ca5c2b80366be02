#pragma once
// Neighbouring columns of a row of B or C that one lane has: as many as 16 bytes hold, or one. Values says how an element
// is stored, as a number or in 16 bits; sums are numbers. Columns of unaligned rows stay neighbours, unlike those of
// LaneColumns (tile/unaligned.cuh), which spread over a warp.

#include "tile/unaligned.cuh"
#include "tile/values_16.cuh"

namespace tile {

template <class Type>
struct Wide {
    using Number = Type;
    using Stored = Type;
    static __device__ __forceinline__ Number widened(Stored x) { return x; }
    static __device__ __forceinline__ Stored rounded(Number x) { return x; }
};
template <class Values>
struct Half {
    using Number = float;
    using Stored = unsigned short;
    static __device__ __forceinline__ float widened(Stored x) { return Values::unpack(x).x; }
    static __device__ __forceinline__ Stored rounded(float x) { return static_cast<Stored>(Values::pack(x, 0.0f)); }
};

// COUNT neighbouring elements, which are aligned together.
template <class Element, int COUNT>
struct __align__(COUNT * sizeof(Element) < 16 ? COUNT * sizeof(Element) : 16) Vector {
    Element of[COUNT];
};

// Sums of COUNT columns.
template <class Number, int COUNT>
struct ColumnSums {
    Number of[COUNT];

    __device__ __forceinline__ void operator+=(const ColumnSums& x) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) of[i] += x.of[i];
    }
    // The sums of another lane: `get` reads one number of them.
    template <class Get>
    __device__ __forceinline__ ColumnSums from(const Get& get) const {
        ColumnSums other = {};
#pragma unroll
        for (int i = 0; i < COUNT; ++i) other.of[i] = get(of[i]);
        return other;
    }
    // The sums of all lanes of a warp, in each of them.
    __device__ __forceinline__ ColumnSums of_all_lanes() const {
        ColumnSums sum = *this;
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) {
            sum += sum.from([&](Number x) { return __shfl_xor_sync(~0u, x, bits); });
        }
        return sum;
    }
};

// The columns from `column` on, of which unaligned rows have `width`; others have all COUNT.
template <class Values, int COUNT>
struct ColumnsOfLane {
    using Number = typename Values::Number;
    using Stored = typename Values::Stored;
    using Sum = ColumnSums<Number, COUNT>;
    static_assert(COUNT == 1 || COUNT * sizeof(Stored) % 16 == 0, "a lane loads one element of a row, or 16 bytes");
    Vector<Stored, COUNT> x;

    // Load those of a row of B.
    __device__ __forceinline__ void load(const Stored* from, int width) {
        if constexpr (!UNALIGNED || COUNT == 1) {
            x = *reinterpret_cast<const Vector<Stored, COUNT>*>(from);
        } else {
            x = {};
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                if (i < width) x.of[i] = from[i];
            }
        }
    }
    __device__ __forceinline__ void add_to(Sum& sum, Number a) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum.of[i] += a * Values::widened(x.of[i]);
    }
    // Store their sums in a row of C.
    template <bool FACTORS>
    static __device__ __forceinline__ void store(
        Stored* to, const Sum& sum, int width, Number alpha, Number beta, const Epilogue& epilogue, int column) {
        Vector<Stored, COUNT> x;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const bool is_in = !UNALIGNED || i < width;
            Number value = sum.of[i];
            if constexpr (FACTORS) {
                value *= alpha;
                if (is_in && beta != 0) value += beta * Values::widened(to[i]);
                Stored own = {};
                if (EPILOGUE && is_in) own = epilogue.bias_of<Stored, Stored>(column + i);
                if constexpr (EPILOGUE) value = epilogue.of(value, Values::widened(own));
            }
            x.of[i] = Values::rounded(value);
            if (UNALIGNED && is_in) to[i] = x.of[i];
        }
        if (!UNALIGNED) *reinterpret_cast<Vector<Stored, COUNT>*>(to) = x;
    }
};

}  // namespace tile
