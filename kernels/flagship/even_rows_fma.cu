/*---
name: even_rows_fma
study: flagship
source: "our own; the order of entries is that of Pang et al. 2024 (RoDe) and Gale et al. 2020 (Sputnik)"
idea: a lane group for each row, longest first, with rows of B in flight from one group of entries to the next
after: short_rows_fma
family: rows_f32
format: csr_swizzled
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {fours: 2, lanes: 32, threads: 128, ctas: 8}
constants: {scaled: 0}
features: [cp_async, cp_async_ca, mov]
launch:
  names: {lanes: "max(4, min(tile.lanes, power_of_two(ceil_div(n, 4))))"}
  grid: ceil_div(m, tile.threads // lanes), ceil_div(n, 4 * tile.lanes)
  block: lanes, tile.threads // lanes
  args: a.order, a.indptr, a.indices, a.data, b, c, m, 4 * b.ld, c.ld, alpha, beta
variants:
  tf32:
    idea: even_rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: even_rows_fma
    dtype: {a: tf32, b: tf32}
  narrow:
    idea: even_rows_fma in slabs of 32 columns, so that more of a slab of B is found in L1
    after: even_rows_fma
    tile: {lanes: 8}
  tf32_narrow:
    idea: even_rows_fma_narrow on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: even_rows_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {lanes: 8}
  f16:
    idea: even_rows_fma on FP16 operands, with eight columns a lane and sums in FP32
    family: window_f16
    after: even_rows_fma
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
    tile: {lanes: 8}
    constants: {packet: "tile::Packet16<tile::F16>", rolling: tile::RollingFours16}
    launch: &of_16
      names: {lanes: "max(4, min(tile.lanes, power_of_two(ceil_div(n, 8))))"}
      grid: ceil_div(m, tile.threads // lanes), ceil_div(n, 8 * tile.lanes)
      args: a.order, a.indptr, a.indices, a.data, b, c, m, 2 * b.ld, c.ld, alpha, beta
  bf16:
    idea: even_rows_fma on BF16 operands, with eight columns a lane and sums in FP32
    family: window_bf16
    after: even_rows_fma
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
    tile: {lanes: 8}
    constants: {packet: "tile::Packet16<tile::Bf16>", rolling: tile::RollingFours16}
    launch: *of_16
  f64:
    idea: even_rows_fma_narrow in FP64, with two columns a lane and slabs of 16
    family: rows_f64
    after: even_rows_fma_narrow
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {lanes: 8, ctas: 6}
    constants: {number: double, packet: tile::Packet<double>, rolling: tile::RollingFours64}
    launch:
      names: {lanes: "lanes_of_group(n, 2, tile.lanes)"}
      grid: ceil_div(m, tile.threads // lanes), ceil_div(n, 2 * lanes)
      args: a.order, a.indptr, a.indices, a.data, b, c, m, 8 * b.ld, c.ld, alpha, beta
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
// Type of sums and factors.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

using Packet = PACKET;
using Stored = Packet::Stored;

}  // namespace

// A lane sums the columns of a packet of one row of C: two in FP64, four in FP32, eight in 16 bits. The launch gives a
// group the lanes that the width of B needs, up to tile.lanes, or sixteen in place of eight, and blockDim.y rows to a
// CTA. CTAs walk all rows of a slab of B before the next slab. Narrow slabs, of one line of 128 bytes, let more of their
// rows be found in L1 and L2.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) even_rows_fma(
    const int* __restrict__ order, const int* __restrict__ indptr, const int* __restrict__ indices,
    const Stored* __restrict__ data, const Stored* __restrict__ b, Stored* __restrict__ c, int m, int stride, int ldc,
    NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    __shared__ ROLLING<TILE_THREADS> staged;
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const int which = blockIdx.x * blockDim.y + threadIdx.y;
    const int column = (blockIdx.y * blockDim.x + threadIdx.x) * Packet::WIDTH;
    const int row = which < m ? __ldg(order + which) : 0;
    const int start = which < m ? __ldg(indptr + row) : 0, end = which < m ? __ldg(indptr + row + 1) : 0;
    NUMBER sums[Packet::WIDTH] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const Stored* own = b + (static_cast<int>(sizeof(Stored)) * column < stride ? column : 0);
    tile::add_rolling<Packet, TILE_FOURS>(sums, staged, indices, data, start, end, own, stride);
    if (which >= m || column >= ldc) return;
    tile::store_packet<Packet, SCALED>(
        c + static_cast<long long>(row_of_c(row)) * ldc + column, sums, alpha, beta, epilogue, column);
}
