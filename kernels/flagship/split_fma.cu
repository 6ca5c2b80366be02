/*---
name: split_fma
study: flagship
source: "our own; equal parts of the non-zeros after Yang, Buluç and Owens 2018 and the merge path of Merrill and Garland 2016"
idea: entries of CSR in equal parts for all groups of eight lanes, on CUDA cores in full FP32, eight rows of B on their way a group
after: rows_fma
family: rows_f32
# Windows whose rows share few columns, and of wider products the smallest (suites flagship and attention).
suits: nnz < (40 if n <= 64 else 24) * usual.blocks and (n <= 64 or n * nnz < 25000 * device.multiprocessors)
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
scratch: (4 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: a.shares, ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.cut, a.places, a.columns, a.data, b, c, scratch, a.parts, 4 * b.ld, 4 * c.ld, device.multiprocessors, alpha, beta
variants:
  tf32:
    idea: the same on operands of TF32, to no less than its precision
    family: rows_tf32
    after: split_fma
    dtype: {a: tf32, b: tf32}
deviations:
  - "an empty row of A has an entry of value zero in column 0, and the last batch of a CTA such entries in columns that it had before or in column 0, which makes NaN of an infinity in those rows of B"
---*/
#include "tile/split_rows.cuh"

namespace {

constexpr int LANES = TILE_SLAB / 4, GROUPS = TILE_WARPS * 32 / LANES;
static_assert(TILE_SLAB == 32 && TILE_BATCH == LANES && LANES == tile::SPLIT_BATCH, "a strip is a line of 32 columns, a batch an entry of each lane");

}  // namespace

// A group of lanes reads the strip of a row of B at a time, a line of it, and each lane sums four columns. All groups of a
// warp have equally many batches of entries, wherever rows end; a row that several groups have a part of is added up by
// the one where it begins. A lane loads one of the entries after those that are multiplied.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int2* __restrict__ places,
    const int* __restrict__ columns, const float* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int stride, int stride_c, int multiprocessors, float alpha,
    float beta) {
    __shared__ tile::SplitShared<TILE_WARPS, LANES, float4> shared;
    const int share = tile::share(multiprocessors);
    const int warp = threadIdx.x / 32, group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int2 place = __ldg(places + (share * GROUPS + group));
    const int end = __ldg(places + (share * GROUPS + group + 1)).x;
    const int strip_column = blockIdx.y * TILE_SLAB + 4 * lane;
    const char* strip = reinterpret_cast<const char*>(b + min(strip_column, stride / 4 - 4));
    // Of the warp's groups, those behind a share's last slot have less.
    const int batches = __reduce_max_sync(~0u, (end - place.x + TILE_BATCH - 1) / TILE_BATCH);

    // The lane's entry of the next batch. Where there is none the product is zero, of a row that was read before.
    int at = place.x + lane, column = 0;
    float value;
    const auto fetch = [&] {
        value = 0.0f;
        if (at < end) column = __ldg(columns + at), value = __ldg(data + at);
        at += TILE_BATCH;
    };
    fetch();

    const bool stores = strip_column < stride_c / 4;
    const auto row_of_c = [&](int row) {
        char* first = reinterpret_cast<char*>(c + strip_column);
        return reinterpret_cast<float4*>(first + static_cast<long long>(row) * stride_c);
    };
    if (threadIdx.x == 0) shared.own = __ldg(work + share);
    if (lane == 0) shared.heads[group] = place.y;
    const int first_row = place.y < 0 ? ~place.y : place.y;
    float4* own_sum = &shared.sums[group][lane];
    // Where rows go: to C, except the first one if it began before; and lanes behind the last column write there where
    // nobody reads.
    char* first_to = reinterpret_cast<char*>(stores ? row_of_c(first_row) : own_sum);
    const int step = stores ? stride_c : 0;
    bool kept = place.y < 0 || !stores;
    float4* to = kept ? own_sum : row_of_c(first_row);
    int ended = 0;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const auto close = [&] {
        if (SCALED && !kept) {
            tile::store<SCALED>(to, sum, alpha, beta);
        } else {
            *to = sum;
        }
        kept = !stores;
        ++ended;
        to = reinterpret_cast<float4*>(first_to + static_cast<long long>(ended) * step);
        sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    };

#pragma unroll 1
    for (int left = batches; left > 0; --left) {
        const unsigned ballot = __ballot_sync(~0u, column < 0);
        if (column < 0) column = ~column;
        shared.columns[warp][threadIdx.x % 32] = column;
        shared.values[warp][threadIdx.x % 32] = value;
        __syncwarp();
        fetch();
        float4 x[TILE_BATCH];
        tile::load_rows(x, &shared.columns[warp][tile::below<LANES>()], strip, stride);
        const auto product = [&](int i, float a) {
            const float4& of = x[i];
            sum.x += a * of.x, sum.y += a * of.y, sum.z += a * of.z, sum.w += a * of.w;
        };
        const auto multiply = [&](unsigned ends) {
            tile::each_entry<TILE_BATCH>(&shared.values[warp][tile::below<LANES>()], ends, product, close);
        };
        // Two codes, since most batches of longer rows need no tests.
        if (ballot == 0) {
            multiply(0);
        } else {
            multiply(ballot >> tile::below<LANES>());
        }
        __syncwarp();
    }

    const auto finished = [&](int row, const float4& total) {
        if (stores) tile::store<SCALED>(row_of_c(row), total, alpha, beta);
    };
    tile::join_rows(shared, first_row, place.y < 0, ended, sum, cut, parts, part_count, finished);
}
