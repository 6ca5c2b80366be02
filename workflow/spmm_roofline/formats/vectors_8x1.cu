// Packs a CSR in device memory as windows of eight rows, without a sort. The rows of a CSR are sorted: where a column
// stands among the distinct columns of its window follows from where it would stand in each of the window's eight rows,
// and from how many entries before that are the first of their column.
//
// WINDOW and TILE_K are defined by vectors_8x1.py, builder.cuh stands before.

// first[entry] = 1 where no row above in the window has the entry's column.
extern "C" __global__ void mark_first(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, int nnz, int* __restrict__ first) {
    const int entry = thread();
    if (entry >= nnz) return;
    const int row = range_of(indptr, m, entry), column = indices[entry];
    bool known = false;
    for (int above = row / WINDOW * WINDOW; above < row && !known; ++above) {
        const int stop = indptr[above + 1], at = lower_bound(indices, indptr[above], stop, column);
        known = at < stop && indices[at] == column;
    }
    first[entry] = !known;
}

// Tiles of each window; `before` counts the first entries before each entry.
extern "C" __global__ void count_tiles(
    const int* __restrict__ indptr, const int* __restrict__ before, int m, int windows, int* __restrict__ tiles) {
    const int window = thread();
    if (window >= windows) return;
    const int vectors = before[indptr[min((window + 1) * WINDOW, m)]] - before[indptr[window * WINDOW]];
    tiles[window] = max((vectors + TILE_K - 1) / TILE_K, 1);
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

// The columns behind a window's last one, and where it ends.
extern "C" __global__ void pad_windows(
    const int* __restrict__ indptr, const int* __restrict__ indices, const int* __restrict__ before,
    const int* __restrict__ begins, const int* __restrict__ places, int m, int windows, int* __restrict__ columns, int* __restrict__ ends) {
    const int window = thread();
    if (window >= windows) return;
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

namespace {

// The columns of all tiles, and the bits of their values.
template <class Bits>
__device__ void place(
    const int* indptr, const int* indices, const Bits* values, const int* before, const int* places, int m, int nnz,
    int* columns, Bits* data) {
    const int entry = thread();
    if (entry >= nnz) return;
    const int row = range_of(indptr, m, entry), window = row / WINDOW, column = indices[entry];
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

extern "C" __global__ void place_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ places, int m, int nnz, int* __restrict__ columns,
    unsigned short* __restrict__ data) {
    place(indptr, indices, values, before, places, m, nnz, columns, data);
}

extern "C" __global__ void place_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ places, int m, int nnz, int* __restrict__ columns,
    unsigned* __restrict__ data) {
    place(indptr, indices, values, before, places, m, nnz, columns, data);
}

extern "C" __global__ void place_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ places, int m, int nnz, int* __restrict__ columns,
    unsigned long long* __restrict__ data) {
    place(indptr, indices, values, before, places, m, nnz, columns, data);
}
