/*---
name: split_fma
study: flagship
source: "our own; equal numbers of non-zeros per thread group after Yang, Buluç and Owens 2018, work partitions after the merge path of Merrill and Garland 2016"
idea: equally many CSR entries for every group of eight lanes, on CUDA cores in full FP32, with eight rows of B in flight per group
after: rows_fma
family: rows_f32
format: csr_split
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: tile.warps, groups: 128 // tile.slab, batch: tile.batch}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 32, batch: 8, warps: 12, ctas: 2}
constants: {scaled: 0}
features: [atom_inc]
scratch: (4 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: a.partitions, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.partials, 4 * b.ld, 4 * c.ld, device.multiprocessors, alpha, beta
variants:
  tf32:
    idea: split_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: split_fma
    dtype: {a: tf32, b: tf32}
  f64:
    idea: split_fma in FP64
    family: rows_f64
    after: split_fma
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {warps: 16, ctas: 1}
    constants: {number: double}
    scratch: (8 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
    launch:
      args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.partials, 8 * b.ld, 8 * c.ld, device.multiprocessors, alpha, beta
deviations:
  - "an empty row of A has an entry of value zero in column 0, and the last batch of a CTA is padded with entries of value zero in column 0 or in columns loaded before; an infinity in those rows of B becomes NaN"
---*/
#include "tile/split_rows.cuh"

// Type of A, B, C and sums.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

using Four = tile::Four<NUMBER>;

constexpr int LANES = TILE_SLAB / 4, GROUPS = TILE_WARPS * 32 / LANES;
static_assert(
    TILE_SLAB == 32 && TILE_BATCH == LANES && LANES == tile::SPLIT_BATCH,
    "a slab has 32 columns, a batch one entry per lane");

}  // namespace

// A lane group reads the slab of one row of B at a time, which is one line in FP32 and two in FP64; each lane sums four
// columns. Every group of a warp has equally many batches of entries, wherever rows end; tile/split_rows.cuh draws this
// and adds the rows that several groups cover. While one batch is multiplied, each lane loads one entry of the next.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int2* __restrict__ group_starts,
    const int* __restrict__ columns, const NUMBER* __restrict__ data, const NUMBER* __restrict__ b,
    NUMBER* __restrict__ c, Four* partials, int partial_count, int stride, int stride_c, int multiprocessors,
    NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    __shared__ tile::SplitShared<TILE_WARPS, LANES, Four> shared;
    const int partition = tile::partition_of_cta(multiprocessors);
    const int warp = threadIdx.x / 32, group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int2 start = __ldg(group_starts + (partition * GROUPS + group));  // first slot, and its row or ~row
    const int end = __ldg(group_starts + (partition * GROUPS + group + 1)).x;
    const int column_of_c = blockIdx.y * TILE_SLAB + 4 * lane;
    constexpr int NUMBER_BYTES = sizeof(NUMBER);
    // Out-of-range lanes read the last valid columns of B; their sums are never stored to C.
    const char* b_slab = reinterpret_cast<const char*>(b + min(column_of_c, stride / NUMBER_BYTES - 4));
    // The first group of the warp has the most batches: the partition may run out of slots in a later group.
    const int batches = __reduce_max_sync(~0u, (end - start.x + TILE_BATCH - 1) / TILE_BATCH);

    // This lane's entry of the next batch. After the last entry the value is zero and the column that of an earlier
    // one.
    int at = start.x + lane, column = 0;
    NUMBER value;
    const auto fetch = [&] {
        value = 0;
        if (at < end) column = __ldg(columns + at), value = __ldg(data + at);
        at += TILE_BATCH;
    };
    fetch();

    const bool stores = column_of_c < stride_c / NUMBER_BYTES;
    const auto row_of_c = [&](int row) {
        char* first = reinterpret_cast<char*>(c + column_of_c);
        return reinterpret_cast<Four*>(first + static_cast<long long>(row) * stride_c);
    };
    if (threadIdx.x == 0) shared.work = __ldg(work + partition);
    if (lane == 0) shared.heads[group] = start.y;
    const int first_row = start.y < 0 ? ~start.y : start.y;
    Four* own_sum = &shared.sums[group][lane];
    // Where the sum of the open row goes. It is C, except that a first row that began in an earlier group goes to
    // shared memory for join_rows, and that out-of-range lanes write to a part of shared memory that nobody reads.
    char* first_to = reinterpret_cast<char*>(stores ? row_of_c(first_row) : own_sum);
    const int step = stores ? stride_c : 0;
    bool kept = start.y < 0 || !stores;
    Four* to = kept ? own_sum : row_of_c(first_row);
    int ended = 0;
    Four sum = {};
    const auto close = [&] {
        if (SCALED && !kept) {
            tile::store<SCALED>(to, sum, alpha, beta, epilogue, column_of_c);
        } else {
            *to = sum;
        }
        kept = !stores;
        ++ended;
        to = reinterpret_cast<Four*>(first_to + static_cast<long long>(ended) * step);
        sum = {};
    };

#pragma unroll 1
    for (int left = batches; left > 0; --left) {
        const unsigned ballot = __ballot_sync(~0u, column < 0);
        if (column < 0) column = ~column;
        shared.columns[warp][threadIdx.x % 32] = column;
        shared.values[warp][threadIdx.x % 32] = value;
        __syncwarp();
        fetch();
        Four x[TILE_BATCH];
        tile::load_rows(x, &shared.columns[warp][tile::first_lane<LANES>()], b_slab, stride);
        const auto product = [&](int i, NUMBER a) {
            const Four& row = x[i];
            sum.x += a * row.x, sum.y += a * row.y, sum.z += a * row.z, sum.w += a * row.w;
        };
        const auto multiply = [&](unsigned ends) {
            tile::each_entry<TILE_BATCH>(&shared.values[warp][tile::first_lane<LANES>()], ends, product, close);
        };
        // Two copies of the code, because most batches of longer rows need no tests.
        if (ballot == 0) {
            multiply(0);
        } else {
            multiply(ballot >> tile::first_lane<LANES>());
        }
        __syncwarp();
    }

    const auto finished = [&](int row, const Four& total) {
        if (stores) tile::store<SCALED>(row_of_c(row), total, alpha, beta, epilogue, column_of_c);
    };
    tile::join_rows(shared, first_row, start.y < 0, ended, sum, cut, partials, partial_count, finished);
}
