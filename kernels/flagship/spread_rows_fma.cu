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
tile: {fours: 2, columns: 4, lanes: 32, threads: 128, ctas: 8}
constants: {scaled: 0}
features: [cp_async, cp_async_ca, mov]
launch:
  names:
    lanes: lanes_of_group(n, tile.columns, tile.lanes)
    groups: tile.threads // lanes
    share: share_bin(m, n, a.nnz, tile.columns, tile.lanes, tile.threads * tile.ctas * device.multiprocessors)
  grid: ceil_div(groups_of_rows(m, a.longer, share, groups), groups), ceil_div(n, tile.columns * lanes)
  block: lanes, groups
  args: >-
    a.runs, rows_of_groups(a.longer, share, 2), rows_of_groups(a.longer, share, 4), rows_of_groups(a.longer, share, 8),
    rows_of_groups(a.longer, share, 16), rows_of_groups(a.longer, share, 32), a.indices, a.data, b, c, m,
    16 // tile.columns * b.ld, c.ld, alpha, beta
variants:
  tf32:
    idea: spread_rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: spread_rows_fma
    dtype: {a: tf32, b: tf32}
  deep:
    idea: spread_rows_fma with twice the rows of B in flight in fewer warps, which leave more of L1 to slabs of 64 columns
    after: spread_rows_fma
    tile: {fours: 4, lanes: 16, ctas: 5}
  tf32_deep:
    idea: spread_rows_fma_deep on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: spread_rows_fma_tf32
    dtype: {a: tf32, b: tf32}
    tile: {fours: 4, lanes: 16, ctas: 5}
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
  f64:
    idea: spread_rows_fma in FP64, with two columns a lane
    family: rows_f64
    after: spread_rows_fma
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {columns: 2}
    constants: {number: double, packet: tile::Packet<double>, rolling: tile::RollingFours64}
  f64_deep:
    idea: spread_rows_fma_f64 with twice the rows of B in flight in half the warps, which leave more of L1 to B
    family: rows_f64
    after: spread_rows_fma_f64
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {columns: 2, fours: 4, ctas: 4}
    constants: {number: double, packet: tile::Packet<double>, rolling: tile::RollingFours64}
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
static_assert(Packet::WIDTH == TILE_COLUMNS, "the launch deals columns to lanes");

// What a lane group works on: a row by its rank, and a part of it. All groups of a row are in one CTA.
struct Share {
    unsigned rank, part, shift;  // 2^shift groups have the row
};

// `rows[i]` rows, the longest ones, have at least 2^(i + 1) groups, up to those of a CTA. Rows of most groups come first.
template <int N>
__device__ __forceinline__ Share own_share(const int (&rows)[N]) {
    Share own = {0, 0, 0};
    unsigned index = blockIdx.x * blockDim.y + threadIdx.y;
    bool found = false;
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
        const unsigned last = 2u << i <= blockDim.y ? rows[i] : 0, groups = (last - own.rank) << (i + 1);
        if (found) continue;
        found = index < groups;
        if (found) {
            own.shift = i + 1;
        } else {
            index -= groups, own.rank = last;
        }
    }
    own.rank += index >> own.shift, own.part = index & ((1u << own.shift) - 1);
    return own;
}

}  // namespace

// As in even_rows_fma, but long rows are shared by several lane groups of a CTA. Each group sums its part of the
// aligned fours of entries, and the first group adds all of these sums, in order. With four groups:
//
//   fours of entries of the row | 0  1  2 | 3  4  5 | 6  7 | 8  9 |
//   part                        |    0    |    1    |  2   |  3   |
//
// `two` rows have at least two groups, `four` four, and so on: the launch knows how many entries a part has, and the
// format how many rows are that long.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) spread_rows_fma(
    const int4* __restrict__ runs, int two, int four, int eight, int sixteen, int thirty_two,
    const int* __restrict__ indices, const Stored* __restrict__ data, const Stored* __restrict__ b,
    Stored* __restrict__ c, int m, int stride, int ldc, NUMBER alpha,
    NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    __shared__ ROLLING<TILE_THREADS> staged;
    constexpr int PARTS = Packet::WIDTH * sizeof(NUMBER) / 16;
    __shared__ tile::Sixteen<NUMBER> of_groups[PARTS][TILE_THREADS];
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const Share own = own_share({two, four, eight, sixteen, thirty_two});
    const int column = (blockIdx.y * blockDim.x + threadIdx.x) * Packet::WIDTH;
    const int4 run = own.rank < m ? __ldg(runs + own.rank) : make_int4(-1, 0, 0, 0);
    // The fours of this part: the first parts have one more where their number is no multiple of the groups.
    const int aligned = run.y & ~3;
    const unsigned fours = (run.z - aligned + 3) / 4, least = fours >> own.shift, more = fours - (least << own.shift);
    const int begin = aligned + 4 * (own.part * least + min(own.part, more));
    const int start = max(run.y, begin), end = min(run.z, static_cast<int>(begin + 4 * (least + (own.part < more))));

    // In one register, as long as sums take the others.
    const unsigned place = ptx::kept(own.part << 3 | own.shift);

    NUMBER sums[Packet::WIDTH] = {};
    // Out-of-range lanes read the first columns; their sums are never stored.
    const Stored* columns = b + (static_cast<int>(sizeof(Stored)) * column < stride ? column : 0);
    tile::add_rolling<Packet, TILE_FOURS>(sums, staged, indices, data, start, end, columns, stride);
    if (two > 0) {
        const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
        for (int i = 0; i < PARTS; ++i) tile::copy_sums(of_groups[i][thread], sums + i * Packet::WIDTH / PARTS);
        __syncthreads();
        if (place >> 3 > 0) return;
        for (unsigned other = 1; other < 1u << (place & 7); ++other) {
#pragma unroll
            for (int i = 0; i < PARTS; ++i) {
                tile::add_sums(sums + i * Packet::WIDTH / PARTS, of_groups[i][thread + other * blockDim.x]);
            }
        }
    }
    if (run.x < 0 || column >= ldc) return;
    tile::store_packet<Packet, SCALED>(
        c + static_cast<long long>(row_of_c(run.x)) * ldc + column, sums, alpha, beta, epilogue, column);
}
