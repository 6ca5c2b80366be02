// Packs a CSR in device memory as windows of eight rows, in five launches without a sort. The rows of a CSR are sorted:
// where a column stands among the distinct columns of its window follows from where it would stand in each of the
// window's eight rows, and from how many entries before that are the first of their column.

namespace {

constexpr int WINDOW = 8, TILE_K = 16, LANES = 8, THREADS = 1024;

__device__ int lower_bound(const int* indices, int begin, int end, int column) {
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (indices[middle] < column) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

__device__ int row_of_lanes() { return (blockIdx.x * blockDim.x + threadIdx.x) / LANES; }

// Tiles of a piece of a window that has so many.
__device__ int piece_of_window(int tiles, int most, int parts_most) {
    return max(most, (tiles + parts_most - 1) / parts_most);
}

// Running sums of a window's tiles, its pieces, its parts, and whether it is cut.
struct Sums {
    int tiles, pieces, parts, cut;
};

__device__ Sums sums_of_window(int tiles, int most, int parts_most) {
    const int piece = piece_of_window(tiles, most, parts_most), pieces = max((tiles + piece - 1) / piece, 1);
    return {tiles, pieces, pieces > 1 ? pieces : 0, pieces > 1};
}

__device__ Sums operator+(const Sums& x, const Sums& y) {
    return {x.tiles + y.tiles, x.pieces + y.pieces, x.parts + y.parts, x.cut + y.cut};
}

__device__ Sums from_lane(const Sums& x, int lane) {
    return {
        __shfl_sync(~0u, x.tiles, lane), __shfl_sync(~0u, x.pieces, lane), __shfl_sync(~0u, x.parts, lane),
        __shfl_sync(~0u, x.cut, lane)};
}

// Sums over all threads of the warp up to and with this one.
__device__ Sums scanned(Sums own) {
    for (int distance = 1; distance < 32; distance *= 2) {
        const int lane = threadIdx.x % 32;
        const Sums below = from_lane(own, max(lane - distance, 0));
        if (lane >= distance) own = own + below;
    }
    return own;
}

}  // namespace

// first[entry] = 1 where no row above in the window has the entry's column.
extern "C" __global__ void mark_first(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, int* __restrict__ first) {
    const int row = row_of_lanes();
    if (row >= m) return;
    const int end = indptr[row + 1];
    for (int entry = indptr[row] + threadIdx.x % LANES; entry < end; entry += LANES) {
        const int column = indices[entry];
        bool known = false;
        for (int above = row / WINDOW * WINDOW; above < row && !known; ++above) {
            const int stop = indptr[above + 1], at = lower_bound(indices, indptr[above], stop, column);
            known = at < stop && indices[at] == column;
        }
        first[entry] = !known;
    }
}

// Tiles of each window; `before` counts the first entries before each entry.
extern "C" __global__ void count_tiles(
    const int* __restrict__ indptr, const int* __restrict__ before, int m, int windows, int* __restrict__ tiles) {
    const int window = blockIdx.x * blockDim.x + threadIdx.x;
    if (window >= windows) return;
    const int vectors = before[indptr[min((window + 1) * WINDOW, m)]] - before[indptr[window * WINDOW]];
    tiles[window] = (vectors + TILE_K - 1) / TILE_K;
}

// begins[window] = tiles, pieces, parts and cut windows before it; one more line holds all of them. One CTA.
extern "C" __global__ void __launch_bounds__(THREADS) place_windows(
    const int* __restrict__ tiles, int windows, int most, int parts_most, int4* __restrict__ begins) {
    __shared__ Sums of_warp[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Sums before = {0, 0, 0, 0};
    for (int first = 0; first < windows; first += THREADS) {
        const int window = first + threadIdx.x;
        const Sums own = window < windows ? sums_of_window(tiles[window], most, parts_most) : Sums{0, 0, 0, 0};
        const Sums here = scanned(own);
        if (lane == 31) of_warp[warp] = here;
        __syncthreads();
        const Sums warps = scanned(of_warp[lane]);
        const Sums to = before + here + (warp > 0 ? from_lane(warps, warp - 1) : Sums{0, 0, 0, 0});
        if (window < windows) {
            begins[window] = make_int4(
                to.tiles - own.tiles, to.pieces - own.pieces, to.parts - own.parts, to.cut - own.cut);
        }
        before = before + from_lane(warps, 31);
        __syncthreads();
    }
    if (threadIdx.x == 0) begins[windows] = make_int4(before.tiles, before.pieces, before.parts, before.cut);
}

// The columns of all tiles, and the bits of their values.
template <class Bits>
__device__ void place(
    const int* indptr, const int* indices, const Bits* values, const int* before, const int4* begins, int m,
    int* columns, Bits* data) {
    const int row = row_of_lanes();
    if (row >= m) return;
    const int window = row / WINDOW, end = indptr[row + 1];
    const long long slots = static_cast<long long>(begins[window].x) * TILE_K;
    int rows[WINDOW + 1];
#pragma unroll
    for (int i = 0; i <= WINDOW; ++i) rows[i] = indptr[min(window * WINDOW + i, m)];
    for (int entry = indptr[row] + threadIdx.x % LANES; entry < end; entry += LANES) {
        const int column = indices[entry];
        int rank = 0;
#pragma unroll
        for (int i = 0; i < WINDOW; ++i) {
            rank += before[lower_bound(indices, rows[i], rows[i + 1], column)] - before[rows[i]];
        }
        const long long slot = slots + rank;
        if (before[entry + 1] != before[entry]) columns[slot] = column;
        data[(slot / TILE_K * WINDOW + row % WINDOW) * TILE_K + slot % TILE_K] = values[entry];
    }
}

extern "C" __global__ void place_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ before, const int4* __restrict__ begins, int m, int* __restrict__ columns,
    unsigned short* __restrict__ data) {
    place(indptr, indices, values, before, begins, m, columns, data);
}

extern "C" __global__ void place_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ before, const int4* __restrict__ begins, int m, int* __restrict__ columns,
    unsigned* __restrict__ data) {
    place(indptr, indices, values, before, begins, m, columns, data);
}

extern "C" __global__ void place_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ before, const int4* __restrict__ begins, int m, int* __restrict__ columns,
    unsigned long long* __restrict__ data) {
    place(indptr, indices, values, before, begins, m, columns, data);
}

// The list of pieces, the parts of windows that are cut, and the first piece of each chunk of `share` of the cost. A
// piece that is number i and begins with tile b has cost b + i before it.
extern "C" __global__ void list_pieces(
    const int4* __restrict__ begins, int windows, int most, int parts_most, int share, int chunk_count,
    int4* __restrict__ items, int4* __restrict__ cut, int* __restrict__ chunks) {
    const int window = blockIdx.x * blockDim.x + threadIdx.x;
    if (window >= windows) return;
    const int4 own = begins[window], next = begins[window + 1];
    const int pieces = next.y - own.y, piece = piece_of_window(next.x - own.x, most, parts_most);
    int chunk = 0;
    if (window > 0) {
        const int4 above = begins[window - 1];
        const int length = piece_of_window(own.x - above.x, most, parts_most);
        chunk = (above.x + (own.y - above.y - 1) * length + own.y - 1) / share + 1;
    }
    for (int i = 0; i < pieces; ++i) {
        const int begin = own.x + i * piece, end = min(begin + piece, next.x), item = own.y + i;
        items[item] = make_int4(window, begin, end, pieces > 1 ? own.z + i : -1);
        if (pieces > 1) cut[own.z + i] = make_int4(own.w, own.z, pieces, 0);
        for (; chunk <= (begin + item) / share; ++chunk) chunks[chunk] = item;
    }
    if (window == windows - 1) {
        for (; chunk <= chunk_count; ++chunk) chunks[chunk] = next.y;
    }
}
