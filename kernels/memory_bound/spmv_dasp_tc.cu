/*---
name: spmv_dasp_tc
study: memory_bound
source: "Lu & Liu 2023 (DASP, SC23), section 3; the tensor-core side of Zhang et al. 2025, section 5.2"
idea: eight rows at a time on tensor cores, four entries of each, times the values of B that these entries need; rows are stored by length
after: spmv_csr_cc
format: dasp
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
features: [mma_f64]
tile: {warps: 4, batch: 4}
# One partial sum for each warp that works on a long row.
scratch: 8 * a.partials * n
launches:
  - entry: spmv_dasp_tc
    grid: ceil_div(a.partials + a.medium_blocks + ceil_div(a.short_tiles, tile.batch) + ceil_div(a.single_rows, 32), tile.warps), n
    block: 32 * tile.warps
    args: >-
      a.tile_ptr, a.indices, a.data, a.medium_row, a.rest_ptr, a.indices_rest, a.data_rest, a.short_row, a.single_row,
      a.indices_single, a.data_single, b, c, scratch, a.partials, a.medium_blocks, a.one_three, a.two_two, a.short_tiles,
      a.singles, a.single_rows, b.ld, c.ld
  - entry: add_partials
    grid: ceil_div(a.long_rows, 16), n
    block: 128
    args: a.long_row, a.partial_ptr, scratch, c, a.long_rows, a.partials, c.ld
deviations:
  - "a warp takes one block of medium rows; the original takes up to four if there are many"
  - "a warp takes up to eight tiles of a long row, and four tiles of short rows"
  - "no value of B is loaded for a stored zero, so that an infinity of B does not spread to other rows; one of A becomes NaN in a row that shares its row of a tile"
  - "each call runs both launches; the original timed many first launches, then many second ones"
---*/
#include "ptx/mma_f64.cuh"
#include "tile/partials.cuh"

// A tile of A has 8 rows of 4 slots. It is multiplied by a 4×8 operand whose column j holds the values of B for the
// slots of row j, so that the sum of row j is element (j, j) of the 8×8 result. The other 56 elements are discarded.
//
//   tile of A   (g, t)    loaded by lane 4g + t
//   operand B   (t, g)    x[column of slot (g, t)], loaded by the same lane
//   result      (g, g)    held by lane 4g + g / 2

constexpr unsigned ALL = 0xffffffffu;

struct Operands {
    const int* __restrict__ indices;
    const double* __restrict__ data;
    const double* __restrict__ x;

    // This lane's slots of tiles first, first + 1, … and their values of B; zero from tile `last` on.
    __device__ __forceinline__ void load(double (&a)[TILE_BATCH], double (&b)[TILE_BATCH], int first, int last) const {
        int column[TILE_BATCH];
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            const int slot = 32 * min(first + i, last - 1) + threadIdx.x % 32;
            column[i] = __ldcs(indices + slot);
            a[i] = __ldcs(data + slot);
        }
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            if (first + i >= last) a[i] = 0.0;
            b[i] = a[i] != 0.0 ? __ldg(x + column[i]) : 0.0;
        }
    }
};

// Element (g, g) of a result, in the lane for which `holds` is true.
__device__ __forceinline__ double diagonal(const double (&d)[2], int g) { return g % 2 ? d[1] : d[0]; }
__device__ __forceinline__ bool holds(int g, int t) { return t == g / 2; }

extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS) spmv_dasp_tc(
    const int* __restrict__ tile_ptr, const int* __restrict__ indices, const double* __restrict__ data,
    const int* __restrict__ medium_row, const int* __restrict__ rest_ptr, const int* __restrict__ indices_rest,
    const double* __restrict__ data_rest, const int* __restrict__ short_row, const int* __restrict__ single_row,
    const int* __restrict__ indices_single, const double* __restrict__ data_single, const double* __restrict__ b,
    double* __restrict__ c, double* __restrict__ partials, int partial_count, int blocks, int one_three, int two_two,
    int short_tiles, int singles, int single_rows, long long ldb, long long ldc) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const double* x = b + blockIdx.y * ldb;
    double* y = c + blockIdx.y * ldc;
    const Operands operands{indices, data, x};
    int unit = blockIdx.x * TILE_WARPS + threadIdx.x / 32;

    // Up to eight tiles of a long row, or a block of eight medium rows with the entries that do not fill tiles.
    if (unit < partial_count + blocks) {
        const bool is_long = unit < partial_count;
        const int i = 8 * (unit - partial_count) + g;
        int row = -1, start = 0, end = 0;
        if (!is_long) row = medium_row[i], start = rest_ptr[i], end = rest_ptr[i + 1];
        double d[2] = {};
        const int last = tile_ptr[unit + 1];
        for (int first = tile_ptr[unit]; first < last; first += TILE_BATCH) {
            double tile_a[TILE_BATCH], tile_b[TILE_BATCH];
            operands.load(tile_a, tile_b, first, last);
#pragma unroll
            for (int i = 0; i < TILE_BATCH; ++i) ptx::mma_m8n8k4_f64(d, tile_a[i], tile_b[i]);
        }
        // One of the four lanes of a row of the tile has its sum. In a long row, all eight belong to the same row.
        double sum = holds(g, t) ? diagonal(d, g) : 0.0;
        for (int entry = start + t; entry < end; entry += 4) {
            sum += __ldcs(data_rest + entry) * __ldg(x + __ldcs(indices_rest + entry));
        }
        sum += __shfl_xor_sync(ALL, sum, 1);
        sum += __shfl_xor_sync(ALL, sum, 2);
        if (is_long) {
            for (int distance = 4; distance < 32; distance *= 2) sum += __shfl_xor_sync(ALL, sum, distance);
            if (lane == 0) partials[static_cast<long long>(blockIdx.y) * partial_count + unit] = sum;
        } else if (t == 0 && row >= 0) {
            y[row] = sum;
        }
        return;
    }
    unit -= partial_count + blocks;

    // Tiles whose rows hold one short row or two. The second product is for the slots of the second short row.
    const int short_units = (short_tiles + TILE_BATCH - 1) / TILE_BATCH;
    if (unit < short_units) {
        double tile_a[TILE_BATCH], tile_b[TILE_BATCH];
        const int before = tile_ptr[partial_count + blocks], first = unit * TILE_BATCH;
        operands.load(tile_a, tile_b, before + first, before + short_tiles);
#pragma unroll
        for (int i = 0; i < TILE_BATCH; ++i) {
            const int tile = first + i;
            if (tile >= short_tiles) return;
            const int width = tile < one_three ? 1 : tile < one_three + two_two ? 2 : 4;
            double d[2] = {}, e[2] = {};
            ptx::mma_m8n8k4_f64(d, tile_a[i], t < width ? tile_b[i] : 0.0);
            if (width < 4) ptx::mma_m8n8k4_f64(e, tile_a[i], t < width ? 0.0 : tile_b[i]);
            if (holds(g, t)) {
                const int row = short_row[16 * tile + g], other = short_row[16 * tile + 8 + g];
                if (row >= 0) y[row] = diagonal(d, g);
                if (other >= 0) y[other] = diagonal(e, g);
            }
        }
        return;
    }
    unit -= short_units;

    // Rows of one entry or none, one per lane.
    const int i = 32 * unit + lane;
    if (i < single_rows) {
        y[single_row[i]] = i < singles ? data_single[i] * __ldg(x + indices_single[i]) : 0.0;
    }
}

// Fix-up of long rows: eight lanes add the partial sums of a row.
extern "C" __global__ void __launch_bounds__(128) add_partials(
    const int* __restrict__ long_row, const int* __restrict__ partial_ptr, const double* __restrict__ partials,
    double* __restrict__ c, int rows, int partial_count, long long ldc) {
    const int i = blockIdx.x * 16 + threadIdx.x / 8;
    const bool own = i < rows;
    const double sum = tile::sum_by_eight(
        partials + static_cast<long long>(blockIdx.y) * partial_count, own ? partial_ptr[i] : 0, own ? partial_ptr[i + 1] : 0);
    if (own && threadIdx.x % 8 == 0) c[blockIdx.y * ldc + long_row[i]] = sum;
}
