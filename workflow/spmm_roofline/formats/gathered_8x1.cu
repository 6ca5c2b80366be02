// Packs a CSR in device memory as blocks of windows of WINDOW rows. A CTA counts the distinct columns of a block in a hash
// table; where a column stands among those of its window follows from `before`, which windows.cu makes.
//
// WINDOW, TILE_K, MOST_WINDOWS and CAPACITY, the largest one, are defined by gathered_8x1.py, builder.cuh stands before.

namespace {

// Distinct columns of a block, at most CAPACITY and what threads add before they see that there are more.
constexpr int TABLE = 4096, NONE = -1;

struct Distinct {
    int table[TABLE];
    int count;
};

// Puts the columns of entries `begin` to `end` into a table that is empty; true if there are no more than `capacity`.
__device__ bool distinct(Distinct& of, const int* indices, int begin, int end, int capacity) {
    __syncthreads();
    for (int i = threadIdx.x; i < TABLE; i += CTA) of.table[i] = NONE;
    if (threadIdx.x == 0) of.count = 0;
    __syncthreads();
    volatile int* const count = &of.count;
    for (int entry = begin + threadIdx.x; entry < end && *count <= capacity; entry += CTA) {
        const int column = indices[entry];
        int at = static_cast<int>(static_cast<unsigned>(column) * 2654435769u >> 20);
        while (true) {
            const int there = atomicCAS(of.table + at, NONE, column);
            if (there == NONE) atomicAdd(&of.count, 1);
            if (there == NONE || there == column) break;
            at = (at + 1) % TABLE;
        }
    }
    __syncthreads();
    return *count <= capacity;
}

}  // namespace

static_assert(TABLE == 1 << 12 && CAPACITY + CTA < TABLE / 2, "a hash has twelve bits, and collides seldom");

// For each window the distinct columns of the block that begins with it, or -1. A CTA for MOST_WINDOWS windows: as many
// of them are a block as have no more than `capacity` columns, of 1, 2, 4, … that begin at a multiple of their number.
extern "C" __global__ void __launch_bounds__(CTA) choose_blocks(
    const int* __restrict__ indptr, const int* __restrict__ indices, const int* __restrict__ before, int m, int windows,
    int capacity, int* __restrict__ unique) {
    __shared__ Distinct found;
    const int first = blockIdx.x * MOST_WINDOWS, last = min(first + MOST_WINDOWS, windows);
    for (int window = first; window < last;) {
        int size = window == first ? MOST_WINDOWS : window & -window;
        int begin, end;
        bool fits = false;
        while (!fits) {
            begin = indptr[window * WINDOW], end = indptr[min(min(window + size, windows) * WINDOW, m)];
            fits = size == 1 || distinct(found, indices, begin, end, capacity);
            if (!fits) size /= 2;
        }
        const int count = size == 1 ? before[end] - before[begin] : found.count;
        for (int i = threadIdx.x; i < min(size, last - window); i += CTA) unique[window + i] = i == 0 ? count : NONE;
        window += size;
    }
}

// With which tile each window begins, and the blocks: the first of their columns and their first windows. `numbers` are
// those of blocks, their columns and tiles, and the columns of the window that has most, zeros before.
extern "C" __global__ void __launch_bounds__(CTA) count_blocks(
    const int* __restrict__ indptr, const int* __restrict__ before, const int* __restrict__ unique, int m, int windows,
    Count* states, Count* more_states, int* __restrict__ first_tile, int2* __restrict__ work,
    int* __restrict__ numbers) {
    const int window = thread_in_turn(states);
    int tiles = 0, columns = NONE;
    if (window < windows) {
        const int vectors = before[indptr[min((window + 1) * WINDOW, m)]] - before[indptr[window * WINDOW]];
        tiles = (vectors + TILE_K - 1) / TILE_K, columns = unique[window];
        atomicMax(numbers + 3, vectors);
    }
    const int tiles_up_to = low_of(summed(tiles, window, states));
    const Count blocks = summed(columns >= 0 ? both(1, columns) : 0, window, more_states);
    if (window == 0) first_tile[0] = 0;
    if (window < windows) first_tile[window + 1] = tiles_up_to;
    if (columns >= 0) work[low_of(blocks) - 1] = make_int2(high_of(blocks) - columns, window);
    if (window == max(windows, 1) - 1) {
        work[low_of(blocks)] = make_int2(high_of(blocks), windows);
        numbers[0] = low_of(blocks), numbers[1] = high_of(blocks), numbers[2] = tiles_up_to;
    }
}

namespace {

// A block a CTA: its columns, sorted, and the places and values of its tiles.
template <class Bits>
__device__ void fill(
    const int* indptr, const int* indices, const Bits* values, const int* before, const int* first_tile,
    const int2* work, int m, int capacity, int* columns, unsigned short* places, Bits* data) {
    __shared__ Distinct found;
    __shared__ int sorted[CAPACITY];
    __shared__ int taken;
    const int2 own = work[blockIdx.x], next = work[blockIdx.x + 1];
    const int first_row = own.y * WINDOW, last_row = min(next.y * WINDOW, m), count = next.x - own.x;
    const int begin = indptr[first_row], end = indptr[last_row];
    // The columns of a window alone are in the order of its vectors.
    const bool alone = next.y == own.y + 1;
    if (!alone) {
        distinct(found, indices, begin, end, capacity);
        if (threadIdx.x == 0) taken = 0;
        int size = 1;
        while (size < count) size *= 2;
        for (int i = threadIdx.x; i < size; i += CTA) sorted[i] = 0x7FFFFFFF;
        __syncthreads();
        for (int i = threadIdx.x; i < TABLE; i += CTA) {
            if (found.table[i] != NONE) sorted[atomicAdd(&taken, 1)] = found.table[i];
        }
        __syncthreads();
        // Batcher's bitonic sort.
        for (int run = 2; run <= size; run *= 2) {
            for (int distance = run / 2; distance > 0; distance /= 2) {
                for (int i = threadIdx.x; i < size; i += CTA) {
                    const int other = i ^ distance;
                    if (other > i && (sorted[i] > sorted[other]) == ((i & run) == 0)) {
                        const int x = sorted[i];
                        sorted[i] = sorted[other], sorted[other] = x;
                    }
                }
                __syncthreads();
            }
        }
        for (int i = threadIdx.x; i < count; i += CTA) columns[own.x + i] = sorted[i];
    }
    for (int entry = begin + threadIdx.x; entry < end; entry += CTA) {
        const int row = lower_bound(indptr, first_row, last_row + 1, entry + 1) - 1;
        const int window = row / WINDOW, column = indices[entry];
        const int top = window * WINDOW, bottom = min(top + WINDOW, m);
        int rank = 0;
        for (int i = top; i < bottom; ++i) {
            const int from = indptr[i];
            rank += before[lower_bound(indices, from, indptr[i + 1], column)] - before[from];
        }
        const long long slot = static_cast<long long>(first_tile[window]) * TILE_K + rank;
        data[(slot / TILE_K * WINDOW + row % WINDOW) * TILE_K + slot % TILE_K] = values[entry];
        if (before[entry + 1] == before[entry]) continue;
        const int place = alone ? rank : lower_bound(sorted, 0, count, column);
        if (alone) columns[own.x + rank] = column;
        places[slot] = static_cast<unsigned short>(place);
        if (rank + 1 == before[indptr[bottom]] - before[indptr[top]]) {
            const long long after = static_cast<long long>(first_tile[window + 1]) * TILE_K;
            for (long long i = slot + 1; i < after; ++i) places[i] = static_cast<unsigned short>(place);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(CTA) fill_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ first_tile, const int2* __restrict__ work, int m,
    int capacity, int* __restrict__ columns, unsigned short* __restrict__ places, unsigned short* __restrict__ data) {
    fill(indptr, indices, values, before, first_tile, work, m, capacity, columns, places, data);
}

extern "C" __global__ void __launch_bounds__(CTA) fill_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ first_tile, const int2* __restrict__ work, int m,
    int capacity, int* __restrict__ columns, unsigned short* __restrict__ places, unsigned* __restrict__ data) {
    fill(indptr, indices, values, before, first_tile, work, m, capacity, columns, places, data);
}

extern "C" __global__ void __launch_bounds__(CTA) fill_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ before, const int* __restrict__ first_tile, const int2* __restrict__ work, int m,
    int capacity, int* __restrict__ columns, unsigned short* __restrict__ places,
    unsigned long long* __restrict__ data) {
    fill(indptr, indices, values, before, first_tile, work, m, capacity, columns, places, data);
}
