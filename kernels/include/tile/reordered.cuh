#pragma once
// Rows of A in another order than those of C, in code that is compiled with REORDERED: row i of A is row rows[i] of C. An
// order in which neighbouring rows have columns in common reads fewer rows of B.

#ifndef REORDERED
#define REORDERED 0
#endif

// The last parameter of a kernel: the row of C of each row of A. Other code has no such parameter, and its machine code
// does not change.
#if REORDERED
#define REORDERED_PARAMETERS , const int* __restrict__ rows_of_c
#define REORDERED_ROWS rows_of_c
#else
#define REORDERED_PARAMETERS
#define REORDERED_ROWS nullptr
#endif

namespace tile {

struct RowsOfC {
    const int* rows;

    // The row of C that row `row` of A is; any other number unless `wanted`, for which nothing is read.
    __device__ __forceinline__ int operator()(int row, bool wanted = true) const {
        if constexpr (REORDERED) return wanted ? __ldg(rows + row) : 0;
        return row;
    }
};

}  // namespace tile
