#pragma once
// In which order CTAs compute the tiles of C.

namespace schedule {

struct TileOfC {
    int row, column;
};

// The tile that CTA `index` computes. Within `group` rows of tiles the order is column by column, so that CTAs that run
// at the same time share what they read of A and of B in L2. With group = 2 and three columns:
//
//   0  2  4
//   1  3  5
//   6  8  10
//   7  9  11
__device__ __forceinline__ TileOfC grouped_tile(int index, int rows, int columns, int group) {
    const int first = index / (group * columns) * group, height = min(group, rows - first);
    const int within = index % (group * columns);
    return {first + within % height, within / height};
}

}  // namespace schedule
