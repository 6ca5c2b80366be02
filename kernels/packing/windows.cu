/*---
name: windows
study: packing
source: "this project; the format after FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025)"
idea: rows of a CSR are sorted, so the lanes of a group merge the rows of a window, one row a lane, and nothing is sorted
tile: {window: 8, k: 16}
min_arch: sm_80
features: []
variants:
  "16":
    idea: windows of sixteen rows
    after: windows
    tile: {window: 16}
deviations: []
---*/
// Packs a CSR in device memory as windows of TILE_WINDOW rows (formats/windows.py).
//
// A window's columns are merged in chunks of about `chunk_entries` entries, so that a long window is merged by several
// groups of TILE_WINDOW lanes at once:
//
//   window w      rows w·TILE_WINDOW to (w + 1)·TILE_WINDOW - 1
//   its chunks    first_chunk(w) to first_chunk(w + 1) - 1: one, and one more for each chunk_entries entries
//   a chunk       an interval of columns; lane i of its group walks the entries of row i in that interval
#include "packing/partition.cuh"

namespace {

using namespace packing;

constexpr int WINDOW = TILE_WINDOW;
// Column of a lane that has reached the end of its row.
constexpr int NONE = 0x7FFFFFFF;

__device__ int first_chunk(const int* indptr, int m, int chunk_entries, int window) {
    return window + indptr[min(window * WINDOW, m)] / chunk_entries;
}

// A chunk as one lane of its group sees it: entries `at` to `end` - 1 of the lane's row.
struct Chunk {
    int number, window, at, end;
    int last_column;  // of the window; 0 for a window without entries
    bool is_last;     // of the window
};

// Sum and maximum over the WINDOW lanes of a group; `lanes` is the mask of the lanes that take part.
__device__ int group_sum(int own, unsigned lanes) {
    for (int distance = WINDOW / 2; distance > 0; distance /= 2) own += __shfl_xor_sync(lanes, own, distance);
    return own;
}
__device__ int group_max(int own, unsigned lanes) {
    for (int distance = WINDOW / 2; distance > 0; distance /= 2) own = max(own, __shfl_xor_sync(lanes, own, distance));
    return own;
}

// Splits the window's columns at a quantile: the smallest column that has `entries` entries of all rows of the group before
// it. Returns the first entry of the lane's row, begin <= entry <= end, that is not before that column.
__device__ int quantile(const int* indices, int begin, int end, int entries, int columns, unsigned group) {
    const int first = begin;
    int low = 0, high = columns;
    while (low < high) {
        const int middle = low + (high - low) / 2, at = lower_bound(indices, begin, end, middle);
        if (group_sum(at - first, group) < entries) {
            low = middle + 1, begin = at;
        } else {
            high = middle, end = at;
        }
    }
    return lower_bound(indices, begin, end, low);
}

// The chunk of this lane's group; without entries where there are fewer chunks than groups. The whole warp calls it.
__device__ Chunk chunk_of_lane(
    const int* indptr, const int* indices, int m, int windows, int chunks, int chunk_entries) {
    Chunk own = {thread() / WINDOW, 0, 0, 0, 0, false};
    const int next = first_where(0, own.number < chunks ? windows : 0, [&](int window) {
        return first_chunk(indptr, m, chunk_entries, window) > own.number;
    });
    own.window = next - 1;
    const int lane = threadIdx.x % WINDOW, row = own.window * WINDOW + lane;
    int begin = 0, end = 0;
    if (next > 0 && row < m) begin = indptr[row], end = indptr[row + 1];
    own.last_column = group_max(begin < end ? indices[end - 1] : 0, ~0u);
    own.at = begin, own.end = end;
    if (next == 0) return own;
    const int first = first_chunk(indptr, m, chunk_entries, own.window);
    const int count = first_chunk(indptr, m, chunk_entries, next) - first, of_window = own.number - first;
    own.is_last = of_window + 1 == count;
    if (count > 1) {
        const unsigned group = ~0u >> (32 - WINDOW) << (threadIdx.x % 32 - lane);
        const int length = end - begin, longest = group_max(length, group);
        const int longest_row = __shfl_sync(group, begin, __ffs(__ballot_sync(group, length == longest)) - 1);
        const long long entries = group_sum(length, group);
        // A window of many chunks is split evenly by all its entries. One of few chunks is split evenly by the entries of
        // its longest row, which takes no search for the column.
        const auto begin_of = [&](int chunk) {
            if (count > WINDOW) {
                const int before = static_cast<int>(entries * chunk / count);
                return quantile(indices, begin, end, before, own.last_column + 1, group);
            }
            const int column = indices[longest_row + static_cast<int>(static_cast<long long>(longest) * chunk / count)];
            return lower_bound(indices, begin, end, column);
        };
        if (of_window > 0) own.at = begin_of(of_window);
        if (!own.is_last) own.end = begin_of(of_window + 1);
    }
    return own;
}

// Merges the rows of a chunk: calls take(column, index, present, value) for each of its columns, ascending, on all lanes of
// the group; `present` says whether the lane's row has an entry there. Returns the number of columns. The whole warp calls
// it.
template <class Bits, class Take>
__device__ int merge(const Chunk& chunk, const int* indices, const Bits* values, const Take& take) {
    int at = chunk.at, column = at < chunk.end ? indices[at] : NONE, count = 0;
    while (__any_sync(~0u, column != NONE)) {
        int least = column;
        for (int distance = WINDOW / 2; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(~0u, least, distance));
        }
        const bool present = column == least && at < chunk.end;
        Bits value = 0;
        if (present && values != nullptr) value = values[at];
        if (present) column = ++at < chunk.end ? indices[at] : NONE;
        if (least != NONE) take(least, count++, present, value);
    }
    return count;
}

}  // namespace

// Number of columns of each chunk.
extern "C" __global__ void __launch_bounds__(packing::CTA) count_columns(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, int windows, int chunks, int chunk_entries,
    int* __restrict__ columns_of_chunk) {
    const Chunk own = chunk_of_lane(indptr, indices, m, windows, chunks, chunk_entries);
    const unsigned char* no_values = nullptr;
    const int count = merge(own, indices, no_values, [](int, int, bool, unsigned char) {});
    if (own.number < chunks && threadIdx.x % WINDOW == 0) columns_of_chunk[own.number] = count;
}

// First tile of each window, and counts = {tiles, entries of the longest row}, which the caller clears. Replaces the columns
// of each chunk by those of the chunks before it in the same window.
extern "C" __global__ void __launch_bounds__(packing::CTA) count_tiles(
    const int* __restrict__ indptr, int* __restrict__ columns_of_chunk, int m, int windows, int chunk_entries,
    packing::Count* states, int* __restrict__ begins, int* __restrict__ counts) {
    const int window = take_ticket(states);
    int tiles = 0, longest = 0;
    if (window < windows) {
        for (int row = window * WINDOW; row < min(window * WINDOW + WINDOW, m); ++row) {
            longest = max(longest, indptr[row + 1] - indptr[row]);
        }
        const int end = first_chunk(indptr, m, chunk_entries, window + 1);
        int columns = 0;
        for (int chunk = first_chunk(indptr, m, chunk_entries, window); chunk < end; ++chunk) {
            const int own = columns_of_chunk[chunk];
            columns_of_chunk[chunk] = columns;
            columns += own;
        }
        tiles = max((columns + TILE_K - 1) / TILE_K, 1);
    }
    longest = __reduce_max_sync(~0u, longest);
    if (threadIdx.x % 32 == 0) atomicMax(counts + 1, longest);
    const int up_to = low_of(scan_grid(tiles, window, states));
    if (window == 0) begins[0] = 0;
    if (window < windows) begins[window + 1] = up_to;
    if (window == windows - 1) counts[0] = up_to;
}

// Deals the whole windows of a partition to the warps of its CTA: each window in turn goes to the warp with the fewest
// tiles. `first_tile` holds the windows' tiles in natural order and receives those of the dealt order. One warp a
// partition; lane i keeps the list of the CTA's warp i.
//
//   tiles of a partition   [split window from before][list of warp 0][lists of the others][last list][split window]
//
// Lists are laid out so that the running total stays close to equal lists: the first and the last list keep their
// positions, and the next one is always the list that brings the total nearest.
extern "C" __global__ void __launch_bounds__(32) deal_windows(
    const int* __restrict__ begins, int windows, const int4* __restrict__ work, int warps,
    int* __restrict__ first_tile) {
    const int begin = work[blockIdx.x].x, end = work[blockIdx.x].y, lane = threadIdx.x;
    const int first = lower_bound(begins, 0, windows + 1, begin), stop = segment_of(begins, windows, end);
    if (first >= stop) return;
    const auto tiles_of = [&](int window) { return begins[window + 1] - begins[window]; };
    int load = lane == 0 ? begins[first] - begin : lane == warps - 1 ? end - begins[stop] : 0;
    // `first_tile` holds the warp of each window until the lists have their positions.
    for (int base = first; base < stop; base += 32) {
        const int tiles = tiles_of(min(base + lane, stop - 1));
        int warp = 0;
        for (int i = 0; i < min(32, stop - base); ++i) {
            const int least = __reduce_min_sync(~0u, lane < warps ? load * 32u + lane : ~0u) % 32;
            const int dealt = __shfl_sync(~0u, tiles, i);
            if (lane == least) load += dealt;
            if (lane == i) warp = least;
        }
        if (base + lane < stop) first_tile[base + lane] = warp;
    }
    const int mean = (end - begin) / warps;
    int position = begins[first], after = begin + __shfl_sync(~0u, load, 0);
    int excess = after - begin - mean;
    bool waits = lane > 0 && lane < warps - 1;
    for (int turn = 1; turn < warps; ++turn) {
        const unsigned distance = abs(excess + load - mean);
        int next = __reduce_min_sync(~0u, waits ? distance * 32u + lane : ~0u) % 32;
        if (turn == warps - 1) next = turn;
        if (lane == next) position = after, waits = false;
        const int length = __shfl_sync(~0u, load, next);
        after += length, excess += length - mean;
    }
    for (int base = first; base < stop; base += 32) {
        const int tiles = tiles_of(min(base + lane, stop - 1)), warp = first_tile[min(base + lane, stop - 1)];
        int own = 0;
        for (int i = 0; i < min(32, stop - base); ++i) {
            const int to = __shfl_sync(~0u, warp, i), dealt = __shfl_sync(~0u, tiles, i);
            const int here = __shfl_sync(~0u, position, to);
            if (lane == i) own = here;
            if (lane == to) position += dealt;
        }
        __syncwarp();
        if (base + lane < stop) first_tile[base + lane] = own;
    }
}

namespace {

// Columns of all tiles, the bits of their values, and the window that ends with each tile; `columns_before` and `begins` are
// those of count_tiles().
template <class Bits>
__device__ void scatter(
    const int* indptr, const int* indices, const Bits* values, const int* columns_before, const int* begins,
    const int* first_tile, int m, int windows, int chunks, int chunk_entries, int* columns, Bits* data, int* ends) {
    const Chunk own = chunk_of_lane(indptr, indices, m, windows, chunks, chunk_entries);
    const bool there = own.number < chunks;
    const int lane = threadIdx.x % WINDOW;
    const unsigned first = there ? static_cast<unsigned>(first_tile[own.window]) * TILE_K : 0;
    const unsigned begin = there ? first + columns_before[own.number] : 0;
    const int count = merge(own, indices, values, [&](int column, int index, bool present, Bits value) {
        const unsigned slot = begin + index;
        if (lane == 0) columns[slot] = column;
        if (present) data[(static_cast<long long>(slot / TILE_K) * WINDOW + lane) * TILE_K + slot % TILE_K] = value;
    });
    if (!there || !own.is_last) return;
    const int tiles = begins[own.window + 1] - begins[own.window];
    const unsigned end = first + tiles * TILE_K;
    for (unsigned slot = begin + count + lane; slot < end; slot += WINDOW) columns[slot] = own.last_column;
    if (lane == 0) ends[first / TILE_K + tiles - 1] = own.window;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(packing::CTA) scatter_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ columns_before, const int* __restrict__ begins, const int* __restrict__ first_tile, int m,
    int windows, int chunks, int chunk_entries, int* __restrict__ columns, unsigned short* __restrict__ data,
    int* __restrict__ ends) {
    scatter(
        indptr, indices, values, columns_before, begins, first_tile, m, windows, chunks, chunk_entries, columns, data,
        ends);
}

extern "C" __global__ void __launch_bounds__(packing::CTA) scatter_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ columns_before, const int* __restrict__ begins, const int* __restrict__ first_tile, int m,
    int windows, int chunks, int chunk_entries, int* __restrict__ columns, unsigned* __restrict__ data,
    int* __restrict__ ends) {
    scatter(
        indptr, indices, values, columns_before, begins, first_tile, m, windows, chunks, chunk_entries, columns, data,
        ends);
}

extern "C" __global__ void __launch_bounds__(packing::CTA) scatter_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ columns_before, const int* __restrict__ begins, const int* __restrict__ first_tile, int m,
    int windows, int chunks, int chunk_entries, int* __restrict__ columns, unsigned long long* __restrict__ data,
    int* __restrict__ ends) {
    scatter(
        indptr, indices, values, columns_before, begins, first_tile, m, windows, chunks, chunk_entries, columns, data,
        ends);
}
