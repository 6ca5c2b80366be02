/*---
name: dealt_rows_fma
study: flagship
source: "our own; lanes that share the entries of a row after GE-SpMM (Huang et al. 2020) and the vector kernel of Bell and Garland 2009"
idea: "a lane group for each row of CSR as it stands: lanes that no column of B needs take further entries"
after: short_rows_fma
family: rows_f32
format: csr
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
min_arch: sm_80
requires: {}
tile: {slab: 128, columns: 4, depth: 3, share: 3, fill: 512, threads: 128, ctas: 12}
constants: {values: tile::Wide<float>, scaled: 0}
features: [atom_inc]
launch:
  names:
    lanes: lanes_of_row(m, n, a.nnz, tile.columns, tile.share, tile.fill * device.multiprocessors)
  grid: ceil_div(m, tile.threads // lanes), ceil_div(n, tile.slab)
  block: lanes, tile.threads // lanes
  args: a.indptr, a.indices, a.data, b, c, m, min(32, power_of_two(ceil_div(n, tile.columns))), b.ld, c.ld, alpha, beta
variants:
  tf32:
    idea: dealt_rows_fma on TF32 operands, at no less than TF32 precision
    family: rows_tf32
    after: dealt_rows_fma
    dtype: {a: tf32, b: tf32}
  f64:
    idea: dealt_rows_fma in FP64
    family: rows_f64
    after: dealt_rows_fma
    dtype: {a: float64, b: float64, accumulator: float64, c: float64}
    tile: {depth: 4, share: 4, ctas: 7}
    constants: {values: tile::Wide<double>, number: double}
  f16:
    idea: dealt_rows_fma on FP16 operands, with eight columns a lane and sums in FP32
    family: window_f16
    after: dealt_rows_fma
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
    tile: {slab: 256, columns: 8, depth: 2}
    constants: {values: tile::Half<tile::F16>}
  bf16:
    idea: dealt_rows_fma on BF16 operands, with eight columns a lane and sums in FP32
    family: window_bf16
    after: dealt_rows_fma
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
    tile: {slab: 256, columns: 8, depth: 2}
    constants: {values: tile::Half<tile::Bf16>}
deviations: []
---*/
#include "tile/lane_columns.cuh"
#include "tile/reordered.cuh"

// Type of sums and factors.
#ifndef NUMBER
#define NUMBER float
#endif

namespace {

using Own = tile::ColumnsOfLane<VALUES, TILE_COLUMNS>;
using Stored = Own::Stored;
static_assert(TILE_SLAB == 32 * TILE_COLUMNS, "a whole warp reads a slab of one row of B");
static_assert(TILE_THREADS % 32 == 0, "a CTA has whole warps");

}  // namespace

// A row of C is the work of blockDim.x lanes. `vectors` of them, a power of two, have the columns of a slab, and each
// such set of lanes takes every sets-th entry of the row: as many sets as leave a lane about three entries of an average
// row, and more where a small matrix would leave lanes idle. Eight columns in FP32, 14 entries:
//
//   lanes      |   0, 1   |   2, 3   |   4, 5   |   6, 7   |  …  |  14, 15  |
//   columns    | 0-3  4-7 | 0-3  4-7 | 0-3  4-7 | 0-3  4-7 |     | 0-3  4-7 |
//   entries    |   0, 8   |   1, 9   |   2, 10  |   3, 11  |     |     7    |
//
// Nothing is staged, and no table is read but the row pointers: three loads that wait for each other lie between the
// launch and the product, which is most of the time of a small one. A row that is much longer than others makes its warp
// late; kernels of equal partitions are for such matrices.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_CTAS) dealt_rows_fma(
    UNALIGNED_PARAMETERS const int* __restrict__ indptr, const int* __restrict__ indices,
    const Stored* __restrict__ data, const Stored* __restrict__ b, Stored* __restrict__ c, int m, int vectors, int ldb,
    int ldc, NUMBER alpha, NUMBER beta EPILOGUE_PARAMETERS REORDERED_PARAMETERS) {
    const tile::Epilogue epilogue = EPILOGUE_ARGUMENTS;
    const tile::RowsOfC row_of_c = {REORDERED_ROWS};
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    const int bits = __ffs(vectors) - 1, of_vectors = threadIdx.x & (vectors - 1);
    const int column = blockIdx.y * TILE_SLAB + of_vectors * TILE_COLUMNS, width = UNALIGNED_WIDTH - column;
    // Lanes without a row or columns take no entries, and stay for the sums of the others.
    const bool is_in = row < m && (UNALIGNED ? width > 0 : column < ldc);
    const int sets = blockDim.x >> bits, set = threadIdx.x >> bits, end = is_in ? __ldg(indptr + row + 1) : 0;
    const Stored* own_b = b + column;
    int at = is_in ? __ldg(indptr + row) + set : 0;
    int of_b[TILE_DEPTH];
    NUMBER of_a[TILE_DEPTH];
    const auto fetch = [&] {
#pragma unroll
        for (int i = 0; i < TILE_DEPTH; ++i) {
            const bool has = at + i * sets < end;
            of_b[i] = has ? __ldg(indices + at + i * sets) : -1;
            of_a[i] = has ? VALUES::widened(__ldg(data + at + i * sets)) : 0;
        }
        at += TILE_DEPTH * sets;
    };
    Own::Sum sum = {};
    fetch();
#pragma unroll 1
    while (of_b[0] >= 0) {
        NUMBER a[TILE_DEPTH];
        Own x[TILE_DEPTH];
#pragma unroll
        for (int i = 0; i < TILE_DEPTH; ++i) {
            x[i] = {}, a[i] = of_a[i];
            if (of_b[i] >= 0) x[i].load(own_b + static_cast<long long>(of_b[i]) * ldb, width);
        }
        fetch();
#pragma unroll
        for (int i = 0; i < TILE_DEPTH; ++i) x[i].add_to(sum, a[i]);
    }

    Stored* own_c = c + static_cast<long long>(row_of_c(row, is_in)) * ldc + column;
    const auto swapped = [&](NUMBER x, int with) { return __shfl_xor_sync(~0u, x, with * vectors); };
    if (sets < TILE_COLUMNS) {
#pragma unroll 1
        for (int with = 1; with < sets; with *= 2) sum += sum.from([&](NUMBER x) { return swapped(x, with); });
        if (is_in && set == 0) Own::store<SCALED>(own_c, sum, width, alpha, beta, epilogue, column);
        return;
    }
    // Two sets swap halves of their columns until each has one column, which further sets add.
    int of_set = 0;
#pragma unroll
    for (int half = TILE_COLUMNS / 2, with = 1; half > 0; half /= 2, with *= 2) {
        const bool upper = set & with;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const NUMBER given = upper ? sum.of[i] : sum.of[half + i];
            sum.of[i] = (upper ? sum.of[half + i] : sum.of[i]) + swapped(given, with);
        }
        if (upper) of_set += half;
    }
#pragma unroll 1
    for (int with = TILE_COLUMNS; with < sets; with *= 2) sum.of[0] += swapped(sum.of[0], with);
    if (is_in && set < TILE_COLUMNS) {
        tile::ColumnsOfLane<VALUES, 1>::store<SCALED>(
            own_c + of_set, {sum.of[0]}, width - of_set, alpha, beta, epilogue, column + of_set);
    }
}
