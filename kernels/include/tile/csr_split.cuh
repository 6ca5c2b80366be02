#pragma once
// Shared by the kernels of format csr_split.

namespace tile {

// Entries that the format deals to a lane group at a time.
constexpr int SPLIT_BATCH = 8;
// In place of the first row of a lane group or warp: it began in an earlier one and ends in this one.
constexpr int ENDED = 1 << 31;

}  // namespace tile
