#pragma once
// Rows of B and C that begin at any element, in code that is compiled with UNALIGNED. No instruction reads four
// neighbouring elements of such rows, so the columns of a lane are apart by as many lanes as its group has: each load
// of the group then reads neighbouring elements. In a group of 32 lanes:
//
//                                 lane 0        lane 1        …  lane 31
//   aligned                       0 1 2 3       4 5 6 7          124 125 126 127
//   UNALIGNED, four columns       0 32 64 96    1 33 65 97       31 63 95 127
//   UNALIGNED, one column         0             1                31
//
// L1 serves one line at a time, so a load should read few rows of B: unaligned code wants groups of a whole warp.

#include "tile/lane_groups.cuh"

#ifndef UNALIGNED
#define UNALIGNED 0
#endif

// The first parameter of a kernel: the width of B and C, which is no part of the length of a row. Code for aligned rows
// has no such parameter, and its machine code does not change.
#if UNALIGNED
#define UNALIGNED_PARAMETERS int n,
#define UNALIGNED_WIDTH n
#else
#define UNALIGNED_PARAMETERS
#define UNALIGNED_WIDTH 0
#endif

namespace tile {

template <class Number, int COUNT>
struct SumOf {
    using Type = Four<Number>;
};
template <class Number>
struct SumOf<Number, 1> {
    using Type = Number;
};

// The columns of this lane in a slab that begins with column `slab`: as it reads them in B, sums them and stores them to
// C. Rows of B are `ldb` elements long and those of C `ldc`, and both are padded.
template <bool IS_UNALIGNED, class Number, int LANES, int COUNT>
struct LaneColumns {
    using Sum = Four<Number>;
    int first, ldb, ldc;

    __device__ __forceinline__ LaneColumns(int slab, int lane, int ldb, int ldc, int)
        : first(slab + 4 * lane), ldb(ldb), ldc(ldc) {}
    // Whether C has any of them.
    __device__ __forceinline__ bool stores() const { return first < ldc; }
    // Where they begin in row 0 of B. Out-of-range lanes read the last valid columns.
    __device__ __forceinline__ const char* in(const Number* b) const {
        return reinterpret_cast<const char*>(b + min(first, ldb - 4));
    }
    __device__ __forceinline__ Sum load(const char* from) const {
        return tile::load(reinterpret_cast<const Sum*>(from));
    }
    template <bool FACTORS>
    __device__ __forceinline__ void store(
        Sum* to, const Sum& sum, Number alpha, Number beta, const Epilogue& epilogue) const {
        tile::store<FACTORS>(to, sum, alpha, beta, epilogue, first);
    }
};

// The same for rows that end with column n, or whose padding belongs to others.
template <class Number, int LANES, int COUNT>
struct LaneColumns<true, Number, LANES, COUNT> {
    using Sum = typename SumOf<Number, COUNT>::Type;
    int first, n;

    __device__ __forceinline__ LaneColumns(int slab, int lane, int, int, int n) : first(slab + lane), n(n) {}
    __device__ __forceinline__ bool stores() const { return first < n; }
    __device__ __forceinline__ const char* in(const Number* b) const {
        return reinterpret_cast<const char*>(b + min(first, n - 1));
    }
    __device__ __forceinline__ Sum load(const char* from) const {
        const Number* own = reinterpret_cast<const Number*>(from);
        if constexpr (COUNT == 1) {
            return __ldg(own);
        } else {
            // The first load is unconditional, so that its address is computed once for all four.
            Number x[4];
#pragma unroll
            for (int i = 1; i < 4; ++i) x[i] = first + LANES * i < n ? __ldg(own + LANES * i) : 0;
            return {__ldg(own), x[1], x[2], x[3]};
        }
    }
    template <bool FACTORS>
    __device__ __forceinline__ void store(
        Sum* to, const Sum& sum, Number alpha, Number beta, const Epilogue& epilogue) const {
        Number* own = reinterpret_cast<Number*>(to);
        if constexpr (COUNT == 1) {
            store_one<FACTORS>(own, sum, alpha, beta, epilogue, first);
        } else {
            const Number sums[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = first + LANES * i;
                if (column < n) store_one<FACTORS>(own + LANES * i, sums[i], alpha, beta, epilogue, column);
            }
        }
    }

  private:
    // Neighbouring rows share sectors, which L2 should keep until they are whole: the store is no streaming one.
    template <bool FACTORS>
    static __device__ __forceinline__ void store_one(
        Number* to, Number sum, Number alpha, Number beta, const Epilogue& epilogue, int column) {
        if constexpr (FACTORS) {
            sum *= alpha;
            if (beta != 0) sum += beta * *to;
            if constexpr (EPILOGUE) sum = epilogue.of(sum, epilogue.bias_of<Number, Number>(column));
        }
        *to = sum;
    }
};

// Add the product of an entry with a lane's columns.
__device__ __forceinline__ void add_product(float4& sum, float a, const float4& x) {
    sum.x += a * x.x, sum.y += a * x.y, sum.z += a * x.z, sum.w += a * x.w;
}
__device__ __forceinline__ void add_product(Double4& sum, double a, const Double4& x) {
    sum.x += a * x.x, sum.y += a * x.y, sum.z += a * x.z, sum.w += a * x.w;
}
template <class Number>
__device__ __forceinline__ void add_product(Number& sum, Number a, const Number& x) {
    sum += a * x;
}

// This lane's columns of the rows of B that a batch needs, all in flight at once. `b_slab` points at these columns in
// row 0; `stride` is the length of a row in bytes.
template <class Columns, class Sum, int BATCH>
__device__ __forceinline__ void load_rows(
    const Columns& of_lane, Sum (&x)[BATCH], const int* columns, const char* b_slab, int stride) {
#pragma unroll
    for (int i = 0; i < BATCH; i += 4) {
        const int4 four = *reinterpret_cast<const int4*>(columns + i);
        const int rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) x[i + j] = of_lane.load(b_slab + static_cast<long long>(rows[j]) * stride);
    }
}

}  // namespace tile
