/*---
name: short_rows_fma
study: flagship
source: "our own; one lane group a row after GE-SpMM (Huang et al. 2020)"
idea: a lane group for each row of CSR as it stands, with two rows of B in flight and as many warps as a multiprocessor holds
after: gespmm_seq_row
family: rows_f32
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, threads: 128, ctas: 16}
constants: {scaled: 0}
features: [atom_inc]
launch:
  grid: ceil_div(m, tile.threads // min(32, power_of_two(ceil_div(n, 4)))), ceil_div(n, tile.slab)
  block: min(32, power_of_two(ceil_div(n, 4))), tile.threads // min(32, power_of_two(ceil_div(n, 4)))
  args: a.indptr, a.indices, a.data, b, c, m, 4 * b.ld, c.ld, alpha, beta
variants:
  tf32:
    idea: short_rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: short_rows_fma
    dtype: {a: tf32, b: tf32}
  f64:
    idea: short_rows_fma in FP64
    family: rows_f64
    after: short_rows_fma
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {ctas: 8}
    constants: {number: double}
    launch:
      args: a.indptr, a.indices, a.data, b, c, m, 8 * b.ld, c.ld, alpha, beta
deviations: []
---*/
#include "tile/reordered.cuh"
#include "tile/unaligned.cuh"

// Type of A, B, C and sums.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

constexpr int IN_FLIGHT = 2;
static_assert(TILE_SLAB == 128, "a group of 32 lanes reads 128 columns");
static_assert(TILE_THREADS % 32 == 0, "a CTA has whole warps");

using LaneColumns = tile::LaneColumns<UNALIGNED, NUMBER, 32, 4>;
using Four = LaneColumns::Sum;

}  // namespace

// A lane group reads the slab of one row of B at a time; each lane sums four columns of one row of C. The launch gives a
// group the lanes that the width of B needs, up to 32, and blockDim.y rows to a CTA. Entries of A are read by all lanes
// of a group at once: a short row has too few of them to deal to its lanes. Little is in flight in each warp, so that 64
// warps fit a multiprocessor; their CTAs follow the rows, whose rows of B are then still in L1 or L2.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) short_rows_fma(
    UNALIGNED_PARAMETERS const int* __restrict__ indptr, const int* __restrict__ indices,
    const NUMBER* __restrict__ data, const NUMBER* __restrict__ b, NUMBER* __restrict__ c, int m, int stride, int ldc,
    NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    constexpr int NUMBER_BYTES = sizeof(NUMBER);
    // Unaligned code wants groups of a whole warp, whatever the width. They take the rows of the CTA in turn.
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int lane = UNALIGNED ? thread % 32 : threadIdx.x;
    const int first = UNALIGNED ? thread / 32 : threadIdx.y, step = UNALIGNED ? TILE_THREADS / 32 : blockDim.y;
    const LaneColumns of_lane(blockIdx.y * TILE_SLAB, lane, stride / NUMBER_BYTES, ldc, UNALIGNED_WIDTH);
    if (!of_lane.stores()) return;
    const char* b_slab = of_lane.in(b);
    for (int of_cta = first; of_cta < blockDim.y; of_cta += step) {
        const int row = blockIdx.x * blockDim.y + of_cta;
        if (row >= m) return;
        const int end = __ldg(indptr + row + 1);
        Four sum = {};
#pragma unroll IN_FLIGHT
        for (int at = __ldg(indptr + row); at < end; ++at) {
            const Four x = of_lane.load(b_slab + static_cast<long long>(__ldg(indices + at)) * stride);
            tile::add_product(sum, __ldg(data + at), x);
        }
        NUMBER* to = c + static_cast<long long>(row_of_c(row)) * ldc + of_lane.first;
        of_lane.store<SCALED>(reinterpret_cast<Four*>(to), sum, alpha, beta, epilogue);
        if (!UNALIGNED) return;  // a group has one row
    }
}
