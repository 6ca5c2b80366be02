/*---
name: split_fma
study: flagship
source: "our own; equal parts of the non-zeros after Yang, Buluç and Owens 2018 and the merge path of Merrill and Garland 2016"
idea: entries of CSR in equal parts for all groups of eight lanes, on CUDA cores in full FP32, eight rows of B on their way a group
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
#include "tile/cut_rows.cuh"

namespace {

constexpr int LANES = TILE_SLAB / 4, GROUPS = TILE_WARPS * 32 / LANES;
static_assert(TILE_SLAB == 32 && TILE_BATCH == LANES, "a strip is a line of 32 columns, a batch an entry of each lane");
constexpr int ENDED = 1 << 31;

struct Shared {
    // Entries on their way from the lanes that load them to all lanes of the group.
    __align__(16) int columns[TILE_WARPS][32];
    __align__(16) float values[TILE_WARPS][32];
    // Of a group's first row its part if it began before; and the row, or ~row (negative) where that was so, or ENDED
    // where it was so and the row ends in this group.
    float4 sums[GROUPS][LANES];
    int heads[GROUPS];
    int4 own;  // a copy of what the CTA has to do, rather than registers that wait in the loop
};

}  // namespace

// A group of lanes reads the strip of a row of B at a time, a line of it, and each lane sums four columns. All groups of a
// warp have equally many batches of entries, wherever rows end; a row that several groups have a part of is added up by
// the one where it begins. A lane loads one of the entries after those that are multiplied.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) split_fma(
    const int4* __restrict__ work, const int4* __restrict__ cut, const int2* __restrict__ places,
    const int* __restrict__ columns, const float* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int stride, int stride_c, int multiprocessors, float alpha,
    float beta) {
    __shared__ Shared shared;
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
#pragma unroll
        for (int i = 0; i < TILE_BATCH; i += 4) {
            const int4 four = *reinterpret_cast<const int4*>(&shared.columns[warp][tile::below<LANES>() + i]);
            const int rows[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const char* from = strip + static_cast<long long>(rows[j]) * stride;
                x[i + j] = __ldg(reinterpret_cast<const float4*>(from));
            }
        }
        const auto multiply = [&](unsigned ends) {
#pragma unroll
            for (int i = 0; i < TILE_BATCH; i += 4) {
                const float4 four = *reinterpret_cast<const float4*>(&shared.values[warp][tile::below<LANES>() + i]);
                const float a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float4& of = x[i + j];
                    sum.x += a[j] * of.x, sum.y += a[j] * of.y, sum.z += a[j] * of.z, sum.w += a[j] * of.w;
                    if (ends & 1u << (i + j)) close();
                }
            }
        };
        // Two codes, since most batches of longer rows need no tests.
        if (ballot == 0) {
            multiply(0);
        } else {
            multiply(ballot >> tile::below<LANES>());
        }
        __syncwarp();
    }

    const bool joins = place.y < 0, inside = joins && ended == 0;
    if (inside) *own_sum = sum;
    if (lane == 0 && joins && !inside) shared.heads[group] = ENDED;
    __syncthreads();
    // First the row that goes on behind this group, then the one that a CTA before has begun.
    const int4 own = shared.own;
    const int busy = own.y;
    const bool goes_on = group + 1 < busy ? shared.heads[group + 1] < 0 : group + 1 == busy && own.w >= 0;
    const bool first = group == 0 && busy > 0 && shared.heads[0] < 0;
    const auto finished = [&](int row) {
        if (stores) tile::store<SCALED>(row_of_c(row), sum, alpha, beta);
    };
#pragma unroll 1
    for (int turn = goes_on && !inside ? 0 : 1; turn < (first ? 2 : 1); ++turn) {
        int next = group + 1, part = -1;
        if (turn == 1) {
            next = 0, part = own.z;
            sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        // The group with which the row ends, if one does.
        int last = next;
        while (true) {
            const bool here = last + lane >= busy || shared.heads[last + lane] == ENDED;
            const unsigned found = tile::of_group<LANES>(__ballot_sync(tile::group_mask<LANES>(), here));
            if (found) {
                last += __ffs(found) - 1;
                break;
            }
            last += LANES;
        }
#pragma unroll 4
        for (; next <= min(last, busy - 1); ++next) {
            const float4 x = shared.sums[next][lane];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        if (last == busy) part = own.w;
        if (part < 0) {
            finished(first_row + ended);
        } else {
            const int4 of = __ldg(cut + part);
            if (tile::add_parts<LANES>(sum, parts, part_count, part, of)) finished(of.z);
        }
    }
}
