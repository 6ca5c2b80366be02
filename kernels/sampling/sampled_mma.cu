/*---
name: sampled_mma
study: sampling
source: "our own; vectors of eight rows after FlashSparse (Shi et al. 2024)"
idea: both operands of a sampled product are read along their rows, so each lane loads its fragments in 16 bytes, without shared memory or shuffles; a warp reads the rows of X of a window once for several tiles
min_arch: sm_80
tile: {warps: 8, tiles: 2, depth: 1, ctas: 3}
constants: {operands: F16}
features: [mma, mma_bf16, mma_tf32]
variants:
  bf16:
    idea: sampled_mma in BF16
    after: sampled_mma
    constants: {operands: Bf16}
  tf32:
    idea: sampled_mma in TF32
    after: sampled_mma
    constants: {operands: Tf32}
  f32:
    idea: three TF32 products of split operands, which lose some four times what FP32 does
    after: sampled_mma_tf32
    tile: {depth: 2, ctas: 2}
    constants: {operands: F32}
deviations: ["the three products of FP32 turn an infinity into NaN"]
---*/
// Sampled product (SDDMM) on tensor cores: out[e] = X[i]·Y[j] for every entry e = (i, j) of a pattern in windows.
#include "tile/sampled.cuh"

namespace {

using tile::Bf16;
using tile::F16;
using tile::F32;
using tile::Tf32;
using Result = tile::Result<OPERANDS>;
using Stored = Result::Stored;

constexpr int WINDOW = 8, TILE_K = 16;
// Values in 16 bytes, and columns of X and Y that the four lanes of a row load at a time.
constexpr int VECTOR = 16 / sizeof(Stored), CHUNK = 4 * VECTOR;

}  // namespace

// A warp multiplies TILE_TILES neighbouring tiles. A tile is sixteen rows of Y, those of the tile's columns, by the eight
// rows of X of its window; tiles of one window follow each other, and share what is loaded of X.
//
//   columns   int32[tiles, 16]: rows of Y
//   windows   int32[tiles]
//   slots     int32[tiles, 8, 2]: for each row of the window, the number of its first entry in the tile, and a mask of the
//             columns that it has; the entries of a row have consecutive numbers
//   order     int32[entries]: where the result of an entry belongs; or nullptr, if at its number
//
// Rows of X and Y begin at multiples of 16 bytes, and n is a multiple of VECTOR.
extern "C" __global__ void __launch_bounds__(32 * TILE_WARPS, TILE_CTAS) sampled_mma(
    const int* __restrict__ columns, const int* __restrict__ windows, const int4* __restrict__ slots,
    const int* __restrict__ order, int tiles, const Stored* __restrict__ x, const Stored* __restrict__ y,
    Stored* __restrict__ out, int m, int n, long long ldx, long long ldy) {
    const int first = (blockIdx.x * TILE_WARPS + threadIdx.x / 32) * TILE_TILES;
    if (first >= tiles) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int row_of_x[TILE_TILES], row_of_y[TILE_TILES][2];
    int4 slots_of_lane[TILE_TILES];  // of rows 2t and 2t + 1 of the window
#pragma unroll
    for (int i = 0; i < TILE_TILES; ++i) {
        // Tiles after the last one repeat it; their sums are not stored.
        const int tile = min(first + i, tiles - 1);
        const int* of_tile = columns + TILE_K * static_cast<long long>(tile);
        row_of_y[i][0] = __ldg(of_tile + g);
        row_of_y[i][1] = __ldg(of_tile + g + 8);
        row_of_x[i] = min(__ldg(windows + tile) * WINDOW + g, m - 1);
        slots_of_lane[i] = __ldg(slots + (static_cast<long long>(tile) * (WINDOW / 2) + t));
    }
    float sums[TILE_TILES][4] = {};
#pragma unroll 1
    for (int begin = 0; begin < n; begin += TILE_DEPTH * CHUNK) {
        uint4 of_x[TILE_TILES][TILE_DEPTH], of_y[TILE_TILES][TILE_DEPTH][2];
#pragma unroll
        for (int i = 0; i < TILE_TILES; ++i) {
            const bool same = i > 0 && row_of_x[i] == row_of_x[max(i - 1, 0)];
#pragma unroll
            for (int j = 0; j < TILE_DEPTH; ++j) {
                const int at = begin + j * CHUNK + t * VECTOR;
                const Stored* of_chunk = y + at;
                of_y[i][j][0] = tile::load_16(of_chunk + row_of_y[i][0] * ldy, at < n);
                of_y[i][j][1] = tile::load_16(of_chunk + row_of_y[i][1] * ldy, at < n);
                if (same) {
                    of_x[i][j] = of_x[max(i - 1, 0)][j];
                } else {
                    of_x[i][j] = tile::load_16(x + at + row_of_x[i] * ldx, at < n);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILE_DEPTH; ++j) {
            if (begin + j * CHUNK >= n) break;
#pragma unroll
            for (int i = 0; i < TILE_TILES; ++i) {
                tile::multiply_loaded(sums[i], of_y[i][j], of_x[i][j], OPERANDS{});
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_TILES; ++i) {
        if (first + i >= tiles) break;
        const int4 both = slots_of_lane[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int number = j % 2 ? both.z : both.x, mask = j % 2 ? both.w : both.y, column = g + j / 2 * 8;
            if (mask >> column & 1) {
                const int entry = number + __popc(mask & ((1 << column) - 1));
                out[order == nullptr ? entry : __ldg(order + entry)] = Result::of(sums[i][j]);
            }
        }
    }
}
