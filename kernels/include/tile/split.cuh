#pragma once
// Split rows and windows: those that several work partitions cover, so that each partition computes a partial sum.
//
// An entry of a format's array `work` says which partial sums a partition computes; -1 stands for none:
//
//   work.z    the head partial, of the row or window that an earlier partition began
//   work.w    the tail partial, of the row or window that the next partition continues
//
// If both are the same row or window, only the tail partial is set.

namespace tile {

// Entry of a format's array `cut`: the split row or window that a partial sum belongs to.
struct Split {
    int first, count;  // its first partial sum, and how many it has
    int target;        // the row or window
    int origin;        // the work partition of this partial sum; in csr_partitioned the first segment of the row
};
__device__ __forceinline__ Split split_of(const int4* __restrict__ cut, int partial) {
    const int4 entry = __ldg(cut + partial);
    return {entry.x, entry.y, entry.z, entry.w};
}

}  // namespace tile
