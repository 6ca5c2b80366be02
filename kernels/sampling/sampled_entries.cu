/*---
name: sampled_entries
study: sampling
source: "this project"
idea: tensor cores sum the products of entries in any places; sixteen rows of Y are multiplied by the up to eight rows of X that they need, and an entry's sum is one of these products
after: sampled_mma
min_arch: sm_80
tile: {warps: 4, depth: 2, ctas: 6}
constants: {operands: F16}
features: [mma, mma_bf16, mma_tf32]
variants:
  narrow:
    idea: 64 bytes of a row at a time, and more warps
    after: sampled_entries
    tile: {depth: 1, ctas: 8}
  bf16:
    idea: sampled_entries in BF16
    after: sampled_entries
    constants: {operands: Bf16}
  bf16_narrow:
    idea: sampled_entries_narrow in BF16
    after: sampled_entries_bf16
    tile: {depth: 1, ctas: 8}
    constants: {operands: Bf16}
  tf32:
    idea: sampled_entries in TF32
    after: sampled_entries
    constants: {operands: Tf32}
  tf32_narrow:
    idea: sampled_entries_narrow in TF32
    after: sampled_entries_tf32
    tile: {depth: 1, ctas: 8}
    constants: {operands: Tf32}
deviations: []
---*/
// Sampled product (SDDMM) on tensor cores: out[e] = X[i]·Y[j] for every entry e = (i, j) of a list.
#include "tile/sampled.cuh"

namespace {

using tile::Bf16;
using tile::F16;
using tile::Tf32;
using Result = tile::Result<OPERANDS>;
using Stored = Result::Stored;

// Entries of a warp, those of a tile, and rows of X that are multiplied at a time.
constexpr int ENTRIES = 32, TILE_K = 16, TILES = ENTRIES / TILE_K, ROWS = 8;
// Values in 16 bytes, and columns of X and Y that the four lanes of a row load at a time.
constexpr int VECTOR = 16 / sizeof(Stored), CHUNK = 4 * VECTOR;

}  // namespace

// A warp multiplies 32 neighbouring entries. Their rows are numbered in the order in which they come, one number for
// neighbouring entries of one row, and each pass multiplies the entries of eight numbers:
//
//   fragment of X    row g is that of number 8·pass + g
//   fragment of Y    rows g and g + 8 are those of entries g and g + 8 of a tile
//   result           entry g: row g of Y with row (number mod 8) of X
//
// Most warps have few rows, and one pass. Entries are in any order; each row of X is read once for neighbouring entries.
// Rows of X and Y begin at multiples of 16 bytes, and n, the columns of this launch, is a multiple of VECTOR. A launch
// that is not the first of a product adds to `partials`, and one that is not the last stores sums there.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) sampled_entries(
    const int* __restrict__ rows, const int* __restrict__ columns, int entries, const Stored* __restrict__ x,
    const Stored* __restrict__ y, float* partials, Stored* out, int n, long long ldx, long long ldy, int is_first,
    int is_last) {
    __shared__ int row_of_number[TILE_WARPS][ENTRIES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const long long first = (static_cast<long long>(blockIdx.x) * TILE_WARPS + warp) * ENTRIES;
    if (first >= entries) return;
    // Lanes after the last entry repeat it; their sums are not stored.
    const int own = static_cast<int>(min(first + lane, entries - 1ll));
    const int own_row = __ldg(rows + own), own_column = __ldg(columns + own);
    const int row_before = __shfl_up_sync(~0u, own_row, 1);
    const bool begins = lane > 0 && own_row != row_before;
    const unsigned beginnings = __ballot_sync(~0u, begins);
    const auto number_of = [&](int entry) { return __popc(beginnings & ((2u << entry) - 1)); };
    const int most = __popc(beginnings);
    if (lane == 0 || begins) row_of_number[warp][number_of(lane)] = own_row;
    __syncwarp();

    int row_of_y[TILES][2], number[TILES][2];
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int entry = i * TILE_K + 8 * h + g;
            row_of_y[i][h] = __shfl_sync(~0u, own_column, entry);
            number[i][h] = number_of(entry);
        }
    }
#pragma unroll 1
    for (int pass = 0; pass * ROWS <= most; ++pass) {
        const int of_lane = pass * ROWS + g;
        const long long row_of_x = row_of_number[warp][min(of_lane, most)];
        float sums[TILES][4] = {};
#pragma unroll 1
        for (int begin = 0; begin < n; begin += TILE_DEPTH * CHUNK) {
            uint4 of_x[TILE_DEPTH], of_y[TILES][TILE_DEPTH][2];
#pragma unroll
            for (int j = 0; j < TILE_DEPTH; ++j) {
                const int at = begin + j * CHUNK + t * VECTOR;
                of_x[j] = tile::load_16(x + (row_of_x * ldx + at), at < n && of_lane <= most);
#pragma unroll
                for (int i = 0; i < TILES; ++i) {
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const bool wanted = at < n && number[i][h] / ROWS == pass;
                        of_y[i][j][h] = tile::load_16(y + (row_of_y[i][h] * ldy + at), wanted);
                    }
                }
            }
#pragma unroll
            for (int j = 0; j < TILE_DEPTH; ++j) {
                if (begin + j * CHUNK >= n) break;
#pragma unroll
                for (int i = 0; i < TILES; ++i) tile::multiply_loaded(sums[i], of_y[i][j], of_x[j], OPERANDS{});
            }
        }
        // Of the lanes with an entry's products, the one that has the column of the entry's row stores the result.
#pragma unroll
        for (int i = 0; i < TILES; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const long long entry = first + i * TILE_K + 8 * h + g;
                if (number[i][h] / 2 == pass * (ROWS / 2) + t && entry < entries) {
                    float sum = number[i][h] % 2 ? sums[i][2 * h + 1] : sums[i][2 * h];
                    if (!is_first) sum += partials[entry];
                    if (is_last) {
                        out[entry] = Result::of(sum);
                    } else {
                        partials[entry] = sum;
                    }
                }
            }
        }
    }
}
