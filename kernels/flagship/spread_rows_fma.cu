/*---
name: spread_rows_fma
study: flagship
source: "our own; several lane groups for a row after the vector kernel of Bell and Garland 2009"
idea: even_rows_fma with long rows shared by several lane groups of a CTA, and more of them where lanes would be idle
after: even_rows_fma
family: rows_f32
format: csr_binned
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {fours: 2, columns: 4, lanes: 32, threads: 128, ctas: 8, first: 1}
constants: {scaled: 0}
features: [cp_async, cp_async_ca, mov]
launch:
  grid: ceil_div(most_groups(m, a.nnz, share_bin(m, n, a.nnz, tile.columns, tile.lanes, tile.threads * tile.ctas * device.multiprocessors)), tile.threads // lanes_of_group(n, tile.columns, tile.lanes)), ceil_div(n, tile.columns * tile.lanes)
  block: lanes_of_group(n, tile.columns, tile.lanes), tile.threads // lanes_of_group(n, tile.columns, tile.lanes)
  args: a.runs, a.longer, share_bin(m, n, a.nnz, tile.columns, tile.lanes, tile.threads * tile.ctas * device.multiprocessors), a.indices, a.data, b, c, m, 16 // tile.columns * b.ld, c.ld, alpha, beta
variants:
  tf32:
    idea: spread_rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: spread_rows_fma
    dtype: {a: tf32, b: tf32}
  f16:
    idea: spread_rows_fma on FP16 operands, with eight columns a lane and sums in FP32
    family: window_f16
    after: spread_rows_fma
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
    tile: {columns: 8, lanes: 8}
    constants: {packet: "tile::Packet16<tile::F16>", rolling: tile::RollingFours16}
  bf16:
    idea: spread_rows_fma on BF16 operands, with eight columns a lane and sums in FP32
    family: window_bf16
    after: spread_rows_fma
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
    tile: {columns: 8, lanes: 8}
    constants: {packet: "tile::Packet16<tile::Bf16>", rolling: tile::RollingFours16}
deviations: []
---*/
#include "tile/packet_16.cuh"
#include "tile/reordered.cuh"
#include "tile/rolling_row.cuh"
#include "tile/store_packet.cuh"

// Columns of a lane, and entries of A that a CTA has copied.
#ifndef PACKET
#define PACKET tile::Packet<float>
#define ROLLING tile::RollingFours
#endif

namespace {

using Packet = PACKET;
using Stored = Packet::Stored;
static_assert(Packet::WIDTH == TILE_COLUMNS, "the launch deals columns to lanes");
// A row of at least twice, four times, … the entries of a share has two, four, … lane groups, up to those of a CTA.
enum { DOUBLINGS = 5 };

// What a lane group works on: a row by its rank, and a part of it. All groups of a row are in one CTA.
struct Share {
    int rank, part;
    unsigned shift;  // 2^shift groups have the row
    int slab;        // of columns
};

__device__ __forceinline__ Share own_share(const int* __restrict__ longer, int bin) {
    // Rows with at least 2^(i + 1) groups.
    int rows[DOUBLINGS];
#pragma unroll
    for (int i = 0; i < DOUBLINGS; ++i) rows[i] = 2u << i <= blockDim.y ? __ldg(longer + bin + 2 * (i + 1)) : 0;
    unsigned chunk = blockIdx.x;
    Share own = {0, 0, 0, static_cast<int>(blockIdx.y)};
#if TILE_FIRST
    // Shared rows come first in all slabs: a long row that begins with the last slab would end after all others.
    if (gridDim.y > 1) {
        unsigned shared = 0;
#pragma unroll
        for (int i = 0; i < DOUBLINGS; ++i) shared += rows[i] << i;
        // The sum above counts a row of 2^(i + 1) groups 2^(i + 1) - 1 times.
        shared = (shared + rows[0] + blockDim.y - 1) / blockDim.y;
        unsigned linear = blockIdx.y * gridDim.x + blockIdx.x;
        if (linear < shared * gridDim.y) {
            own.slab = linear / shared, chunk = linear % shared;
        } else {
            linear -= shared * gridDim.y;
            own.slab = linear / (gridDim.x - shared), chunk = shared + linear % (gridDim.x - shared);
        }
    }
#endif
    unsigned index = chunk * blockDim.y + threadIdx.y, first = 0;
    bool found = false;
#pragma unroll
    for (int i = DOUBLINGS - 1; i >= 0; --i) {
        const unsigned groups = (rows[i] - first) << (i + 1);
        if (!found && index < groups) own.shift = i + 1, found = true;
        if (!found) index -= groups, first = rows[i];
    }
    own.rank = first + (index >> own.shift), own.part = index & ((1u << own.shift) - 1);
    return own;
}

}  // namespace

// As in even_rows_fma, but long rows are shared by several lane groups of a CTA. Each group sums up its share of the
// aligned fours of entries, and the first one adds up the sums of all, in order. With four groups:
//
//   fours of entries of the row | 0  1  2 | 3  4  5 | 6  7 | 8  9 |
//   part                        |    0    |    1    |  2   |  3   |
//
// The launch says how many entries a share has, as a bin of lengths. `longer` says how many rows are longer, so that a
// group finds its row: those of most groups come first.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spread_rows_fma(
    const int4* __restrict__ runs, const int* __restrict__ longer, int bin, const int* __restrict__ indices,
    const Stored* __restrict__ data, const Stored* __restrict__ b, Stored* __restrict__ c, int m, int stride, int ldc,
    float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    __shared__ ROLLING<TILE_THREADS> staged;
    __shared__ float4 of_groups[Packet::WIDTH / 4][TILE_THREADS];
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const Share own = own_share(longer, bin);
    const int column = (own.slab * blockDim.x + threadIdx.x) * Packet::WIDTH;
    const int4 run = own.rank < m ? __ldg(runs + own.rank) : make_int4(-1, 0, 0, 0);
    // The fours of this part: the first parts have one more where their number is no multiple of the groups.
    const int aligned = run.y & ~3;
    const unsigned fours = (run.z - aligned + 3) / 4, least = fours >> own.shift, more = fours - (least << own.shift);
    const int begin = aligned + 4 * (own.part * least + min(own.part, more));
    const int start = max(run.y, begin), end = min(run.z, static_cast<int>(begin + 4 * (least + (own.part < more))));

    float sums[Packet::WIDTH] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const Stored* columns = b + (static_cast<int>(sizeof(Stored)) * column < stride ? column : 0);
    tile::add_rolling<Packet, TILE_FOURS>(sums, staged, indices, data, start, end, columns, stride);
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (own.shift > 0) {
#pragma unroll
        for (int i = 0; i < Packet::WIDTH; i += 4) {
            of_groups[i / 4][thread] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
        }
    }
    __syncthreads();
    if (run.x < 0 || own.part > 0 || column >= ldc) return;
    for (unsigned other = 1; other < 1u << own.shift; ++other) {
#pragma unroll
        for (int i = 0; i < Packet::WIDTH; i += 4) {
            const float4 four = of_groups[i / 4][thread + other * blockDim.x];
            sums[i] += four.x, sums[i + 1] += four.y, sums[i + 2] += four.z, sums[i + 3] += four.w;
        }
    }
    tile::store_packet<Packet, SCALED>(
        c + static_cast<long long>(row_of_c(run.x)) * ldc + column, sums, alpha, beta, epilogue, column);
}
