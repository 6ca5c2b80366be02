/*---
name: split_f16
study: flagship
source: "our own; equal parts of the non-zeros after Yang, Buluç and Owens 2018 and the merge path of Merrill and Garland 2016"
idea: split_fma on operands of 16 bits, four lanes for a row of B, added in FP32
after: window_f16
family: window_f16
# Windows whose rows share few columns (suites flagship and attention).
suits: n <= 64 and nnz < 19 * usual.blocks
format: csr_split
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, warps: tile.warps, groups: 256 // tile.slab, batch: tile.batch}
dtype: {a: float16, b: float16, accumulator: float32, c: float16}
layout: {b: row_major, c: row_major}
pads: {n: 8}
min_arch: sm_80
requires: {}
tile: {slab: 32, batch: 8, warps: 12, ctas: 2}
constants: {values: F16, scaled: 0}
features: [atom_inc]
scratch: (4 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: a.shares, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.places, a.columns, a.data, b, c, scratch, a.parts, 2 * b.ld, 2 * c.ld, device.multiprocessors, alpha, beta
variants:
  medium:
    idea: strips of 64 columns
    after: split_f16
    # For wider B, where the product is small too.
    suits: &wide n > 64 and (n <= 128 or n * nnz < 60000 * device.multiprocessors) and nnz <= (25 if n * nnz < 60000 * device.multiprocessors else 16) * usual.blocks
    tile: {slab: 64, batch: 8, warps: 12, ctas: 2}
  bf16:
    idea: split_f16 in BF16
    family: window_bf16
    after: split_f16
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    constants: {values: Bf16}
  bf16_medium:
    idea: strips of 64 columns in BF16
    family: window_bf16
    after: split_f16_bf16
    suits: *wide
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    tile: {slab: 64, batch: 8, warps: 12, ctas: 2}
    constants: {values: Bf16}
deviations:
  - "an empty row of A has an entry of value zero in column 0, and the last batch of a CTA such entries in columns that it had before or in column 0, which makes NaN of an infinity in those rows of B"
---*/
#include "tile/split_rows.cuh"
#include "tile/values_16.cuh"

namespace {

using Values = tile::VALUES;

constexpr int LANES = TILE_SLAB / 8, OF_WARP = 32 / LANES, GROUPS = TILE_WARPS * OF_WARP;
// Eight lanes load the entries of a group. A lane does so for LOADS groups, a warp for AT_A_TIME of them with one load.
constexpr int LOADS = TILE_BATCH / LANES, AT_A_TIME = OF_WARP / LOADS;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64, "a group has four lanes or eight");
static_assert(TILE_BATCH == tile::SPLIT_BATCH, "a batch is of as many entries as tile/split_rows.cuh has");

// The product of an entry with a pair of columns, added in FP32.
__device__ __forceinline__ void add_pair(float& low, float& high, float value, unsigned pair) {
    const float2 x = Values::unpack(pair);
    low += value * x.x, high += value * x.y;
}

// Four sums, rounded; in code compiled as SCALED, of alpha times them plus beta times what is there.
__device__ __forceinline__ uint2 round(float4 sum, float alpha, float beta, unsigned low, unsigned high) {
    if constexpr (SCALED) {
        sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
        add_pair(sum.x, sum.y, beta, low);
        add_pair(sum.z, sum.w, beta, high);
    }
    return make_uint2(Values::pack(sum.x, sum.y), Values::pack(sum.z, sum.w));
}

}  // namespace

// As split_fma, with eight columns a lane. Sums that other groups need are not rounded. Where a strip has four lanes, a
// lane loads entries of two groups, since eight lanes that read neighbouring entries read fewer lines than twice four.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_f16(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int2* __restrict__ places,
    const int* __restrict__ columns, const unsigned short* __restrict__ data, const unsigned short* __restrict__ b,
    unsigned short* __restrict__ c, tile::Eight* parts, int part_count, int stride, int stride_c, int multiprocessors,
    float alpha, float beta) {
    __shared__ tile::SplitShared<TILE_WARPS, LANES, tile::Eight> shared;
    const int share = tile::share(multiprocessors);
    const int warp = threadIdx.x / 32, group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int head = __ldg(places + (share * GROUPS + group)).y;
    const int strip_column = blockIdx.y * TILE_SLAB + 8 * lane;
    const char* strip = reinterpret_cast<const char*>(b + min(strip_column, stride / 2 - 8));

    // The lane's entries of the next batch. Where there is none the product is zero, of a row that was read before.
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
        const int of = share * GROUPS + warp * OF_WARP + i * AT_A_TIME + threadIdx.x % 32 / TILE_BATCH;
        at[i] = __ldg(places + of).x, end[i] = __ldg(places + of + 1).x;
    }
    // Of the warp's groups, those behind a share's last slot have less than the first one.
    const int batches = __reduce_max_sync(~0u, (end[0] - at[0] + TILE_BATCH - 1) / TILE_BATCH);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) at[i] += threadIdx.x % TILE_BATCH;
    fetch();

    const bool stores = strip_column < stride_c / 2;
    const auto store = [&](int row, const tile::Eight& sum, bool where) {
        char* first = reinterpret_cast<char*>(c + strip_column);
        uint4* to = reinterpret_cast<uint4*>(first + static_cast<long long>(row) * stride_c);
        uint4 old = {};
        if (SCALED && where && beta != 0.0f) old = *to;
        const uint2 low = round(sum.low, alpha, beta, old.x, old.y), high = round(sum.high, alpha, beta, old.z, old.w);
        if (where) __stcs(to, make_uint4(low.x, low.y, high.x, high.y));
    };
    if (threadIdx.x == 0) shared.own = __ldg(work + share);
    if (lane == 0) shared.heads[group] = head;
    // The row that is open, or ~row while that is one which began before.
    int row = head;
    tile::Eight* own_sum = &shared.sums[0][0] + threadIdx.x;
    tile::Eight sum = {};
    const auto close = [&] {
        if (row < 0) *own_sum = sum;
        store(row, sum, stores && row >= 0);
        row = row < 0 ? -row : row + 1;
        sum = {};
    };

    const int within = threadIdx.x % 32 / LANES;
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
        tile::load_rows(x, &shared.columns[warp][within * TILE_BATCH], strip, stride);
        const auto product = [&](int i, float a) {
            add_pair(sum.low.x, sum.low.y, a, x[i].x);
            add_pair(sum.low.z, sum.low.w, a, x[i].y);
            add_pair(sum.high.x, sum.high.y, a, x[i].z);
            add_pair(sum.high.z, sum.high.w, a, x[i].w);
        };
        const auto multiply = [&](unsigned ends) {
            tile::each_entry<TILE_BATCH>(&shared.values[warp][within * TILE_BATCH], ends, product, close);
        };
        // Two codes, since most batches of longer rows need no tests.
        if (any == 0) {
            multiply(0);
        } else {
            multiply(ballots[within / AT_A_TIME] >> within % AT_A_TIME * TILE_BATCH);
        }
        __syncwarp();
    }
    const int first_row = head < 0 ? ~head : head, ended = (row < 0 ? ~row : row) - first_row;
    const auto finished = [&](int of, const tile::Eight& total) { store(of, total, stores); };
    tile::join_rows(shared, first_row, head < 0, ended, sum, cut, parts, part_count, finished);
}
