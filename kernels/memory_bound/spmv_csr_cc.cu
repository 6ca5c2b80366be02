/*---
name: spmv_csr_cc
study: memory_bound
source: "Merrill & Garland 2016 for the partition of the work, Greathouse & Daga 2014 for the sums in shared memory; the CUDA-core side of Zhang et al. 2025, section 5.2"
idea: chunks of equally many entries and rows, one per CTA; products of a tile go to shared memory while the next tile is in flight, and all free lanes add up each row
format: csr_merge_path
format_options: {items: tile.threads * tile.batch, chunks: tile.ctas * device.multiprocessors}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
features: [ld, ld_nc]
tile: {threads: 256, ctas: 4, batch: 6, longest: 64}
# For each chunk the partial sum of a row that began in an earlier chunk; all bits set means not yet computed.
scratch: 8 * a.chunks * n
launch:
  grid: a.chunks, n
  block: tile.threads
  smem: 20 * a.items
  args: a.tile_row, a.indptr, a.indices, a.data, b, c, scratch, a.steps, a.width, m, nnz, b.ld, c.ld
deviations:
  - "tiles are determined once per matrix instead of at each call, and threads add up rows instead of following the merge path"
---*/
#include "ptx/ld.cuh"
#include "ptx/ld_nc.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr unsigned long long ABSENT = ~0ull;
// Capacity of a tile. Loads are aligned to 128 bytes of indices, so a tile also loads up to ALIGNMENT - 1 earlier
// entries.
constexpr int ITEMS = TILE_THREADS * TILE_BATCH, ALIGNMENT = 32;

static_assert((TILE_THREADS & (TILE_THREADS - 1)) == 0 && TILE_THREADS >= 32, "the number of threads of a tile is a power of two");
static_assert(ITEMS < 65536, "16 bits say where a row begins");

__device__ __forceinline__ double sum_of_warp(double sum) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
    return sum;
}

// A load that the compiler does not move.
__device__ __forceinline__ int load_number(const int* global) {
    return static_cast<int>(ptx::load_here(reinterpret_cast<const unsigned*>(global)));
}

// A CTA computes, for one column of C, the rows that begin in its chunk of tiles.
//
// A row that covers several chunks: each later chunk stores its partial sum in `partials` as soon as it is computed and
// does not wait. Only the chunk in which the row begins waits, at its own end, when the others have usually finished.
// This cannot deadlock: CTAs start in order, so at most one row reaches from started CTAs to those that have not
// started, and at most one chunk waits for it while another one finishes and makes room.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spmv_csr_cc(
    const int* __restrict__ tile_row, const int* __restrict__ indptr, const int* __restrict__ indices,
    const double* __restrict__ data, const double* __restrict__ b, double* __restrict__ c,
    unsigned long long* partials, int steps, int width, int m, int nnz, long long ldb, long long ldc) {
    // The products of two tiles, then the first product of each of their rows.
    extern __shared__ double shared[];
    __shared__ double carried[2];
    const int thread = threadIdx.x, chunk = blockIdx.x, chunks = gridDim.x;
    const double* x = b + blockIdx.y * ldb;
    // Keeps the compiler from adding two addresses for each entry.
    asm("" : "+l"(x));
    double* y = c + blockIdx.y * ldc;
    partials += static_cast<long long>(blockIdx.y) * chunks;
    const auto publish = [&](double sum) {
        // A NaN must not have all bits set.
        const double partial = sum == sum ? sum : __longlong_as_double(0x7ff8000000000000ll);
        *static_cast<volatile unsigned long long*>(partials + chunk) = __double_as_longlong(partial);
    };
    const int tiles = chunks * steps, first_tile = chunk * steps, last_tile = first_tile + steps;
    const auto entry_of = [&](int tile, int row) {
        return static_cast<int>(min(static_cast<long long>(tile) * width, static_cast<long long>(m) + nnz) - row);
    };
    // Load the entries of a tile, from the aligned one at or before `entry0` up to `entry1` - 1.
    const auto load = [&](int entry0, int entry1, int (&column)[TILE_BATCH], double (&value)[TILE_BATCH]) {
        const int first = (entry0 & -ALIGNMENT) + thread;
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (first + i * TILE_THREADS < entry1) column[i] = ptx::load_streamed(indices + first + i * TILE_THREADS);
        }
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (first + i * TILE_THREADS < entry1) value[i] = ptx::load_streamed(data + first + i * TILE_THREADS);
        }
    };

    int column[TILE_BATCH];
    double value[TILE_BATCH];
    int row0 = tile_row[first_tile], row1 = tile_row[first_tile + 1], row2 = tile_row[min(first_tile + 2, tiles)];
    int entry0 = entry_of(first_tile, row0), entry1 = entry_of(first_tile + 1, row1);
    load(entry0, entry1, column, value);
    // The row that an earlier chunk began, or -1.
    const int begun = indptr[row0] < entry0 ? row0 : -1;
    if (thread == 0) carried[first_tile % 2] = 0.0;
    for (int tile = first_tile; tile < last_tile; ++tile) {
        // Row i of the tile has the products begins[i] to begins[i + 1] - 1; row `rows` continues in the next tile.
        const int base = entry0 & -ALIGNMENT, entries = entry1 - base, rows = row1 - row0;
        double* products = shared + tile % 2 * ITEMS;
        unsigned short* begins = reinterpret_cast<unsigned short*>(shared + 2 * ITEMS) + tile % 2 * ITEMS;
        const auto begin_with = [&](int i, int pointer) { begins[i] = min(max(pointer, entry0), entry1) - base; };
        const int pointer = load_number(indptr + min(row0 + thread, row1));
        const int second = load_number(indptr + min(row0 + thread + TILE_THREADS, row1));
        const int row3 = load_number(tile_row + min(tile + 3, tiles));
        const int entry2 = entry_of(tile + 2, row2);
        int next_column[TILE_BATCH];
        double met[TILE_BATCH], next_value[TILE_BATCH];
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (thread + i * TILE_THREADS < entries) met[i] = ptx::load_cached(x + column[i]);
        }
        if (tile + 1 < last_tile) load(entry1, entry2, next_column, next_value);
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (thread + i * TILE_THREADS < entries) products[thread + i * TILE_THREADS] = value[i] * met[i];
        }
        if (thread <= rows) begin_with(thread, pointer);
        if (thread + TILE_THREADS <= rows) begin_with(thread + TILE_THREADS, second);
        // Only if rows are very short: four at a time, so that their latencies overlap.
        for (int first = thread + 2 * TILE_THREADS; first <= rows; first += 4 * TILE_THREADS) {
            int more[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) more[i] = load_number(indptr + min(row0 + first + i * TILE_THREADS, row1));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (first + i * TILE_THREADS <= rows) begin_with(first + i * TILE_THREADS, more[i]);
            }
        }
        if (thread == 0) begins[rows + 1] = entries;
        __syncthreads();

        // Every row gets an equal number of lanes, a power of two and 32 at most, so that all rows are added at once if
        // there are enough threads.
        const int shift = max(min(__clz(rows) - __clz(TILE_THREADS - 1), 5), 0), lanes = 1 << shift;
        const int lane = thread & (lanes - 1);
        for (int first = 0; first <= rows; first += TILE_THREADS >> shift) {
            const int i = first + (thread >> shift);
            const int begin = i <= rows ? begins[i] : 0, end = i <= rows ? begins[i + 1] : 0;
            // A row with more than TILE_LONGEST products per lane would delay its warp, so the whole warp adds it up.
            const bool waits = end - begin > TILE_LONGEST << shift;
            double sum = 0.0;
            if (!waits) {
#pragma unroll 4
                for (int entry = begin + lane; entry < end; entry += lanes) sum += products[entry];
            }
            for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
            for (unsigned waiting = __ballot_sync(ALL, waits && lane == 0); waiting; waiting &= waiting - 1) {
                const int source = __ffs(waiting) - 1;
                const int long_begin = __shfl_sync(ALL, begin, source), long_end = __shfl_sync(ALL, end, source);
                double partial = 0.0;
                for (int entry = long_begin + thread % 32; entry < long_end; entry += 32) partial += products[entry];
                partial = sum_of_warp(partial);
                if (thread % 32 == source) sum = partial;
            }
            if (lane == 0 && i <= rows) {
                if (i == 0) sum += carried[tile % 2];
                if (i == rows) {
                    carried[(tile + 1) % 2] = sum;
                } else if (row0 + i == begun) {
                    publish(sum);
                } else {
                    y[row0 + i] = sum;
                }
            }
        }
        row0 = row1;
        row1 = row2;
        row2 = row3;
        entry0 = entry1;
        entry1 = entry2;
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            column[i] = next_column[i];
            value[i] = next_value[i];
        }
    }

    // The row that continues after the chunk, if any.
    if (row0 == m) return;
    __syncthreads();
    if (thread >= 32) return;
    double sum = thread == 0 ? carried[last_tile % 2] : 0.0;
    if (row0 == begun) {
        if (thread == 0) publish(sum);
        return;
    }
    if (indptr[row0] >= entry0) return;
    for (int other = chunk + 1 + thread; other < chunks && tile_row[other * steps] == row0; other += 32) {
        volatile unsigned long long* partial = partials + other;
        unsigned long long bits;
        while ((bits = *partial) == ABSENT) __nanosleep(32);
        *partial = ABSENT;
        sum += __longlong_as_double(bits);
    }
    sum = sum_of_warp(sum);
    if (thread == 0) y[row0] = sum;
}
