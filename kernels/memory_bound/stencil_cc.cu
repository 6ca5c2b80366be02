/*---
name: stencil_cc
study: memory_bound
source: "Zhang et al. 2025, section 5.3; after Brick (Zhao et al. 2019, section 4)"
idea: a thread walks across the layers and adds each value that it reads to all sums that need it, which stay in registers
format: stencil
format_options: {points: 2d5pt}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
tile: {radius: 1, reach_y: 0, x: 128, y: 1, z: 30, rows: 1, ahead: 4, ctas: 8}
constants: {box: 0}
features: []
launch:
  grid: ceil_div(a.nx, tile.x), ceil_div(a.layer_rows, tile.y * tile.rows), ceil_div(a.layers, tile.z) * n
  block: tile.x, tile.y
  args: a.data, b, c, a.nx, a.layer_rows, a.layers
variants:
  2d9pt:
    format_options: {points: 2d9pt}
    constants: {box: 1}
  2d13pt:
    format_options: {points: 2d13pt}
    tile: {radius: 3, z: 34, ctas: 4}
  2d49pt:
    format_options: {points: 2d49pt}
    tile: {radius: 3, z: 34, ctas: 5}
    constants: {box: 1}
  3d7pt:
    format_options: {points: 3d7pt}
    tile: {reach_y: 1, x: 32, y: 4, rows: 2, ctas: 4}
  3d27pt:
    format_options: {points: 3d27pt}
    tile: {reach_y: 1, x: 32, y: 4, rows: 2, ctas: 4}
    constants: {box: 1}
deviations:
  - "the grid stays in row-major order; the original stores bricks of it one after the other"
  - "neighbours along x come from L1, not by shuffles"
---*/
#include "tile/stencil.cuh"

// Each column of B is one grid. A thread has TILE_ROWS rows of one x and walks across TILE_Z layers. It reads
// TILE_AHEAD layers at once, adds them to the sums of the layers that they touch, stores the layers that are then
// complete, and keeps the sums of the 2·TILE_RADIUS layers that are not.
extern "C" __global__ void __launch_bounds__(TILE_X * TILE_Y, TILE_CTAS) stencil_cc(
    const double* __restrict__ coefficients, const double* __restrict__ b, double* __restrict__ c, int nx, int ny, int nz) {
    using namespace tile;
    // All threads read the same coefficient at a time, which shared memory broadcasts. Reading the coefficients again
    // for each group of layers (volatile) leaves the registers to values and sums.
    __shared__ volatile double shared[COEFFICIENTS];
    for (int i = threadIdx.y * TILE_X + threadIdx.x; i < COEFFICIENTS; i += TILE_X * TILE_Y) shared[i] = coefficients[i];
    __syncthreads();

    const Grid grid = {nx, ny, nz};
    const int x = blockIdx.x * TILE_X + threadIdx.x;
    const int y = (blockIdx.y * TILE_Y + threadIdx.y) * TILE_ROWS;
    const int chunks = (nz + TILE_Z - 1) / TILE_Z;
    const int start = blockIdx.z % chunks * TILE_Z, end = min(start + TILE_Z, nz);
    b += blockIdx.z / chunks * grid.at(0, 0, nz);
    c += blockIdx.z / chunks * grid.at(0, 0, nz);
    double sums[TILE_AHEAD + 2 * RADIUS][TILE_ROWS] = {};  // of the layers from z - RADIUS on
#pragma unroll 1
    for (int z = start - RADIUS; z < end + RADIUS; z += TILE_AHEAD) {
        double values[TILE_AHEAD][TILE_ROWS + 2 * REACH_Y][DIAMETER];
#pragma unroll
        for (int layer = 0; layer < TILE_AHEAD; ++layer) {
#pragma unroll
            for (int row = 0; row < TILE_ROWS + 2 * REACH_Y; ++row) {
#pragma unroll
                for (int i = 0; i < DIAMETER; ++i) {
                    values[layer][row][i] = grid.value(b, x + i - RADIUS, y + row - REACH_Y, z + layer);
                }
            }
        }
#pragma unroll
        for (int dz = -RADIUS; dz <= RADIUS; ++dz) {
#pragma unroll
            for (int dy = -REACH_Y; dy <= REACH_Y; ++dy) {
#pragma unroll
                for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
                    if (!has(dz, dy, dx)) continue;
                    const double coefficient = shared[coefficient_index(dz, dy, dx)];
#pragma unroll
                    for (int layer = 0; layer < TILE_AHEAD; ++layer) {
#pragma unroll
                        for (int row = 0; row < TILE_ROWS; ++row) {
                            sums[layer - dz + RADIUS][row] +=
                                coefficient * values[layer][row + dy + REACH_Y][dx + RADIUS];
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
                if (layer < TILE_AHEAD && done >= start && done < end && grid.has(x, y + row, done)) {
                    c[grid.at(x, y + row, done)] = sums[layer][row];
                }
                const bool kept = layer < 2 * RADIUS;
                sums[layer][row] = kept ? sums[layer + TILE_AHEAD][row] : 0.0;
            }
        }
    }
}
