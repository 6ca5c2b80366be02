/*---
name: spread_rows_fma
study: flagship
source: "our own; several lane groups for a row after the vector kernel of Bell and Garland 2009"
idea: even_rows_fma with each row spread over several lane groups of a CTA, as many as would be idle otherwise
after: even_rows_fma
family: rows_f32
format: csr_swizzled
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {fours: 2, columns: 4, lanes: 32, threads: 128, ctas: 8}
constants: {scaled: 0}
features: [cp_async, cp_async_ca, mov]
launch:
  grid: ceil_div(m * groups_of_row(m, n, a.nnz, tile.columns, tile.lanes, tile.threads, tile.ctas * device.multiprocessors), tile.threads // lanes_of_group(n, tile.columns, tile.lanes)), ceil_div(n, tile.columns * tile.lanes)
  block: lanes_of_group(n, tile.columns, tile.lanes), tile.threads // lanes_of_group(n, tile.columns, tile.lanes)
  args: a.order, a.indptr, a.indices, a.data, b, c, m, groups_of_row(m, n, a.nnz, tile.columns, tile.lanes, tile.threads, tile.ctas * device.multiprocessors), 16 // tile.columns * b.ld, c.ld, alpha, beta
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

}  // namespace

// As in even_rows_fma, but `groups` lane groups of a CTA, a power of two, share a row: each sums up equally many of its
// aligned fours of entries, give or take one, and the first group adds up their sums in order. With four groups:
//
//   fours of entries of the row | 0  1  2 | 3  4  5 | 6  7 | 8  9 |
//   lane group                  |    0    |    1    |  2   |  3   |
//
// The launch takes as many groups as the multiprocessors have room for, and leaves each some entries of an average row.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spread_rows_fma(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const Stored* __restrict__ data, const Stored* __restrict__ b, Stored* __restrict__ c, int m, unsigned groups,
    int stride, int ldc, float alpha, float beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    __shared__ ROLLING<TILE_THREADS> staged;
    __shared__ float4 of_groups[Packet::WIDTH / 4][TILE_THREADS];
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const int which = (blockIdx.x * blockDim.y + threadIdx.y) / groups, group = threadIdx.y % groups;
    const int column = (blockIdx.y * blockDim.x + threadIdx.x) * Packet::WIDTH;
    const int row = which < m ? __ldg(order + which) : -1;
    int start = row < 0 ? 0 : __ldg(indptr + row), end = row < 0 ? 0 : __ldg(indptr + row + 1);
    // The fours of this group: the first groups have one more where their number is no multiple of the groups.
    const int aligned = start & ~3;
    const unsigned fours = (end - aligned + 3) / 4, least = fours / groups, more = fours % groups;
    const int begin = aligned + 4 * (group * least + min(group, more));
    start = max(start, begin), end = min(end, static_cast<int>(begin + 4 * (least + (group < more))));

    float sums[Packet::WIDTH] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const Stored* own = b + (static_cast<int>(sizeof(Stored)) * column < stride ? column : 0);
    tile::add_rolling<Packet, TILE_FOURS>(sums, staged, indices, data, start, end, own, stride);
    if (groups > 1) {
        const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
        for (int i = 0; i < Packet::WIDTH; i += 4) {
            of_groups[i / 4][thread] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
        }
        __syncthreads();
        if (group > 0) return;
        for (unsigned other = 1; other < groups; ++other) {
#pragma unroll
            for (int i = 0; i < Packet::WIDTH; i += 4) {
                const float4 four = of_groups[i / 4][thread + other * blockDim.x];
                sums[i] += four.x, sums[i + 1] += four.y, sums[i + 2] += four.z, sums[i + 3] += four.w;
            }
        }
    }
    if (row < 0 || column >= ldc) return;
    tile::store_packet<Packet, SCALED>(
        c + static_cast<long long>(row_of_c(row)) * ldc + column, sums, alpha, beta, epilogue, column);
}
