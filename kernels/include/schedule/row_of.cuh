#pragma once
// Which row of a CSR an entry belongs to.

namespace schedule {

// The row of `entry` among `rows` rows, by bisection of the row pointers; rows without entries are passed over.
__device__ __forceinline__ int row_of(const int* __restrict__ indptr, int rows, int entry) {
    int low = 0, high = rows;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (indptr[middle] <= entry) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

}  // namespace schedule
