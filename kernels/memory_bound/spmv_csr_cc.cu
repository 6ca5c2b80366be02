/*---
name: spmv_csr_cc
study: memory_bound
source: "Merrill & Garland 2016 for the cut of the work, Greathouse & Daga 2014 for the sums in shared memory; the CUDA-core side of Zhang et al. 2025, section 5.2"
idea: tiles of equally many entries and rows; products go to shared memory, and as many lanes add up a row as its tile's rows are long
format: csr_merge_path
format_options: {items: 2048}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
features: []
tile: {threads: 256, ctas: 4, batch: 8, serial: 4}
# Two parts a tile, of the row that goes on in the next and of the one that came from the one before, and for each row of
# several tiles how many of them have arrived.
scratch: (16 * a.tiles + 4 * a.split_rows) * n
launch:
  grid: a.tiles, n
  block: tile.threads
  smem: 8 * (a.items + 1) + 4 * ceil_div(a.items, 32)
  args: a.tile_row, a.crossing, a.split_row, a.split_first, a.split_last, a.indptr, a.indices, a.data, b, c, scratch, a.items, a.split_rows, m, nnz, b.ld, c.ld
deviations:
  - "tiles are cut once for each matrix and not at each call, and threads add up rows instead of following the path"
---*/
constexpr unsigned ALL = 0xffffffffu;

static_assert(TILE_THREADS % 32 == 0, "a CTA is whole warps");

// A tile's share of one column of C: sums of the rows that end in it, and one part of the row that does not, or zero.
//
// Products of `entries` entries and beginnings of rows + 2 rows lie one behind the other in shared memory: entries and
// rows are `items` together, so that 8 (items + 1) bytes hold both. Behind them is a list of long rows.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spmv_csr_cc(
    const int* __restrict__ tile_row, const int* __restrict__ crossing, const int* __restrict__ split_row,
    const int* __restrict__ split_first, const int* __restrict__ split_last, const int* __restrict__ indptr,
    const int* __restrict__ indices, const double* __restrict__ data, const double* __restrict__ b,
    double* __restrict__ c, double* parts, int items, int split_rows, int m, int nnz, long long ldb, long long ldc) {
    extern __shared__ double products[];
    int* long_rows = reinterpret_cast<int*>(products + items + 1);
    __shared__ int long_count;
    const int thread = threadIdx.x;
    const long long step = static_cast<long long>(blockIdx.x) * items;
    const int row0 = tile_row[blockIdx.x], row1 = tile_row[blockIdx.x + 1];
    const int entry0 = static_cast<int>(step - row0);
    const int entry1 = static_cast<int>(min(step + items, static_cast<long long>(m) + nnz) - row1);
    const int rows = row1 - row0, entries = entry1 - entry0;
    const double* x = b + blockIdx.y * ldb;
    double* y = c + blockIdx.y * ldc;
    // Rows that come from the tile before and that go on in the next, of those that several tiles share.
    const int from = rows > 0 ? crossing[blockIdx.x] : -1, on = crossing[blockIdx.x + 1];
    double* tails = parts + static_cast<long long>(blockIdx.y) * gridDim.x;
    double* heads = tails + static_cast<long long>(gridDim.y) * gridDim.x;

    // Row i of the tile has the products begins[i] to begins[i + 1] - 1; row `rows` is the one that goes on. Loads come
    // first and are never conditional, so that all of a batch are on their way at once: behind the last entry the last
    // is loaded again.
    int* begins = reinterpret_cast<int*>(products + entries);
    const int pointer = indptr[row0 + min(thread, rows)];
    for (int first = thread; first < entries; first += TILE_BATCH * TILE_THREADS) {
        int column[TILE_BATCH];
        double value[TILE_BATCH];
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            const int entry = entry0 + min(first + i * TILE_THREADS, entries - 1);
            column[i] = __ldcs(indices + entry);
            value[i] = __ldcs(data + entry);
        }
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) value[i] *= __ldg(x + column[i]);
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (first + i * TILE_THREADS < entries) products[first + i * TILE_THREADS] = value[i];
        }
    }
    if (thread <= rows) begins[thread] = max(pointer - entry0, 0);
    for (int i = thread + TILE_THREADS; i <= rows; i += TILE_THREADS) begins[i] = indptr[row0 + i] - entry0;
    if (thread == 0) {
        begins[rows + 1] = entries;
        long_count = 0;
    }
    __syncthreads();

    const auto store = [&](int i, double sum) {
        if (i == 0 && from >= 0) {
            heads[blockIdx.x] = sum;
            __threadfence();
        } else if (i < rows) {
            y[row0 + i] = sum;
        } else if (on >= 0) {
            tails[blockIdx.x] = sum;
            __threadfence();
        }
    };
    // A power of two of lanes a row, so that on average each adds up half of TILE_SERIAL products to all of them, more
    // only where 32 lanes are too few. A row that is much longer than the others would hold them up: a warp takes it
    // afterwards.
    const int shift = min(5, 32 - __clz(entries / (TILE_SERIAL * (rows + 1)))), lanes = 1 << shift;
    const int longest = lanes == 32 ? items : 32 * lanes;
    const int lane = thread & (lanes - 1);
    for (int first = 0; first <= rows; first += TILE_THREADS >> shift) {
        const int i = first + (thread >> shift);
        const int begin = i <= rows ? begins[i] : 0, end = i <= rows ? begins[i + 1] : 0;
        const bool waits = end - begin > longest;
        double sum = 0.0;
        if (!waits) {
            for (int entry = begin + lane; entry < end; entry += lanes) sum += products[entry];
        }
        for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
        if (lane == 0 && i <= rows) {
            if (waits) {
                long_rows[atomicAdd(&long_count, 1)] = i;
            } else {
                store(i, sum);
            }
        }
    }
    __syncthreads();
    for (int place = thread / 32; place < long_count; place += TILE_THREADS / 32) {
        const int i = long_rows[place];
        double sum = 0.0;
        for (int entry = begins[i] + thread % 32; entry < begins[i + 1]; entry += 32) sum += products[entry];
        for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
        if (thread % 32 == 0) store(i, sum);
    }
    if (from < 0 && on < 0) return;
    __syncthreads();
    // Of the tiles that share a row the last one to arrive adds up their parts, in the order of the tiles. The number of
    // those that have arrived ends where it begins, so that nobody has to clear it between calls.
    const int warp = thread / 32, shared = warp == 0 ? from : on;
    if (warp > 1 || shared < 0) return;
    const int first = split_first[shared], last = split_last[shared];
    unsigned before = 0;
    if (thread % 32 == 0) {
        unsigned* arrived = reinterpret_cast<unsigned*>(parts + 2ll * gridDim.y * gridDim.x);
        before = atomicInc(arrived + static_cast<long long>(blockIdx.y) * split_rows + shared, last - first);
    }
    if (__shfl_sync(ALL, before, 0) != last - first - 1) return;
    __threadfence();
    double sum = thread % 32 == 0 ? __ldcg(heads + last) : 0.0;
    for (int tile = first + thread % 32; tile < last; tile += 32) sum += __ldcg(tails + tile);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
    if (thread % 32 == 0) y[split_row[shared]] = sum;
}
