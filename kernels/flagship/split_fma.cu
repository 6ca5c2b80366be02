/*---
name: split_fma
study: flagship
source: "our own; equal numbers of non-zeros per thread group after Yang, Buluç and Owens 2018, work partitions after the merge path of Merrill and Garland 2016"
idea: equally many CSR entries for every group of eight lanes, on CUDA cores in full FP32, with eight rows of B in flight per group
after: rows_fma
family: rows_f32
format: csr_split
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: tile.warps, groups: 128 // tile.slab, batch: tile.batch, wave_columns: "wave_columns(4 * tile.slab, device.l2_bytes)"}
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
  args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.partials, 4 * b.ld, 4 * c.ld, a.partitions if a.partitions > tile.ctas * device.multiprocessors else device.multiprocessors, alpha, beta
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
    format_options: {wave_columns: "wave_columns(8 * tile.slab, device.l2_bytes)"}
    tile: {warps: 16, ctas: 1}
    constants: {number: double}
    scratch: (8 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
    launch:
      args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.partials, 8 * b.ld, 8 * c.ld, a.partitions if a.partitions > tile.ctas * device.multiprocessors else device.multiprocessors, alpha, beta
deviations:
  - "an empty row of A has an entry of value zero in column 0, and the last batch of a CTA is padded with entries of value zero in column 0 or in columns loaded before; an infinity or a NaN in those rows of B becomes NaN"
---*/
#include "tile/reordered.cuh"
#include "tile/split_rows.cuh"
#include "tile/unaligned.cuh"

// Type of A, B, C and sums.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

// The format divides a CTA's entries among groups of eight lanes. Unaligned code joins the four groups of a warp, whose
// entries follow each other, to one.
constexpr int LANES = UNALIGNED ? TILE_SLAB : TILE_SLAB / 4, GROUPS = TILE_WARPS * 32 / LANES;
static_assert(
    TILE_SLAB == 32 && TILE_BATCH == TILE_SLAB / 4 && TILE_BATCH == tile::SPLIT_BATCH,
    "a slab has 32 columns, a batch of the format one entry per lane");

using LaneColumns = tile::LaneColumns<UNALIGNED, NUMBER, LANES, TILE_SLAB / LANES>;
using Sum = LaneColumns::Sum;

}  // namespace

// A lane group reads the slab of one row of B at a time, which is one line in FP32 and two in FP64; each lane sums four
// columns, or one of unaligned rows. Every group of a warp has equally many batches of entries, wherever rows end;
// tile/split_rows.cuh draws this and adds the rows that several groups cover. While one batch is multiplied, each lane
// loads one entry of the next.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_fma(
    UNALIGNED_PARAMETERS const int4* __restrict__ work, const int4* __restrict__ cut,
    const int2* __restrict__ group_starts, const int* __restrict__ columns, const NUMBER* __restrict__ data,
    const NUMBER* __restrict__ b, NUMBER* __restrict__ c, Sum* partials, int partial_count, int stride, int stride_c,
    int multiprocessors, NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    constexpr int JOINED = LANES / (TILE_SLAB / 4);  // groups of the format in a lane group
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of = {REORDERED_ROWS};
    __shared__ tile::SplitShared<TILE_WARPS, LANES, Sum> shared;
    const int partition = tile::partition_of_cta(multiprocessors);
    const int warp = threadIdx.x / 32, group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    // First slot, and its row or ~row.
    const int2 start = __ldg(group_starts + (partition * GROUPS + group) * JOINED);
    const int end = __ldg(group_starts + (partition * GROUPS + group + 1) * JOINED).x;
    constexpr int NUMBER_BYTES = sizeof(NUMBER);
    const LaneColumns of_lane(
        blockIdx.y * TILE_SLAB, lane, stride / NUMBER_BYTES, stride_c / NUMBER_BYTES, UNALIGNED_WIDTH);
    const char* b_slab = of_lane.in(b);
    // The first group of the warp has the most batches: the partition may run out of slots in a later group.
    const int batches = __reduce_max_sync(~0u, (end - start.x + LANES - 1) / LANES);

    // This lane's entry of the next batch. After the last entry the value is zero and the column that of an earlier
    // one.
    int at = start.x + lane, column = 0;
    NUMBER value;
    const auto fetch = [&] {
        value = 0;
        if (at < end) column = __ldg(columns + at), value = __ldg(data + at);
        at += LANES;
    };
    fetch();

    const bool stores = of_lane.stores();
    const auto row_of_c = [&](int row, bool wanted = true) {
        char* first = reinterpret_cast<char*>(c + of_lane.first);
        return reinterpret_cast<Sum*>(first + static_cast<long long>(row_of(row, wanted)) * stride_c);
    };
    if (threadIdx.x == 0) {
        int4 own = __ldg(work + partition);
        own.y = (own.y + JOINED - 1) / JOINED;
        shared.work = own;
    }
    if (lane == 0) shared.heads[group] = start.y;
    const int first_row = start.y < 0 ? ~start.y : start.y;
    Sum* own_sum = &shared.sums[group][lane];
    // Where the sum of the open row goes. It is C, except that a first row that began in an earlier group goes to
    // shared memory for join_rows, and that out-of-range lanes write to a part of shared memory that nobody reads. In
    // another order of rows, the row of C is looked up as it ends.
    char* first_to = reinterpret_cast<char*>(stores ? row_of_c(first_row, !REORDERED) : own_sum);
    const int step = stores ? stride_c : 0;
    bool kept = start.y < 0 || !stores;
    Sum* to = kept ? own_sum : row_of_c(first_row, !REORDERED);
    int ended = 0;
    Sum sum = {};
    const auto close = [&] {
        if constexpr (REORDERED) to = kept ? own_sum : row_of_c(first_row + ended);
        if ((SCALED || UNALIGNED) && !kept) {
            of_lane.store<SCALED>(to, sum, alpha, beta, epilogue);
        } else {
            *to = sum;
        }
        kept = !stores;
        ++ended;
        to = reinterpret_cast<Sum*>(first_to + static_cast<long long>(ended) * step);
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
        Sum x[LANES];
        tile::load_rows(of_lane, x, &shared.columns[warp][tile::first_lane<LANES>()], b_slab, stride);
#pragma unroll
        for (int i = 0; i < LANES; i += TILE_BATCH) {
            const auto product = [&](int j, NUMBER a) { tile::add_product(sum, a, x[i + j]); };
            const auto multiply = [&](unsigned ends) {
                tile::each_entry<TILE_BATCH>(&shared.values[warp][tile::first_lane<LANES>() + i], ends, product, close);
            };
            // Two copies of the code, because most batches of longer rows need no tests.
            if ((JOINED == 1 ? ballot : ballot >> i & 0xff) == 0) {
                multiply(0);
            } else {
                multiply(ballot >> (tile::first_lane<LANES>() + i));
            }
        }
        __syncwarp();
    }

    const auto finished = [&](int row, const Sum& total) {
        if (stores) of_lane.store<SCALED>(row_of_c(row), total, alpha, beta, epilogue);
    };
    tile::join_rows(shared, first_row, start.y < 0, ended, sum, cut, partials, partial_count, finished);
}
