/*---
name: stencil_tc
study: memory_bound
source: "Zhang et al. 2025, section 5.3; after ConvStencil (Chen et al. 2024, section 3)"
idea: overlapping windows of a grid row are the rows of a matrix, which tensor cores multiply by bands of coefficients
after: stencil_cc
format: stencil
format_options: {points: 2d5pt}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
tile: {radius: 1, reach_y: 0, x: 256, y: 1, z: 30, rows: 1, ahead: 4, ctas: 4}
constants: {box: 0}
features: [mma_f64]
launch:
  grid: ceil_div(a.nx, tile.x), ceil_div(a.layer_rows, tile.y * tile.rows), ceil_div(a.layers, tile.z) * n
  block: tile.x // 2, tile.y
  args: a.data, b, c, a.nx, a.layer_rows, a.layers
variants:
  2d9pt:
    after: stencil_cc_2d9pt
    format_options: {points: 2d9pt}
    constants: {box: 1}
  2d13pt:
    after: stencil_cc_2d13pt
    format_options: {points: 2d13pt}
    tile: {radius: 3, z: 34}
  2d49pt:
    after: stencil_cc_2d49pt
    format_options: {points: 2d49pt}
    tile: {radius: 3, z: 34, ahead: 2}
    constants: {box: 1}
  3d7pt:
    after: stencil_cc_3d7pt
    format_options: {points: 3d7pt}
    tile: {reach_y: 1, x: 64, y: 4, rows: 2, ahead: 2}
  3d27pt:
    after: stencil_cc_3d27pt
    format_options: {points: 3d27pt}
    tile: {reach_y: 1, x: 64, y: 4, rows: 2, ahead: 1}
    constants: {box: 1}
deviations:
  - "windows are read where they are, through L1; the original builds two matrices of them in shared memory"
  - "one step per call; the original fuses three steps of radius 1 into one of radius 3, which is not the same at a boundary"
  - "products with coefficients that a star does not have are left out"
---*/
#include "ptx/mma_f64.cuh"
#include "tile/stencil.cuh"
#include "tile/stencil_bands.cuh"

static_assert(TILE_X % 64 == 0, "a warp has 64 points of a row");

// As stencil_cc, but a warp computes 64 points of TILE_ROWS rows instead of a thread one point of each.
extern "C" __global__ void __launch_bounds__(TILE_X / 2 * TILE_Y, TILE_CTAS) stencil_tc(
    const double* __restrict__ coefficients, const double* __restrict__ b, double* __restrict__ c, int nx, int ny, int nz) {
    using namespace tile;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    Bands bands;
    bands.load(coefficients);

    const Grid grid = {nx, ny, nz};
    const int x = blockIdx.x * TILE_X + threadIdx.x / 32 * 64 + 8 * g;
    const int y = (blockIdx.y * TILE_Y + threadIdx.y) * TILE_ROWS;
    const int chunks = (nz + TILE_Z - 1) / TILE_Z;
    const int start = blockIdx.z % chunks * TILE_Z, end = min(start + TILE_Z, nz);
    b += blockIdx.z / chunks * grid.at(0, 0, nz);
    c += blockIdx.z / chunks * grid.at(0, 0, nz);
    double sums[TILE_AHEAD + 2 * RADIUS][TILE_ROWS][2] = {};  // of the layers from z - RADIUS on
#pragma unroll 1
    for (int z = start - RADIUS; z < end + RADIUS; z += TILE_AHEAD) {
        double windows[TILE_AHEAD][TILE_ROWS + 2 * REACH_Y][FOURS];
#pragma unroll
        for (int layer = 0; layer < TILE_AHEAD; ++layer) {
#pragma unroll
            for (int row = 0; row < TILE_ROWS + 2 * REACH_Y; ++row) {
#pragma unroll
                for (int four = 0; four < FOURS; ++four) {
                    windows[layer][row][four] =
                        grid.value(b, x + 4 * four + t - RADIUS, y + row - REACH_Y, z + layer);
                }
            }
        }
#pragma unroll
        for (int four = 0; four < FOURS; ++four) {
#pragma unroll
            for (int dy = -REACH_Y; dy <= REACH_Y; ++dy) {
#pragma unroll
                for (int layer = 0; layer < TILE_AHEAD; ++layer) {
#pragma unroll
                    for (int dz = -RADIUS; dz <= RADIUS; ++dz) {
                        if (!touches(dz, dy, four)) continue;
#pragma unroll
                        for (int row = 0; row < TILE_ROWS; ++row) {
                            ptx::mma_m8n8k4_f64(
                                sums[layer - dz + RADIUS][row], windows[layer][row + dy + REACH_Y][four],
                                bands.at(dz, dy, four));
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int layer = 0; layer < TILE_AHEAD + 2 * RADIUS; ++layer) {
#pragma unroll
            for (int row = 0; row < TILE_ROWS; ++row) {
                const int done = z + layer - RADIUS;
                if (layer < TILE_AHEAD && done >= start && done < end) {
                    store_pair(grid, c, x + 2 * t, y + row, done, sums[layer][row]);
                }
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const bool kept = layer < 2 * RADIUS;
                    sums[layer][row][i] = kept ? sums[layer + TILE_AHEAD][row][i] : 0.0;
                }
            }
        }
    }
}
