// Packs a CSR in device memory as windows of WINDOW rows, without a sort. The rows of a CSR are sorted: where a column
// stands among the distinct columns of its window follows from where it would stand in each of the window's rows,
// and from how many entries before that are the first of their column.
//
// WINDOW and TILE_K are defined by windows.py, builder.cuh stands before.

// before[entry] = how many entries before are the first of their column in their window: no row above has it.
extern "C" __global__ void __launch_bounds__(CTA) mark_first(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, int nnz, Count* states,
    int* __restrict__ before) {
    const int entry = thread_in_turn(states);
    const int row = range_of_lane(indptr, m, min(entry, nnz - 1)), column = indices[min(entry, nnz - 1)];
    bool known = entry >= nnz;
    for (int above = row - 1; above >= row / WINDOW * WINDOW && !known; --above) {
        const int stop = indptr[above + 1], at = lower_bound(indices, indptr[above], stop, column);
        known = at < stop && indices[at] == column;
    }
    const Count up_to = summed(!known, entry, states);
    if (entry == 0) before[0] = 0;
    if (entry < nnz) before[entry + 1] = low_of(up_to);
}

// With which tile each window begins, and numbers = {all tiles, entries of the longest row}, zeros before.
extern "C" __global__ void __launch_bounds__(CTA) count_tiles(
    const int* __restrict__ indptr, const int* __restrict__ before, int m, int windows, Count* states,
    int* __restrict__ begins, int* __restrict__ numbers) {
    const int window = thread_in_turn(states);
    int tiles = 0, longest = 0;
    if (window < windows) {
        const int first = window * WINDOW, stop = min(first + WINDOW, m);
        for (int row = first; row < stop; ++row) longest = max(longest, indptr[row + 1] - indptr[row]);
        tiles = max((before[indptr[stop]] - before[indptr[first]] + TILE_K - 1) / TILE_K, 1);
    }
    longest = __reduce_max_sync(~0u, longest);
    if (threadIdx.x % 32 == 0) atomicMax(numbers + 1, longest);
    const int up_to = low_of(summed(tiles, window, states));
    if (window == 0) begins[0] = 0;
    if (window < windows) begins[window + 1] = up_to;
    if (window == windows - 1) numbers[0] = up_to;
}

// The first tile of each window of a share, where its windows are dealt to `warps` warps, each to the first of those that
// have least. `places` holds what the windows begin with as long as they are not dealt. A warp a share, a lane a list.
extern "C" __global__ void __launch_bounds__(32) deal(
    const int* __restrict__ begins, int windows, const int4* __restrict__ work, int warps, int* __restrict__ places) {
    const int begin = work[blockIdx.x].x, end = work[blockIdx.x].y, lane = threadIdx.x;
    const int first = lower_bound(begins, 0, windows + 1, begin), stop = range_of(begins, windows, end);
    if (first >= stop) return;
    int load = lane == 0 ? begins[first] - begin : lane == warps - 1 ? end - begins[stop] : 0;
    for (int base = first; base < stop; base += 32) {
        const int window = min(base + lane, stop - 1), tiles = begins[window + 1] - begins[window];
        int warp = 0;
        for (int i = 0; i < min(32, stop - base); ++i) {
            const int least = __reduce_min_sync(~0u, lane < warps ? load * 32u + lane : ~0u) % 32;
            const int given = __shfl_sync(~0u, tiles, i);
            if (lane == least) load += given;
            if (lane == i) warp = least;
        }
        if (base + lane < stop) places[base + lane] = warp;
    }
    // Lists follow each other so that borders of equal parts are near to theirs: the first and the last list stay where
    // they are, next is which brings the sum nearest to that of equal lists.
    const int mean = (end - begin) / warps;
    int place = begins[first], after = begin + __shfl_sync(~0u, load, 0);
    int astray = after - begin - mean;
    bool waits = lane > 0 && lane < warps - 1;
    for (int turn = 1; turn < warps; ++turn) {
        const unsigned distance = abs(astray + load - mean);
        int next = __reduce_min_sync(~0u, waits ? distance * 32u + lane : ~0u) % 32;
        if (turn == warps - 1) next = turn;
        if (lane == next) place = after, waits = false;
        const int given = __shfl_sync(~0u, load, next);
        after += given, astray += given - mean;
    }
    for (int base = first; base < stop; base += 32) {
        const int window = min(base + lane, stop - 1), tiles = begins[window + 1] - begins[window];
        const int warp = places[window];
        int own = 0;
        for (int i = 0; i < min(32, stop - base); ++i) {
            const int to = __shfl_sync(~0u, warp, i), given = __shfl_sync(~0u, tiles, i);
            const int here = __shfl_sync(~0u, place, to);
            if (lane == i) own = here;
            if (lane == to) place += given;
        }
        __syncwarp();
        if (base + lane < stop) places[base + lane] = own;
    }
}

namespace {

// The columns behind a window's last one, and where it ends.
__device__ void pad(
    const int* indptr, const int* indices, const int* before, const int* begins, const int* places, int m, int window,
    int* columns, int* ends) {
    const int first = window * WINDOW, stop = min(first + WINDOW, m);
    int last = 0;
    for (int row = first; row < stop; ++row) {
        if (indptr[row] < indptr[row + 1]) last = max(last, indices[indptr[row + 1] - 1]);
    }
    const int vectors = before[indptr[stop]] - before[indptr[first]];
    const int place = places[window], after = place + begins[window + 1] - begins[window];
    const long long end = static_cast<long long>(after) * TILE_K;
    for (long long slot = static_cast<long long>(place) * TILE_K + vectors; slot < end; ++slot) {
        columns[slot] = last;
    }
    ends[after - 1] = window;
}

// The columns of all tiles, and the bits of their values: first CTAs with a thread for each window, then those with one
// for each entry.
template <class Bits>
__device__ void place(
    const int* indptr, const int* indices, const Bits* values, const int* before, const int* begins, const int* places,
    int m, int windows, int nnz, int* columns, Bits* data, int* ends) {
    const int cta_windows = (windows + CTA - 1) / CTA;
    if (blockIdx.x < cta_windows) {
        if (thread() < windows) pad(indptr, indices, before, begins, places, m, thread(), columns, ends);
        return;
    }
    const int entry = (blockIdx.x - cta_windows) * CTA + threadIdx.x, row = range_of_lane(indptr, m, min(entry, nnz - 1));
    if (entry >= nnz) return;
    const int window = row / WINDOW, column = indices[entry];
    int rank = 0;
    for (int i = window * WINDOW; i < min(window * WINDOW + WINDOW, m); ++i) {
        const int begin = indptr[i];
        rank += before[lower_bound(indices, begin, indptr[i + 1], column)] - before[begin];
    }
    const long long slot = static_cast<long long>(places[window]) * TILE_K + rank;
    if (before[entry + 1] != before[entry]) columns[slot] = column;
    data[(slot / TILE_K * WINDOW + row % WINDOW) * TILE_K + slot % TILE_K] = values[entry];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(CTA) place_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int nnz, int* __restrict__ columns, unsigned short* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, nnz, columns, data, ends);
}

extern "C" __global__ void __launch_bounds__(CTA) place_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int nnz, int* __restrict__ columns, unsigned* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, nnz, columns, data, ends);
}

extern "C" __global__ void __launch_bounds__(CTA) place_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int nnz, int* __restrict__ columns, unsigned long long* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, nnz, columns, data, ends);
}
