/*---
name: rows_fma
study: flagship
source: "our own; a row of C from entries one after the other after GE-SpMM (Huang et al. 2020), long rows cut after RoDe (Pang et al. 2024)"
idea: entries of CSR in pieces of rows on CUDA cores in full FP32, a CTA at neighbouring rows at the same time, all of the first-level cache for their rows of B
after: gespmm_seq_row
family: rows_f32
# Windows whose rows share few columns, and products too small for sharing to pay (suites flagship and attention), but for
# those that split_fma takes. At most 30 parts of a row: the format cuts those of more entries than the last factor.
suits: n > 64 and (nnz < 26 * usual.blocks or n * nnz < 150000 * device.multiprocessors) and not (nnz < 24 * usual.blocks and n * nnz < 25000 * device.multiprocessors) and longest < 30 * min(max((nnz + m) // (16 * device.multiprocessors), 48), 512)
format: csr_shares
format_options: {ctas: tile.ctas, multiprocessors: device.multiprocessors, groups: tile.warps * 128 // tile.slab}
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, batch: 8, warps: 16, ctas: 2}
constants: {scaled: 0}
features: [atom_inc]
scratch: (4 * tile.slab + 4) * a.parts * ceil_div(n, tile.slab)
launch:
  grid: min(a.shares, max(1, tile.ctas * device.multiprocessors // even_part(ceil_div(n, tile.slab), device.l2_bytes // max(4 * k * tile.slab, 1)))), ceil_div(n, tile.slab)
  block: 32 * tile.warps
  args: a.work, a.shares, a.pieces, a.cut, a.columns, a.data, b, c, scratch, a.parts, 4 * b.ld, c.ld, device.multiprocessors, alpha, beta
variants:
  tf32:
    idea: the same on operands of TF32, to no less than its precision
    family: rows_tf32
    after: rows_fma
    dtype: {a: tf32, b: tf32}
deviations:
  - "an empty row of A has an entry of value zero in column 0, which makes NaN of an infinity in row 0 of B"
---*/
#include "tile/cut_rows.cuh"

namespace {

constexpr int LANES = TILE_SLAB / 4, GROUPS = 32 / LANES;
static_assert(TILE_SLAB == 32 || TILE_SLAB == 64 || TILE_SLAB == 128, "a strip has 32, 64 or 128 columns");
static_assert(TILE_BATCH % 4 == 0 && LANES % TILE_BATCH == 0, "a batch is of fours, and a group's entries of batches");
// Instead of a row: the entries belong to the piece of those before.
constexpr int GOES_ON = 1 << 31;
constexpr unsigned BATCH_ENDS = ~0u >> (32 - TILE_BATCH);
// Pieces of a CTA among which rows are added up without other CTAs having to know.
constexpr int NEAR = 512;

// Entries on their way from the lanes that load them to all lanes of the group; with room behind, so that the groups
// read different banks.
struct Staged {
    __align__(16) int columns[LANES];
    __align__(16) float values[LANES + 4];
};

}  // namespace

// A group of LANES lanes reads the strip of a row of B at a time, whole lines of it, and each lane sums four columns.
// The CTA's groups take its pieces in their order, so that they are at neighbouring rows, which tend to have columns in
// common; the entries after those that are multiplied are on their way, one a lane.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) rows_fma(
    const int* __restrict__ work, int share_count, const int2* __restrict__ pieces, const int4* __restrict__ cut,
    const int* __restrict__ columns, const float* __restrict__ data, const float* __restrict__ b,
    float* __restrict__ c, float4* parts, int part_count, int stride, int ldc, int multiprocessors, float alpha,
    float beta) {
    __shared__ int taken, begin, last;
    __shared__ unsigned arrived[NEAR];
    __shared__ Staged staged[TILE_WARPS * GROUPS];
    Staged& mine = staged[threadIdx.x / LANES];
    const int lane = threadIdx.x % LANES;
    const int strip_column = blockIdx.y * TILE_SLAB + 4 * lane;
    const char* strip = reinterpret_cast<const char*>(b + min(strip_column, stride / 4 - 4));

    const auto store_row = [&](int row, const float4& sum) {
        if (strip_column < ldc) {
            float* to = c + static_cast<long long>(row) * ldc + strip_column;
            tile::store<SCALED>(reinterpret_cast<float4*>(to), sum, alpha, beta);
        }
    };

    if (threadIdx.x == 0) {
        // Several shares where the grid has fewer CTAs than there are shares.
        const int merge = (share_count + gridDim.x - 1) / gridDim.x, first = tile::share(multiprocessors) * merge;
        taken = begin = __ldg(work + min(first, share_count)), last = __ldg(work + min(first + merge, share_count));
    }
    for (int i = threadIdx.x; i < NEAR; i += blockDim.x) arrived[i] = ~0u;
    __syncthreads();

    // The entries after those at hand: a lane's own, how many the group has, and the row where a piece begins with them.
    int at = 0, end = 0, column, count, start;
    float value;
    const auto fetch = [&] {
        const bool takes = at == end;
        int piece = 0;
        if (takes && lane == 0) piece = atomicAdd(&taken, 1);
        piece = __shfl_sync(~0u, piece, 0, LANES);
        start = GOES_ON;
        if (takes && piece < last) {
            const int2 of = __ldg(pieces + piece);
            at = of.x, start = of.y;
            end = __ldg(pieces + piece + 1).x;
        }
        count = min(end - at, LANES);
        // The other lanes' products are no part of a sum: a piece has ended before them.
        column = 0, value = 0.0f;
        if (lane < count) column = __ldcs(columns + (at + lane)), value = __ldcs(data + (at + lane));
        at += count;
    };

    int row = 0;
    float4 sum;
    fetch();
    while (true) {
        const int most = GROUPS == 1 ? count : __reduce_max_sync(~0u, count);
        if (most == 0) break;
        if (start != GOES_ON) {
            row = start;
            sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        // A bit for each entry with which a row or a part of one ends.
        unsigned ends = tile::of_group<LANES>(__ballot_sync(~0u, column < 0));
        mine.columns[lane] = column < 0 ? ~column : column;
        mine.values[lane] = value;
        __syncwarp();
        fetch();
        const bool part_ends = row < 0 && ends != 0;
        if (row < 0) ends = 0;
#pragma unroll 1
        for (int batch = 0; batch < most; batch += TILE_BATCH) {
            float4 x[TILE_BATCH];
            tile::load_rows(x, mine.columns + batch, strip, stride);
            const auto product = [&](int i, float a) {
                const float4& of = x[i];
                sum.x += a * of.x, sum.y += a * of.y, sum.z += a * of.z, sum.w += a * of.w;
            };
            const auto close = [&] {
                store_row(row++, sum);
                sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            };
            // Two codes, since most batches of longer rows need no tests.
            const bool plain = GROUPS == 1 ? (ends & BATCH_ENDS) == 0 : !__any_sync(~0u, ends & BATCH_ENDS);
            if (plain) {
                tile::each_entry<TILE_BATCH>(mine.values + batch, 0, product, close);
            } else {
                tile::each_entry<TILE_BATCH>(mine.values + batch, ends, product, close);
            }
            ends >>= TILE_BATCH;
        }
        if (part_ends) {
            const int4 of = __ldg(cut + ~row);
            const int place = of.w - begin;
            const bool near = place >= 0 && of.w + of.y <= last && place < NEAR;
            unsigned* here = near ? arrived + place : nullptr;
            if (tile::add_parts<LANES>(sum, parts, part_count, ~row, of, here)) store_row(of.z, sum);
        }
        __syncwarp();
    }
}
