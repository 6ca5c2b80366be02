// Packs a CSR in device memory as windows of WINDOW rows, without a sort: the rows of a CSR are sorted, and WINDOW lanes
// merge those of a window, each with a row of it.
//
// WINDOW, TILE_K and STRETCH are defined by windows.py, builder.cuh stands before.

namespace {

// No column: behind the last one of a row.
constexpr int NONE = 0x7FFFFFFF;

// A window's columns come in stretches, about one for STRETCH entries, each for WINDOW lanes. The number of a window's
// first one; its others follow.
__device__ int first_stretch(const int* indptr, int m, int window) {
    return window + indptr[min(window * WINDOW, m)] / STRETCH;
}

// A stretch, and what a lane has of it: entries `at` to `end` of its row.
struct Stretch {
    int number, window, at, end;
    // The last column of the window, or 0.
    int last;
    bool is_last;
};

// Sum over the WINDOW lanes around each one of `lanes`, and the largest.
__device__ int added(int own, unsigned lanes) {
    for (int distance = WINDOW / 2; distance > 0; distance /= 2) own += __shfl_xor_sync(lanes, own, distance);
    return own;
}
__device__ int largest(int own, unsigned lanes) {
    for (int distance = WINDOW / 2; distance > 0; distance /= 2) own = max(own, __shfl_xor_sync(lanes, own, distance));
    return own;
}

// Where in a lane's row, entries `begin` to `end`, the column lies that has `many` entries of all WINDOW rows before it:
// the least such column of so many `columns`. For the lanes of `group`.
__device__ int quantile(const int* indices, int begin, int end, int many, int columns, unsigned group) {
    const int first = begin;
    int low = 0, high = columns;
    while (low < high) {
        const int middle = low + (high - low) / 2, at = lower_bound(indices, begin, end, middle);
        if (added(at - first, group) < many) {
            low = middle + 1, begin = at;
        } else {
            high = middle, end = at;
        }
    }
    return lower_bound(indices, begin, end, low);
}

// That of this lane, one of WINDOW; without entries where there are no more. For all lanes of a warp.
__device__ Stretch stretch_of_lane(const int* indptr, const int* indices, int m, int windows, int stretches) {
    Stretch own = {thread() / WINDOW, 0, 0, 0, 0, false};
    int low = 0, high = own.number < stretches ? windows : 0;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (first_stretch(indptr, m, middle) <= own.number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    own.window = low - 1;
    const int lane = threadIdx.x % WINDOW, row = own.window * WINDOW + lane;
    int begin = 0, end = 0;
    if (low > 0 && row < m) begin = indptr[row], end = indptr[row + 1];
    own.last = largest(begin < end ? indices[end - 1] : 0, ~0u);
    own.at = begin, own.end = end;
    if (low == 0) return own;
    const int first = first_stretch(indptr, m, own.window), count = first_stretch(indptr, m, low) - first;
    const int part = own.number - first;
    own.is_last = part + 1 == count;
    if (count > 1) {
        const unsigned group = ~0u >> (32 - WINDOW) << (threadIdx.x % 32 - lane);
        const int length = end - begin, longest = largest(length, group);
        const int from = __shfl_sync(group, begin, __ffs(__ballot_sync(group, length == longest)) - 1);
        const long long all = added(length, group);
        // Stretches have about as many entries; or, where they are few, as many of the longest row, which is found sooner.
        const auto begin_of = [&](int part) {
            if (count > WINDOW) {
                return quantile(indices, begin, end, static_cast<int>(all * part / count), own.last + 1, group);
            }
            const int column = indices[from + static_cast<int>(static_cast<long long>(longest) * part / count)];
            return lower_bound(indices, begin, end, column);
        };
        if (part > 0) own.at = begin_of(part);
        if (!own.is_last) own.end = begin_of(part + 1);
    }
    return own;
}

// Calls take(column, number, mine, value) for the columns of a stretch in turn, for all of its lanes; `mine` says whether
// the lane's row has an entry there, of this value. Returns how many they are. For all lanes of a warp.
template <class Bits, class Take>
__device__ int merge(const Stretch& of, const int* indices, const Bits* values, const Take& take) {
    int at = of.at, column = at < of.end ? indices[at] : NONE, count = 0;
    while (__any_sync(~0u, column != NONE)) {
        int least = column;
        for (int distance = WINDOW / 2; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(~0u, least, distance));
        }
        const bool mine = column == least && at < of.end;
        Bits value = 0;
        if (mine && values != nullptr) value = values[at];
        if (mine) column = ++at < of.end ? indices[at] : NONE;
        if (least != NONE) take(least, count++, mine, value);
    }
    return count;
}

}  // namespace

// How many columns each stretch has.
extern "C" __global__ void __launch_bounds__(CTA) count_columns(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, int windows, int stretches,
    int* __restrict__ counts) {
    const Stretch own = stretch_of_lane(indptr, indices, m, windows, stretches);
    const unsigned char* none = nullptr;
    const int count = merge(own, indices, none, [](int, int, bool, unsigned char) {});
    if (own.number < stretches && threadIdx.x % WINDOW == 0) counts[own.number] = count;
}

// With which tile each window begins, and numbers = {all tiles, entries of the longest row}, zeros before. What stretches
// have becomes what those of their window before them have.
extern "C" __global__ void __launch_bounds__(CTA) count_tiles(
    const int* __restrict__ indptr, int* __restrict__ counts, int m, int windows, Count* states,
    int* __restrict__ begins, int* __restrict__ numbers) {
    const int window = thread_in_turn(states);
    int tiles = 0, longest = 0;
    if (window < windows) {
        for (int row = window * WINDOW; row < min(window * WINDOW + WINDOW, m); ++row) {
            longest = max(longest, indptr[row + 1] - indptr[row]);
        }
        const int end = first_stretch(indptr, m, window + 1);
        int columns = 0;
        for (int stretch = first_stretch(indptr, m, window); stretch < end; ++stretch) {
            const int own = counts[stretch];
            counts[stretch] = columns;
            columns += own;
        }
        tiles = max((columns + TILE_K - 1) / TILE_K, 1);
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

// The columns of all tiles, the bits of their values, and where windows end; `before` is what count_tiles() left.
template <class Bits>
__device__ void place(
    const int* indptr, const int* indices, const Bits* values, const int* before, const int* begins, const int* places,
    int m, int windows, int stretches, int* columns, Bits* data, int* ends) {
    const Stretch own = stretch_of_lane(indptr, indices, m, windows, stretches);
    const bool there = own.number < stretches;
    const int lane = threadIdx.x % WINDOW;
    const unsigned first = there ? static_cast<unsigned>(places[own.window]) * TILE_K : 0;
    const unsigned begin = there ? first + before[own.number] : 0;
    const int count = merge(own, indices, values, [&](int column, int number, bool mine, Bits value) {
        const unsigned slot = begin + number;
        if (lane == 0) columns[slot] = column;
        if (mine) data[(static_cast<long long>(slot / TILE_K) * WINDOW + lane) * TILE_K + slot % TILE_K] = value;
    });
    if (!there || !own.is_last) return;
    const int tiles = begins[own.window + 1] - begins[own.window];
    for (unsigned slot = begin + count + lane; slot < first + tiles * TILE_K; slot += WINDOW) columns[slot] = own.last;
    if (lane == 0) ends[first / TILE_K + tiles - 1] = own.window;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(CTA) place_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int stretches, int* __restrict__ columns, unsigned short* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, stretches, columns, data, ends);
}

extern "C" __global__ void __launch_bounds__(CTA) place_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int stretches, int* __restrict__ columns, unsigned* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, stretches, columns, data, ends);
}

extern "C" __global__ void __launch_bounds__(CTA) place_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ begins, const int* __restrict__ places, int m, int windows,
    int stretches, int* __restrict__ columns, unsigned long long* __restrict__ data, int* __restrict__ ends) {
    place(indptr, indices, values, before, begins, places, m, windows, stretches, columns, data, ends);
}
