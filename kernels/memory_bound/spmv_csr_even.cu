/*---
name: spmv_csr_even
study: memory_bound
source: "Greathouse & Daga 2014 for the sums in shared memory, Merrill & Garland 2016 for the even cut; the CUDA-core side of Zhang et al. 2025, section 5.2"
idea: tiles of equally many entries; products go to shared memory while the next tile is on its way, and all threads add up the tile's rows at once
format: csr_even
format_options: {items: 1024, groups: 4, multiprocessors: device.multiprocessors}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
features: [cp_async, ld, ld_nc]
tile: {threads: 256, group: 256, ctas: 4, batch: 4, stages: 0, evict: 0, longest: 32}
# For each chunk the part of a row that began in an earlier one. All bits set: not there yet.
scratch: 8 * a.chunks * n
launch:
  grid: ceil_div(a.chunks, tile.threads // tile.group), n
  block: tile.threads
  smem: tile.threads * tile.batch * max(16, 12 * tile.stages)
  args: a.tile_row, a.indptr, a.indices, a.data, b, c, scratch, a.tiles, a.chunks, a.steps, a.longer, m, nnz, b.ld, c.ld
deviations:
  - "tiles are cut once for each matrix and not at each call, and threads add up rows instead of following the path"
---*/
#include "ptx/cp_async.cuh"
#include "ptx/ld.cuh"
#include "ptx/ld_nc.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr unsigned long long ABSENT = ~0ull;
constexpr int GROUP = TILE_GROUP, GROUPS = TILE_THREADS / GROUP, ENTRIES = GROUP * TILE_BATCH;
// A tile comes by asynchronous copies to one of several buffers, where its products take the places of its values; or to
// registers, before the last tile is added up (0 stages) or after it (1), and its products go to one of two buffers.
constexpr bool ASYNC = TILE_STAGES > 1, EARLY = TILE_STAGES == 0;
constexpr int BUFFERS = ASYNC ? TILE_STAGES : 2, AHEAD = ASYNC ? TILE_STAGES - 1 : 1;

static_assert(GROUP == 32 || GROUP == TILE_THREADS, "a group is a warp or the CTA");
static_assert((GROUP & (GROUP - 1)) == 0 && GROUP >= 32, "a power of two of threads shares a tile");
static_assert(!ASYNC || TILE_BATCH % 4 == 0, "copies are of 16 bytes");

template <typename Number>
__device__ __forceinline__ Number stream(const Number* global) {
    if constexpr (TILE_EVICT) {
        return ptx::load_once(global);
    } else {
        return ptx::load_streamed(global);
    }
}

__device__ __forceinline__ void sync() {
    if constexpr (GROUP == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

__device__ __forceinline__ double sum_of_warp(double sum) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
    return sum;
}

// A load that stays where it is written.
__device__ __forceinline__ int load_number(const int* global) {
    return static_cast<int>(ptx::load_here(reinterpret_cast<const unsigned*>(global)));
}

// A chunk of tiles in one column of C: sums of the rows that begin in it. Each chunk leaves its part of the row that it
// finds begun in `parts`, as soon as it has it and without waiting; only the chunk in which a row begins waits, at its
// own end, when the others have long left theirs. CTAs begin in order, so that at most one row reaches from those that
// have begun to those that have not, at most one chunk waits for it, and another one always ends.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spmv_csr_even(
    const int* __restrict__ tile_row, const int* __restrict__ indptr, const int* __restrict__ indices,
    const double* __restrict__ data, const double* __restrict__ b, double* __restrict__ c,
    unsigned long long* parts, int tiles, int chunks, int steps, int longer, int m, int nnz, long long ldb,
    long long ldc) {
    extern __shared__ __align__(16) double shared[];
    __shared__ double carried_of[GROUPS][2];
    const int thread = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
    const int chunk = blockIdx.x * GROUPS + group;
    if (chunk >= chunks) return;
    double* products = shared + group * BUFFERS * ENTRIES;
    int* columns = reinterpret_cast<int*>(shared + GROUPS * BUFFERS * ENTRIES) + group * BUFFERS * ENTRIES;
    double* carried = carried_of[group];
    const double* x = b + blockIdx.y * ldb;
    // One address, and not two that are added up for each entry.
    asm("" : "+l"(x));
    double* y = c + blockIdx.y * ldc;
    parts += static_cast<long long>(blockIdx.y) * chunks;
    if (nnz == 0) {
        for (int row = thread; row < m; row += GROUP) y[row] = 0.0;
        return;
    }
    const auto leave = [&](double sum) {
        // A sum that is no number may not have all bits set.
        const double part = sum == sum ? sum : __longlong_as_double(0x7ff8000000000000ll);
        *static_cast<volatile unsigned long long*>(parts + chunk) = __double_as_longlong(part);
    };

    // The first `longer` chunks have `steps` + 1 tiles, the others `steps`.
    const int first_tile = chunk * steps + min(chunk, longer);
    const int last_tile = first_tile + steps + (chunk < longer);
    const int chunk_begin = first_tile * ENTRIES;

    // A tile, to registers or to a buffer.
    const auto load = [&](int tile, int (&column)[TILE_BATCH], double (&value)[TILE_BATCH]) {
        const unsigned first = static_cast<unsigned>(tile) * ENTRIES + thread;
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) column[i] = stream(indices + first + i * GROUP);
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) value[i] = stream(data + first + i * GROUP);
    };
    const auto copy = [&](int tile, int buffer) {
        const unsigned first = static_cast<unsigned>(tile) * ENTRIES;
#pragma unroll
        for (int i = 0; i < TILE_BATCH / 4; ++i) {
            const int place = 4 * (thread + i * GROUP);
            ptx::cp_async_16(columns + buffer * ENTRIES + place, indices + first + place);
        }
#pragma unroll
        for (int i = 0; i < TILE_BATCH / 2; ++i) {
            const int place = 2 * (thread + i * GROUP);
            ptx::cp_async_16(products + buffer * ENTRIES + place, data + first + place);
        }
    };
    int column[TILE_BATCH];
    double value[TILE_BATCH];
    if constexpr (ASYNC) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (first_tile + i < last_tile) copy(first_tile + i, i);
            ptx::cp_async_commit();
        }
    } else if constexpr (EARLY) {
        load(first_tile, column, value);
    }
    int row0 = tile_row[first_tile], row1 = tile_row[first_tile + 1];
    int buffer = 0;
    if (thread == 0) carried[first_tile % 2] = 0.0;
    for (int tile = first_tile; tile < last_tile; ++tile) {
        // Every row of the tile, and the one that goes on behind its last entry, gets as many lanes as there are for all
        // at once, 32 at most; their number is a power of two.
        const int entry0 = tile * ENTRIES, rows = row1 - row0;
        const int shift = max(min(__clz(rows) - __clz(GROUP - 1), 5), 0), lanes = 1 << shift;
        const int lane = thread & (lanes - 1);
        int i = thread >> shift;
        int start, stop;
        const auto find = [&] {
            const int row = min(row0 + i, row1);
            start = load_number(indptr + row);
            stop = load_number(indptr + min(row + 1, m));
        };
        if constexpr (!ASYNC && !EARLY) load(tile, column, value);
        find();
        const int row2 = load_number(tile_row + min(tile + 2, tiles));

        double* own = products + buffer * ENTRIES;
        int next_column[TILE_BATCH];
        double next_value[TILE_BATCH];
        if constexpr (ASYNC) {
            ptx::cp_async_wait<AHEAD - 1>();
            sync();
            if (tile + AHEAD < last_tile) copy(tile + AHEAD, buffer == 0 ? BUFFERS - 1 : buffer - 1);
            ptx::cp_async_commit();
            const int* from = columns + buffer * ENTRIES;
            double met[TILE_BATCH];
#pragma unroll
            for (int j = 0; j < TILE_BATCH; ++j) met[j] = ptx::load_cached(x + from[thread + j * GROUP]);
#pragma unroll
            for (int j = 0; j < TILE_BATCH; ++j) own[thread + j * GROUP] *= met[j];
        } else {
            double met[TILE_BATCH];
#pragma unroll
            for (int j = 0; j < TILE_BATCH; ++j) met[j] = ptx::load_cached(x + column[j]);
            if (EARLY && tile + 1 < last_tile) load(tile + 1, next_column, next_value);
#pragma unroll
            for (int j = 0; j < TILE_BATCH; ++j) own[thread + j * GROUP] = value[j] * met[j];
        }
        sync();

        for (int first = 0; first <= rows; first += GROUP >> shift, i += GROUP >> shift) {
            if (first > 0) find();
            const int begin = max(start - entry0, 0), end = i <= rows ? min(stop - entry0, ENTRIES) : 0;
            // A row with more than TILE_LONGEST products a lane would hold up its warp, which takes it as a whole.
            const bool waits = end - begin > TILE_LONGEST << shift;
            double sum = 0.0;
            if (!waits) {
#pragma unroll 4
                for (int entry = begin + lane; entry < end; entry += lanes) sum += own[entry];
            }
            for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
            for (unsigned waiting = __ballot_sync(ALL, waits && lane == 0); waiting; waiting &= waiting - 1) {
                const int source = __ffs(waiting) - 1;
                const int long_begin = __shfl_sync(ALL, begin, source), long_end = __shfl_sync(ALL, end, source);
                double part = 0.0;
                for (int entry = long_begin + threadIdx.x % 32; entry < long_end; entry += 32) part += own[entry];
                part = sum_of_warp(part);
                if (threadIdx.x % 32 == source) sum = part;
            }
            if (lane == 0 && i <= rows) {
                if (i == 0) sum += carried[tile % 2];
                if (i == rows) {
                    carried[(tile + 1) % 2] = sum;
                } else if (i == 0 && start < chunk_begin) {
                    leave(sum);
                } else {
                    y[row0 + i] = sum;
                }
            }
        }
        row0 = row1;
        row1 = row2;
        if constexpr (EARLY) {
#pragma unroll
            for (int j = 0; j < TILE_BATCH; ++j) {
                column[j] = next_column[j];
                value[j] = next_value[j];
            }
        }
        buffer = buffer == BUFFERS - 1 ? 0 : buffer + 1;
    }

    // The row that goes on behind the chunk, if one does.
    if (row0 == m) return;
    const int start = indptr[row0];
    if (start - (last_tile - 1) * ENTRIES >= ENTRIES) return;
    sync();
    if (thread >= 32) return;
    if (start < chunk_begin) {
        if (thread == 0) leave(carried[last_tile % 2]);
        return;
    }
    const int end_tile = (indptr[row0 + 1] - 1) / ENTRIES;
    const int last =
        end_tile < longer * (steps + 1) ? end_tile / (steps + 1) : longer + (end_tile - longer * (steps + 1)) / steps;
    double sum = thread == 0 ? carried[last_tile % 2] : 0.0;
    for (int other = chunk + 1 + thread; other <= last; other += 32) {
        volatile unsigned long long* part = parts + other;
        unsigned long long bits;
        while ((bits = *part) == ABSENT) __nanosleep(32);
        *part = ABSENT;
        sum += __longlong_as_double(bits);
    }
    sum = sum_of_warp(sum);
    if (thread == 0) y[row0] = sum;
}
