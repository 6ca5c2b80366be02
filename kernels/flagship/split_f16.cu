/*---
name: split_f16
study: flagship
source: "our own; equal numbers of non-zeros per thread group after Yang, Buluç and Owens 2018, work partitions after the merge path of Merrill and Garland 2016"
idea: split_fma on 16-bit operands, with four lanes per row of B and sums in FP32
after: window_f16
family: window_f16
format: csr_split
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: tile.warps, groups: 256 // tile.slab, batch: tile.batch, wave_columns: "wave_columns(2 * tile.slab, device.l2_bytes)"}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 32, batch: 8, warps: 12, ctas: 2}
constants: {values: F16, scaled: 0}
features: [atom_inc]
scratch: (4 * tile.slab + 4) * a.partials * ceil_div(n, tile.slab)
launch:
  grid: a.partitions, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.group_starts, a.columns, a.data, b, c, scratch, a.partials, 2 * b.ld, 2 * c.ld, a.partitions if a.partitions > tile.ctas * device.multiprocessors else device.multiprocessors, alpha, beta
variants:
  medium:
    idea: slabs of 64 columns
    after: split_f16
    tile: {slab: 64, batch: 8, warps: 12, ctas: 2}
  bf16:
    idea: split_f16 in BF16
    family: window_bf16
    after: split_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
  bf16_medium:
    idea: slabs of 64 columns in BF16
    family: window_bf16
    after: split_f16_bf16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    tile: {slab: 64, batch: 8, warps: 12, ctas: 2}
    constants: {values: Bf16}
deviations:
  - "an empty row of A has an entry of value zero in column 0, and the last batch of a CTA is padded with entries of value zero in column 0 or in columns loaded before; an infinity or a NaN in those rows of B becomes NaN"
---*/
#include "tile/epilogue.cuh"
#include "tile/reordered.cuh"
#include "tile/split_rows.cuh"
#include "tile/values_16.cuh"

namespace {

using Values = tile::VALUES;

// Lane groups of a warp and of a CTA.
constexpr int LANES = TILE_SLAB / 8, OF_WARP = 32 / LANES, GROUPS = TILE_WARPS * OF_WARP;
// Eight lanes load the batch of a group, although a group has four lanes in slabs of 32 columns: eight lanes that read
// neighbouring entries touch fewer lines than two times four. One load of the warp brings the batches of AT_A_TIME
// groups, so that a lane loads LOADS entries:
//
//   lanes                | 0..7    | 8..15   | 16..23  | 24..31  |
//   load 0 brings        | group 0 | group 1 | group 2 | group 3 |
//   load 1 brings        | group 4 | group 5 | group 6 | group 7 |     slabs of 32 columns only
constexpr int LOADS = TILE_BATCH / LANES, AT_A_TIME = OF_WARP / LOADS;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64, "a group has four lanes or eight");
static_assert(TILE_BATCH == tile::SPLIT_BATCH, "a batch has the size that tile/split_rows.cuh assumes");

// Add the product of an entry with a pair of columns in FP32.
__device__ __forceinline__ void add_pair(float& low, float& high, float value, unsigned pair) {
    const float2 x = Values::unpack(pair);
    low += value * x.x, high += value * x.y;
}

// Round four sums; if SCALED, relu(alpha·sum + beta·old + bias), where `low` and `high` are the old values of C.
__device__ __forceinline__ uint2 round(
    float4 sum, float alpha, float beta, unsigned low, unsigned high, const tile::Epilogue& epilogue, unsigned low_bias,
    unsigned high_bias) {
    if constexpr (SCALED) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        add_pair(sum.x, sum.y, beta, low);
        add_pair(sum.z, sum.w, beta, high);
        tile::finish<Values>(sum.x, sum.y, epilogue, low_bias);
        tile::finish<Values>(sum.z, sum.w, epilogue, high_bias);
    }
    return make_uint2(Values::pack(sum.x, sum.y), Values::pack(sum.z, sum.w));
}

}  // namespace

// As split_fma, with eight columns per lane. Sums that other groups need stay in FP32.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int2* __restrict__ group_starts,
    const int* __restrict__ columns, const unsigned short* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, tile::Eight* partials, int partial_count, int stride, int stride_c,
    int multiprocessors, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    __shared__ tile::SplitShared<TILE_WARPS, LANES, tile::Eight> shared;
    const int partition = tile::partition_of_cta(multiprocessors);
    const int warp = threadIdx.x / 32, group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int head = __ldg(group_starts + (partition * GROUPS + group)).y;  // the group's first row, or ~row
    const int column_of_c = blockIdx.y * TILE_SLAB + 8 * lane;
    // Out-of-range lanes read the last valid columns of B; their sums are never stored to C.
    const char* b_slab = reinterpret_cast<const char*>(b + min(column_of_c, stride / 2 - 8));

    // This lane's entries of the next batch. After the last entry the value is zero and the column that of an earlier
    // one.
    int at[LOADS], end[LOADS], column[LOADS] = {};
    unsigned short value[LOADS];
    const auto fetch = [&] {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            value[i] = 0;
            if (at[i] < end[i]) column[i] = __ldg(columns + at[i]), value[i] = __ldg(data + at[i]);
            at[i] += TILE_BATCH;
        }
    };
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int loaded = partition * GROUPS + warp * OF_WARP + i * AT_A_TIME + threadIdx.x % 32 / TILE_BATCH;
        at[i] = __ldg(group_starts + loaded).x, end[i] = __ldg(group_starts + loaded + 1).x;
    }
    // The first group of the warp has the most batches: the partition may run out of slots in a later group.
    const int batches = __reduce_max_sync(~0u, (end[0] - at[0] + TILE_BATCH - 1) / TILE_BATCH);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) at[i] += threadIdx.x % TILE_BATCH;
    fetch();

    const bool stores = column_of_c < stride_c / 2;
    const auto store = [&](int row, const tile::Eight& sum, bool wanted) {
        const tile::RowsOfC row_of_c = {REORDERED_ROWS};
        char* first = reinterpret_cast<char*>(c + column_of_c);
        uint4* to = reinterpret_cast<uint4*>(first + static_cast<long long>(row_of_c(row, wanted)) * stride_c);
        const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
        uint4 old = {}, own = {};
        if (SCALED && wanted && beta != 0.0f) old = *to;
        if (wanted) own = epilogue.bias_of<uint4, unsigned short>(column_of_c);
        const uint2 low = round(sum.low, alpha, beta, old.x, old.y, epilogue, own.x, own.y);
        const uint2 high = round(sum.high, alpha, beta, old.z, old.w, epilogue, own.z, own.w);
        if (wanted) __stcs(to, make_uint4(low.x, low.y, high.x, high.y));
    };
    if (threadIdx.x == 0) shared.work = __ldg(work + partition);
    if (lane == 0) shared.heads[group] = head;
    // The open row; ~row as long as that is a row that began in an earlier group.
    int row = head;
    tile::Eight* own_sum = &shared.sums[0][0] + threadIdx.x;
    tile::Eight sum = {};
    const auto close = [&] {
        if (row < 0) *own_sum = sum;
        store(row, sum, stores && row >= 0);
        row = row < 0 ? -row : row + 1;
        sum = {};
    };

    const int warp_group = threadIdx.x % 32 / LANES;
#pragma unroll 1
    for (int left = batches; left > 0; --left) {
        unsigned ballots[LOADS], any = 0;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            ballots[i] = __ballot_sync(~0u, column[i] < 0);
            any |= ballots[i];
            if (column[i] < 0) column[i] = ~column[i];
            shared.columns[warp][32 * i + threadIdx.x % 32] = column[i];
            shared.values[warp][32 * i + threadIdx.x % 32] = Values::unpack(value[i]).x;
        }
        __syncwarp();
        fetch();
        uint4 x[TILE_BATCH];
        tile::load_rows(x, &shared.columns[warp][warp_group * TILE_BATCH], b_slab, stride);
        const auto product = [&](int i, float a) {
            add_pair(sum.low.x, sum.low.y, a, x[i].x);
            add_pair(sum.low.z, sum.low.w, a, x[i].y);
            add_pair(sum.high.x, sum.high.y, a, x[i].z);
            add_pair(sum.high.z, sum.high.w, a, x[i].w);
        };
        const auto multiply = [&](unsigned ends) {
            tile::each_entry<TILE_BATCH>(&shared.values[warp][warp_group * TILE_BATCH], ends, product, close);
        };
        // Two copies of the code, because most batches of longer rows need no tests.
        if (any == 0) {
            multiply(0);
        } else {
            multiply(ballots[warp_group / AT_A_TIME] >> warp_group % AT_A_TIME * TILE_BATCH);
        }
        __syncwarp();
    }
    const int first_row = head < 0 ? ~head : head, ended = (row < 0 ? ~row : row) - first_row;
    const auto finished = [&](int finished_row, const tile::Eight& total) { store(finished_row, total, stores); };
    tile::join_rows(shared, first_row, head < 0, ended, sum, cut, partials, partial_count, finished);
}
