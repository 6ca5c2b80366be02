/*---
name: narrow_fma
study: flagship
source: "our own; equal numbers of non-zeros per warp and segmented sums after Blelloch, Heroux and Zagha 1993 and Merrill and Garland 2016"
idea: a lane for each four neighbouring entries instead of for columns, with all columns of a narrow B; rows are summed across lanes
after: split_fma
family: rows_f32
format: csr_split
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: tile.warps, groups: tile.groups, batch: tile.batch, wave_columns: "wave_columns(128, device.l2_bytes)"}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 4, groups: 4, batch: 8, warps: 12, ctas: 2}
constants: {values: tile::Wide<float>, scaled: 0}
features: [atom_inc, ld]
scratch: 4 * tile.slab * a.partials * ceil_div(n, tile.slab)
launch:
  grid: a.partitions, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.slots, b.ld, c.ld, alpha, beta
variants:
  single:
    idea: narrow_fma for one column
    after: narrow_fma
    tile: {slab: 1}
  tf32:
    idea: narrow_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: narrow_fma
    dtype: {a: tf32, b: tf32}
  tf32_single:
    idea: narrow_fma for one column of TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: narrow_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {slab: 1}
  f64:
    idea: narrow_fma in FP64
    family: rows_f64
    after: narrow_fma
    format_options: {wave_columns: "wave_columns(256, device.l2_bytes)"}
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {warps: 16, ctas: 1}
    constants: {values: tile::Wide<double>, number: double}
    scratch: 8 * tile.slab * a.partials * ceil_div(n, tile.slab)
  f64_single:
    idea: narrow_fma for one column in FP64
    family: rows_f64
    after: narrow_fma_f64
    format_options: {wave_columns: "wave_columns(256, device.l2_bytes)"}
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {slab: 1, warps: 16, ctas: 1}
    constants: {values: tile::Wide<double>, number: double}
    scratch: 8 * tile.slab * a.partials * ceil_div(n, tile.slab)
  f16:
    idea: narrow_fma on FP16 operands, with eight columns and sums in FP32
    family: window_f16
    after: narrow_fma
    format_options: {wave_columns: "wave_columns(64, device.l2_bytes)"}
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
    tile: {slab: 8, groups: 8, warps: 10}
    constants: {values: tile::Half<tile::F16>}
  f16_single:
    idea: narrow_fma for one column of FP16 operands
    family: window_f16
    after: narrow_fma_f16
    format_options: {wave_columns: "wave_columns(64, device.l2_bytes)"}
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
    tile: {slab: 1, groups: 8}
    constants: {values: tile::Half<tile::F16>}
  bf16:
    idea: narrow_fma on BF16 operands, with eight columns and sums in FP32
    family: window_bf16
    after: narrow_fma
    format_options: {wave_columns: "wave_columns(64, device.l2_bytes)"}
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
    tile: {slab: 8, groups: 8, warps: 10}
    constants: {values: tile::Half<tile::Bf16>}
  bf16_single:
    idea: narrow_fma for one column of BF16 operands
    family: window_bf16
    after: narrow_fma_bf16
    format_options: {wave_columns: "wave_columns(64, device.l2_bytes)"}
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
    tile: {slab: 1, groups: 8}
    constants: {values: tile::Half<tile::Bf16>}
deviations:
  - "an empty row of A has an entry of value zero in column 0; an infinity or a NaN in row 0 of B becomes NaN in that row of C"
---*/
#include "ptx/ld.cuh"
#include "tile/lane_columns.cuh"
#include "tile/reordered.cuh"
#include "tile/warp_rows.cuh"

// Type of sums and factors.
#ifndef NUMBER
#define NUMBER float
#endif

// Columns of a lane, which are all of a slab, and its neighbouring entries of A.
using Own = tile::ColumnsOfLane<VALUES, TILE_SLAB>;
using Sum = Own::Sum;
using Stored = Own::Stored;
constexpr int DEPTH = 4, OF_WARP = 32 * DEPTH;
using Entries = tile::Vector<Stored, DEPTH>;
// Whether to choose between two sums for each entry without a branch, which eight columns are too many for.
constexpr bool PREDICATED = TILE_SLAB <= 4;
static_assert(TILE_BATCH == tile::SPLIT_BATCH, "a batch has the size that the format deals to a group");

// Where B has few columns, a lane group for each row of B, as in split_fma, would leave most lanes idle. Here each lane
// multiplies neighbouring entries by all columns. The entries of a warp in one step, and those of two lanes:
//
//   entries    | a a a b | b b b b | b c c d | …      letters are rows; b ends in lane 2
//   lanes      |    0    |    1    |    2    |
//
// A lane adds up its entries, and stores rows that begin and end there, like c. A row that ends in a lane, like a and b,
// gets the sums of the lanes before it: a segmented scan over the warp. While no row ends, lanes keep sums of their own
// for the open row. A warp has equally many entries, wherever rows end; tile/warp_rows.cuh adds rows of several warps
// and CTAs.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) narrow_fma(
    UNALIGNED_PARAMETERS const int4* __restrict__ work, const int4* __restrict__ cut,
    const int2* __restrict__ group_starts, const int* __restrict__ columns, const Stored* __restrict__ data,
    const Stored* __restrict__ b, Stored* __restrict__ c, Sum* partials, int slots, int ldb, int ldc,
    NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    __shared__ tile::WarpRows<TILE_WARPS, Sum> shared;
    const int partition = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // First slot, and its row or ~row.
    const int2 start = __ldg(group_starts + (partition * TILE_WARPS + warp) * TILE_GROUPS);
    const int end = __ldg(group_starts + (partition * TILE_WARPS + warp + 1) * TILE_GROUPS).x;
    const int first_row = start.y < 0 ? ~start.y : start.y;
    const int slab = blockIdx.y * TILE_SLAB, width = UNALIGNED_WIDTH - slab;
    const char* const b_slab = reinterpret_cast<const char*>(b + slab);
    const unsigned stride = sizeof(Stored) * ldb;
    int head_partial = -1;
    if (threadIdx.x == 0) {
        const int4 own = __ldg(work + partition);
        shared.busy = (own.y + TILE_GROUPS - 1) / TILE_GROUPS;
        shared.head_partial = head_partial = own.z;
        shared.tail_partial = own.w;
    }
    if (lane == 0) shared.heads[warp] = start.y;

    // This lane's next entries. They are aligned, so that the warp may begin with some of the one before, whose values
    // count as zeros of no row.
    int at = (start.x & -DEPTH) + DEPTH * lane;
    tile::Vector<int, DEPTH> column;
    Entries value;
    const auto fetch = [&](bool all) {
        if (!all && at >= end) return;
        if (all || at + DEPTH <= slots) {
            column = *reinterpret_cast<const tile::Vector<int, DEPTH>*>(columns + at);
            value = *reinterpret_cast<const Entries*>(data + at);
        } else {
#pragma unroll
            for (int i = 0; i < DEPTH; ++i) {
                if (at + i < slots) column.of[i] = columns[at + i], value.of[i] = data[at + i];
            }
        }
    };
    fetch(false);
    // Fetched early, since the end of the CTA waits for it.
    int first_partial = 0;
    if (head_partial >= 0) first_partial = ptx::load_here(reinterpret_cast<const unsigned*>(cut + head_partial));

    const auto row_of_b = [&](unsigned row) {
        return reinterpret_cast<const Stored*>(b_slab + static_cast<unsigned long long>(row) * stride);
    };
    const auto store = [&](int row, const Sum& sum) {
        Own::store<SCALED>(
            c + static_cast<long long>(row_of_c(row)) * ldc + slab, sum, width, alpha, beta, epilogue, slab);
    };
    // The sum of the open row: of all lanes, if it is spread, or in lane 31.
    Sum open = {};
    bool is_spread = false;
    const auto total = [&] {
        if (is_spread) return open.of_all_lanes();
        return open.from([&](NUMBER x) { return __shfl_sync(~0u, x, 31); });
    };
    int ended = 0;
    // Multiply the entries at hand and fetch the next ones. If this warp owns all of both, as in most steps of a long
    // walk, the tests of each entry are left out.
    const auto step = [&](bool all) {
        Own x[DEPTH];
        NUMBER a[DEPTH];
        // Bit i: a row ends with entry i of this lane.
        unsigned ends = 0;
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            const bool is_in = all || static_cast<unsigned>(at + i - start.x) < static_cast<unsigned>(end - start.x);
            const int row = column.of[i] < 0 ? ~column.of[i] : column.of[i];
            x[i] = {}, a[i] = 0;
            if (is_in) {
                x[i].load(row_of_b(row), width);
                a[i] = VALUES::widened(value.of[i]);
                if (column.of[i] < 0) ends |= 1u << i;
            }
        }
        at += OF_WARP;
        fetch(all);
        const unsigned lanes = __ballot_sync(~0u, ends != 0);
        if (lanes == 0) {
#pragma unroll
            for (int i = 0; i < DEPTH; ++i) x[i].add_to(open, a[i]);
            is_spread = true;
            return;
        }
        // The first row that ends in this lane, from the number of those that end in the lanes before.
        const unsigned before_lane = ~(~0u << lane);
        int row = first_row + ended + __popc(lanes & before_lane);
        ended += __popc(lanes);
        // `first` is the sum of this lane up to its first end, `sum` that after the last one.
        Sum first = {}, sum = {};
        const bool one_each = !__any_sync(~0u, (ends & (ends - 1)) != 0);
        if (PREDICATED && one_each) {
#pragma unroll
            for (int i = 0; i < DEPTH; ++i) {
                if (ends >> i != 0) {
                    x[i].add_to(first, a[i]);
                } else {
                    x[i].add_to(sum, a[i]);
                }
            }
        } else {
            if (!one_each) {
                // Lanes have ends besides their first ones.
                const int more = max(__popc(ends) - 1, 0);
                int up_to_here = more;
#pragma unroll
                for (int by = 1; by < 32; by *= 2) {
                    const int other = __shfl_up_sync(~0u, up_to_here, by);
                    if (lane >= by) up_to_here += other;
                }
                ended += __shfl_sync(~0u, up_to_here, 31);
                row += up_to_here - more;
            }
            int own = row;
#pragma unroll
            for (int i = 0; i < DEPTH; ++i) {
                x[i].add_to(sum, a[i]);
                if (ends >> i & 1) {
                    if (own == row) {
                        first = sum;
                    } else {
                        store(own, sum);
                    }
                    ++own;
                    sum = {};
                }
            }
        }
        // Each lane gets the sums from the last lane with the end of a row up to its own.
        const Sum before = total();
        if (lane == 0 && ends == 0) sum += before;
        const unsigned up_to_here = lanes & (before_lane | 1u << lane);
        const int begin = up_to_here == 0 ? 0 : 31 - __clz(up_to_here);
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const Sum other = sum.from([&](NUMBER x) { return __shfl_up_sync(~0u, x, by); });
            if (lane - by >= begin) sum += other;
        }
        Sum carried = sum.from([&](NUMBER x) { return __shfl_up_sync(~0u, x, 1); });
        if (lane == 0) carried = before;
        if (ends != 0) {
            carried += first;
            // A row that began in an earlier warp.
            if (start.y < 0 && row == first_row) {
                shared.sums[warp] = carried;
            } else {
                store(row, carried);
            }
        }
        open = {};
        if (lane == 31) open = sum;
        is_spread = false;
    };
    bool is_first = true;
#pragma unroll 1
    for (int left = end - (start.x & -DEPTH); left > 0; left -= OF_WARP) {
        if (left < 2 * OF_WARP || is_first) {
            step(false);
        } else {
            step(true);
        }
        is_first = false;
    }
    if (head_partial >= 0) shared.first_partial = first_partial;
    tile::join_rows(shared, first_row, start.y < 0, ended, total(), partials, store);
}
