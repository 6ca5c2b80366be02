/*---
name: rows_fma
study: flagship
source: "our own; sequential sums per row after GE-SpMM (Huang et al. 2020), long rows split after RoDe (Pang et al. 2024)"
idea: row segments of CSR on CUDA cores in full FP32; a CTA works on neighbouring rows at the same time and leaves all of L1 to their rows of B
after: gespmm_seq_row
family: rows_f32
format: csr_partitioned
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, groups: tile.warps * 128 // tile.slab, wave_columns: "wave_columns(4 * tile.slab, device.l2_bytes)"}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, batch: 8, warps: 16, ctas: 2}
constants: {scaled: 0}
features: [atom_inc]
scratch: (4 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: min(a.partitions, max(1, tile.ctas * device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(4 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.partitions, a.segments, a.cut, a.columns, a.data, b, c, scratch, a.partials, 4 * b.ld, c.ld, a.partitions if a.partitions > tile.ctas * device.multiprocessors else device.multiprocessors, alpha, beta
variants:
  tf32:
    idea: rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: rows_fma
    dtype: {a: tf32, b: tf32}
  f64:
    idea: rows_fma in FP64, in slabs of 64 columns
    family: rows_f64
    after: rows_fma
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    format_options: {wave_columns: "wave_columns(8 * tile.slab, device.l2_bytes)"}
    tile: {slab: 64, ctas: 1}
    constants: {number: double}
    scratch: (8 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
    launch:
      grid: min(a.partitions, max(1, tile.ctas * device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(8 * k * tile.slab, 1))) * waves_of(m, k, wave_columns(8 * tile.slab, device.l2_bytes))), ceil_div(n, tile.slab)
      args: a.work, a.partitions, a.segments, a.cut, a.columns, a.data, b, c, scratch, a.partials, 8 * b.ld, c.ld, a.partitions if a.partitions > tile.ctas * device.multiprocessors else device.multiprocessors, alpha, beta
deviations:
  - "an empty row of A has an entry of value zero in column 0, and a row that is split is padded with such entries; an infinity or a NaN in row 0 of B becomes NaN in these rows of C"
---*/
#include "tile/lane_groups.cuh"
#include "tile/reordered.cuh"
#include "tile/unaligned.cuh"

// Type of A, B, C and sums.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

using Four = tile::Four<NUMBER>;

constexpr int LANES = TILE_SLAB / 4, GROUPS = 32 / LANES;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a slab has 32, 64 or 128 columns");
static_assert(TILE_BATCH % 4 == 0 && LANES % TILE_BATCH == 0, "a batch is a multiple of four that divides a group's lanes");
// In place of a segment's first row: the fetched entries go on with the segment of those before.
constexpr int GOES_ON = 1 << 31;
constexpr unsigned BATCH_ENDS = ~0u >> (32 - TILE_BATCH);
// The first NEAR segments of a CTA have arrival counters in shared memory, for split rows that no other CTA works on.
constexpr int NEAR = 512;

// Entries on their way from the lanes that load them to all lanes of the group. The padding makes the groups read
// different banks.
struct Staged {
    __align__(16) int columns[LANES];
    __align__(16) NUMBER values[LANES + 4];
};

}  // namespace

// A lane group reads the slab of one row of B at a time, in whole lines; each lane sums four columns. The groups of a
// CTA take the row segments of its partition from a queue, in order, so that they work on neighbouring rows, which tend
// to have columns in common. While entries are multiplied, each lane of the group loads one of the next LANES entries.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) rows_fma(
    UNALIGNED_PARAMETERS const int* __restrict__ work, int partition_count, const int2* __restrict__ segments, const int4* __restrict__ cut,
    const int* __restrict__ columns, const NUMBER* __restrict__ data, const NUMBER* __restrict__ b,
    NUMBER* __restrict__ c, Four* partials, int partial_count, int stride, int ldc, int multiprocessors, NUMBER alpha,
    NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    __shared__ int queue, first_segment, last_segment;
    __shared__ unsigned arrivals[NEAR];
    __shared__ Staged staged[TILE_WARPS * GROUPS];
    Staged& own = staged[threadIdx.x / LANES];
    const int lane = threadIdx.x % LANES;
    constexpr int NUMBER_BYTES = sizeof(NUMBER);
    const tile::LaneColumns<UNALIGNED, NUMBER, LANES, 4> of_lane(
        blockIdx.y * TILE_SLAB, lane, stride / NUMBER_BYTES, ldc, UNALIGNED_WIDTH);
    const char* b_slab = of_lane.in(b);

    const auto store_row = [&](int row, const Four& sum) {
        if (of_lane.stores()) {
            NUMBER* to = c + static_cast<long long>(row_of_c(row)) * ldc + of_lane.first;
            of_lane.store<SCALED>(reinterpret_cast<Four*>(to), sum, alpha, beta, epilogue);
        }
    };

    if (threadIdx.x == 0) {
        // A CTA takes several partitions if the grid has fewer CTAs than there are partitions.
        const int per_cta = (partition_count + gridDim.x - 1) / gridDim.x;
        const int first = tile::partition_of_cta(multiprocessors) * per_cta;
        queue = first_segment = __ldg(work + min(first, partition_count));
        last_segment = __ldg(work + min(first + per_cta, partition_count));
    }
    for (int i = threadIdx.x; i < NEAR; i += blockDim.x) arrivals[i] = ~0u;
    __syncthreads();

    // The next entries: this lane's own, how many the group has, and the segment's first row if they begin a segment.
    int at = 0, end = 0, column, count, start;
    NUMBER value;
    const auto fetch = [&] {
        const bool takes = at == end;
        int segment = 0;
        if (takes && lane == 0) segment = atomicAdd(&queue, 1);
        segment = __shfl_sync(~0u, segment, 0, LANES);
        start = GOES_ON;
        if (takes && segment < last_segment) {
            const int2 begin = __ldg(segments + segment);
            at = begin.x, start = begin.y;
            end = __ldg(segments + segment + 1).x;
        }
        count = min(end - at, LANES);
        // Lanes after the last entry add zeros: to a sum that is already stored, or to that of a split row.
        column = 0, value = 0;
        if (lane < count) column = __ldcs(columns + (at + lane)), value = __ldcs(data + (at + lane));
        at += count;
    };

    // The open row, or ~partial (negative) if the segment is a section of a split row.
    int row = 0;
    Four sum;
    fetch();
    while (true) {
        const int longest = GROUPS == 1 ? count : __reduce_max_sync(~0u, count);
        if (longest == 0) break;
        if (start != GOES_ON) {
            row = start;
            sum = {};
        }
        // One bit for each entry: a row, or a section of a split row, ends with it.
        unsigned ends = tile::group_bits<LANES>(__ballot_sync(~0u, column < 0));
        own.columns[lane] = column < 0 ? ~column : column;
        own.values[lane] = value;
        __syncwarp();
        fetch();
        const bool partial_ends = row < 0 && ends != 0;
        if (row < 0) ends = 0;
#pragma unroll 1
        for (int batch = 0; batch < longest; batch += TILE_BATCH) {
            Four x[TILE_BATCH];
            tile::load_rows(of_lane, x, own.columns + batch, b_slab, stride);
            const auto product = [&](int i, NUMBER a) { tile::add_product(sum, a, x[i]); };
            const auto close = [&] {
                store_row(row++, sum);
                sum = {};
            };
            // Two copies of the code, because most batches of longer rows need no tests.
            const bool plain = GROUPS == 1 ? (ends & BATCH_ENDS) == 0 : !__any_sync(~0u, ends & BATCH_ENDS);
            if (plain) {
                tile::each_entry<TILE_BATCH>(own.values + batch, 0, product, close);
            } else {
                tile::each_entry<TILE_BATCH>(own.values + batch, ends, product, close);
            }
            ends >>= TILE_BATCH;
        }
        if (partial_ends) {
            const tile::Split split = tile::split_of(cut, ~row);
            const int counter = split.origin - first_segment;
            const bool local = counter >= 0 && split.origin + split.count <= last_segment && counter < NEAR;
            unsigned* shared_counter = local ? arrivals + counter : nullptr;
            if (tile::add_partials<LANES>(sum, partials, partial_count, ~row, split, shared_counter)) {
                store_row(split.target, sum);
            }
        }
        __syncwarp();
    }
}
