/*---
name: stencil_lowrank_tc
study: memory_bound
source: "Zhang et al. 2025, section 5.3; after LoRAStencil (Zhang et al. 2024, sections 3 and 4)"
idea: the coefficients as a sum of outer products, each a product with a band along rows and one with a band across layers, chained through registers
after: stencil_tc
format: stencil
format_options: {points: 2d5pt, low_rank: true}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
tile: {radius: 1, reach_y: 0, x: 128, z: 64, ctas: 4}
constants: {box: 0}
features: [mma_f64]
launch:
  grid: ceil_div(a.nx, tile.x), 1, ceil_div(a.layers, tile.z) * n
  block: tile.x
  smem: 256 * a.terms * (6 + ceil_div(8 + 2 * tile.radius, 4))
  args: a.data_left, a.data_right, b, c, a.nx, a.layers, a.terms
variants:
  2d9pt:
    after: stencil_tc_2d9pt
    format_options: {points: 2d9pt}
    constants: {box: 1}
  2d13pt:
    after: stencil_tc_2d13pt
    format_options: {points: 2d13pt}
    tile: {radius: 3}
  2d49pt:
    after: stencil_tc_2d49pt
    format_options: {points: 2d49pt}
    tile: {radius: 3}
    constants: {box: 1}
deviations:
  - "the number of terms that the stencil's shape may need, 2 for a star and 2r + 1 for a box; the original assumes coefficients of lower rank"
  - "one step per call; the original fuses three steps of radius 1 into one of radius 3, which is not the same at a boundary"
---*/
#include "ptx/mma_f64.cuh"
#include "tile/stencil.cuh"
#include "tile/stencil_bands.cuh"

static_assert(TILE_REACH_Y == 0, "only the coefficients of a plane stencil are a matrix");
static_assert(TILE_X % 32 == 0 && TILE_Z % 8 == 0, "a warp has 32 points of eight layers at a time");

namespace {

using tile::FOURS;
using tile::RADIUS;

constexpr int BLOCKS = 4;                            // of eight points, side by side
constexpr int WINDOWS = 2 * (BLOCKS - 1) + FOURS;    // groups of four values that they read in a row
constexpr int HALVES = 2;                            // even and odd layers of eight
constexpr int FRAGMENTS = FOURS + 3 * HALVES;        // of one term

// Whether the band across layers has any coefficient that takes one half (even or odd layers) of eight layers to
// results in the eight layers above (side 0), the same (1) or the eight below (2). Layer 2t + half contributes to
// result g with the coefficient of offset 2t + half - g + 8 (1 - side).
__device__ constexpr bool reaches(int side, int half) {
    return side == 1 || (side == 0 ? 1 + half <= RADIUS : half - 2 >= -RADIUS);
}

// The coefficient at an offset of a band; zero outside it.
__device__ __forceinline__ double element(const double* __restrict__ band, int offset) {
    return -RADIUS <= offset && offset <= RADIUS ? band[offset + RADIUS] : 0.0;
}

}  // namespace

// Eight layers of 32 points at a time. Each term is two products for every eight points:
//
//   1. along a row       A = band of `right`, B = values, with eight layers side by side
//                        lane 4g + t gets layers 2t and 2t + 1 of point g
//   2. across layers     A = band of `left`, B = the result of 1, first its even layers, then its odd ones
//                        as operand B, lane 4g + t holds layer t of point g: just what product 1 left there
//
// The columns of the second band are in the same order, even layers first. A term also contributes to the eight layers
// above and below, whose sums are kept until they are complete.
extern "C" __global__ void __launch_bounds__(TILE_X, TILE_CTAS) stencil_lowrank_tc(
    const double* __restrict__ left, const double* __restrict__ right, const double* __restrict__ b, double* __restrict__ c,
    int nx, int nz, int terms) {
    extern __shared__ double fragments[];  // [terms][FRAGMENTS][lane]
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int i = threadIdx.x / 32; i < terms * FRAGMENTS; i += TILE_X / 32) {
        const int term = i / FRAGMENTS, which = i % FRAGMENTS, side = (which - FOURS) / HALVES, half = (which - FOURS) % HALVES;
        fragments[32 * i + lane] = which < FOURS
                                       ? element(right + term * tile::DIAMETER, 4 * which + t - g - RADIUS)
                                       : element(left + term * tile::DIAMETER, 2 * t + half - g + 8 * (1 - side));
    }
    __syncthreads();

    const tile::Grid grid = {nx, 1, nz};
    const int x = blockIdx.x * TILE_X + threadIdx.x / 32 * 8 * BLOCKS;
    const int chunks = (nz + TILE_Z - 1) / TILE_Z;
    const int start = blockIdx.z % chunks * TILE_Z, end = min(start + TILE_Z, nz);
    b += blockIdx.z / chunks * grid.at(0, 0, nz);
    c += blockIdx.z / chunks * grid.at(0, 0, nz);
    double sums[3][BLOCKS][2] = {};  // of the eight layers above those at z, the same, and those below
#pragma unroll 1
    for (int z = start - 8; z < end + 8; z += 8) {
        double values[WINDOWS];
#pragma unroll
        for (int window = 0; window < WINDOWS; ++window) {
            values[window] = grid.value(b, x + 4 * window + t - RADIUS, 0, z + g);
        }
#pragma unroll 1
        for (int term = 0; term < terms; ++term) {
            const double* own = fragments + term * FRAGMENTS * 32 + lane;
            double along[BLOCKS][2] = {};
#pragma unroll
            for (int four = 0; four < FOURS; ++four) {
                const double band = own[32 * four];
#pragma unroll
                for (int block = 0; block < BLOCKS; ++block) {
                    ptx::mma_m8n8k4_f64(along[block], band, values[2 * block + four]);
                }
            }
#pragma unroll
            for (int half = 0; half < HALVES; ++half) {
#pragma unroll
                for (int side = 0; side < 3; ++side) {
                    if (!reaches(side, half)) continue;
                    const double band = own[32 * (FOURS + side * HALVES + half)];
#pragma unroll
                    for (int block = 0; block < BLOCKS; ++block) {
                        ptx::mma_m8n8k4_f64(sums[side][block], band, along[block][half]);
                    }
                }
            }
        }
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            const int done = z - 8 + g;
            if (start <= done && done < end) tile::store_pair(grid, c, x + 8 * block + 2 * t, 0, done, sums[0][block]);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                sums[0][block][i] = sums[1][block][i];
                sums[1][block][i] = sums[2][block][i];
                sums[2][block][i] = 0.0;
            }
        }
    }
}
