/*---
name: stencil_tc_blocked
study: memory_bound
source: "Zhang et al. 2025, section 5.3; after ConvStencil (Chen et al. 2024, section 3) and EBISU (Zhang et al. 2023, section 4)"
idea: the three steps of stencil_cc_blocked, each as the products of stencil_tc
after: stencil_tc
format: stencil
format_options: {points: 2d5pt}
dtype: {a: float64, b: float64, accumulator: float64, c: float64}
layout: {b: column_major, c: column_major}
min_arch: sm_80
requires: {}
one_column: true
steps: 3
tile: {radius: 1, reach_y: 0, x: 250, y: 1, z: 32, rows: 1, ahead: 4, ctas: 5}
constants: {box: 0}
features: [mma_f64]
launch:
  grid: ceil_div(a.nx, tile.x), ceil_div(a.layer_rows, tile.y), ceil_div(a.layers, tile.z) * n
  block: (tile.x + 2 * steps * tile.radius) // 2, (tile.y + 2 * steps * tile.reach_y) // tile.rows
  smem: 16 * steps * (tile.x + 2 * (steps + 1) * tile.radius + 2) * (tile.y + 2 * (steps + 1) * tile.reach_y)
  args: a.data, b, c, a.nx, a.layer_rows, a.layers
variants:
  2d9pt:
    after: stencil_tc_2d9pt
    format_options: {points: 2d9pt}
    constants: {box: 1}
  3d7pt:
    after: stencil_tc_3d7pt
    format_options: {points: 3d7pt}
    tile: {reach_y: 1, x: 58, y: 18, z: 64, rows: 2, ahead: 2, ctas: 1}
  3d27pt:
    after: stencil_tc_3d27pt
    format_options: {points: 3d27pt}
    tile: {reach_y: 1, x: 58, y: 18, z: 64, rows: 2, ahead: 2, ctas: 1}
    constants: {box: 1}
deviations:
  - "each of the three steps is computed; the original fuses them into one of radius 3, which is not the same at a boundary"
  - "windows are read where they are; the original builds two matrices of them in shared memory"
---*/
#include "ptx/mma_f64.cuh"
#include "tile/stencil.cuh"
#include "tile/stencil_bands.cuh"

// As stencil_cc_blocked, but a warp computes 64 points of TILE_ROWS rows of the section instead of a thread one point
// of each. Lane 4g + t fetches and finishes the points of its elements of a result, 8g + 2t and 8g + 2t + 1.
namespace {

constexpr int REACH = STEPS * tile::RADIUS, REACH_Y = STEPS * tile::REACH_Y;
constexpr int THREADS_X = (TILE_X + 2 * REACH) / 2, THREADS_Y = (TILE_Y + 2 * REACH_Y) / TILE_ROWS;
static_assert(THREADS_X % 32 == 0 && TILE_X % 2 == 0, "a warp has 64 points of a row of the section");
static_assert(THREADS_Y * TILE_ROWS == TILE_Y + 2 * REACH_Y, "the threads divide the section's rows evenly");

// A section with a margin, so that all of its points have neighbours, and the last window of a row its twelve values.
constexpr int WIDTH = 2 * THREADS_X + 2 * tile::RADIUS + 2;
constexpr int SECTION = WIDTH * (TILE_Y + 2 * REACH_Y + 2 * tile::REACH_Y);
static_assert(4 * tile::FOURS <= 8 + 2 * tile::RADIUS + 2, "a window ends within the margin");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS_X * THREADS_Y, TILE_CTAS) stencil_tc_blocked(
    const double* __restrict__ coefficients, const double* __restrict__ b, double* __restrict__ c, int nx, int ny, int nz) {
    using tile::RADIUS;
    extern __shared__ double dynamic_shared[];
    double(*sections)[2][SECTION] = reinterpret_cast<double(*)[2][SECTION]>(dynamic_shared);
    const int thread = threadIdx.y * THREADS_X + threadIdx.x;
    for (int i = thread; i < STEPS * 2 * SECTION; i += THREADS_X * THREADS_Y) dynamic_shared[i] = 0.0;
    tile::Bands bands;
    bands.load(coefficients);
    __syncthreads();

    const tile::Grid grid = {nx, ny, nz};
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int section_x = threadIdx.x / 32 * 64 + 8 * g, section_y = threadIdx.y * TILE_ROWS;
    const int x = blockIdx.x * TILE_X - REACH + section_x + 2 * t, y = blockIdx.y * TILE_Y - REACH_Y + section_y;
    const int row_position = (section_y + tile::REACH_Y) * WIDTH + section_x;  // of a window in a section
    const int position = row_position + RADIUS + 2 * t;                           // of the points that the lane finishes
    const int chunks = (nz + TILE_Z - 1) / TILE_Z;
    const int start = blockIdx.z % chunks * TILE_Z, end = min(start + TILE_Z, nz);
    b += blockIdx.z / chunks * grid.at(0, 0, nz);
    c += blockIdx.z / chunks * grid.at(0, 0, nz);
    const auto fetch = [&](double(&values)[TILE_ROWS][2], int z) {
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) {
#pragma unroll
            for (int i = 0; i < 2; ++i) values[row][i] = z < end + REACH ? grid.value(b, x + i, y + row, z) : 0.0;
        }
    };

    double fetched[TILE_AHEAD][TILE_ROWS][2];  // the layers that come next
#pragma unroll
    for (int layer = 0; layer < TILE_AHEAD; ++layer) fetch(fetched[layer], start - REACH + layer);
    double sums[STEPS][2 * RADIUS + 1][TILE_ROWS][2] = {};  // the layer that is finished next, and those after it
    const int turns = end - start + 2 * REACH + STEPS;
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                sections[0][turn % 2][position + row * WIDTH + i] = fetched[0][row][i];
#pragma unroll
                for (int layer = 0; layer + 1 < TILE_AHEAD; ++layer) fetched[layer][row][i] = fetched[layer + 1][row][i];
            }
        }
        fetch(fetched[TILE_AHEAD - 1], start - REACH + turn + TILE_AHEAD);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const double* section = sections[step][(turn + 1) % 2] + row_position + t;
            double windows[TILE_ROWS + 2 * tile::REACH_Y][tile::FOURS];
#pragma unroll
            for (int row = 0; row < TILE_ROWS + 2 * tile::REACH_Y; ++row) {
#pragma unroll
                for (int four = 0; four < tile::FOURS; ++four) {
                    windows[row][four] = section[(row - tile::REACH_Y) * WIDTH + 4 * four];
                }
            }
#pragma unroll
            for (int four = 0; four < tile::FOURS; ++four) {
#pragma unroll
                for (int dy = -tile::REACH_Y; dy <= tile::REACH_Y; ++dy) {
#pragma unroll
                    for (int row = 0; row < TILE_ROWS; ++row) {
#pragma unroll
                        for (int dz = -RADIUS; dz <= RADIUS; ++dz) {
                            if (!tile::touches(dz, dy, four)) continue;
                            ptx::mma_m8n8k4_f64(
                                sums[step][RADIUS - dz][row], windows[row + dy + tile::REACH_Y][four],
                                bands.at(dz, dy, four));
                        }
                    }
                }
            }
            // Turn t fetches layer start - REACH + t. Each step is one turn and RADIUS layers after the previous one.
            const int done = start - REACH + turn - (step + 1) * (RADIUS + 1);
#pragma unroll
            for (int row = 0; row < TILE_ROWS; ++row) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const double sum = sums[step][0][row][i];
#pragma unroll
                    for (int layer = 0; layer < 2 * RADIUS; ++layer) {
                        sums[step][layer][row][i] = sums[step][layer + 1][row][i];
                    }
                    sums[step][2 * RADIUS][row][i] = 0.0;
                    const bool inside = grid.has(x + i, y + row, done);
                    if (step + 1 < STEPS) {
                        // Points outside the grid stay zero in every step.
                        sections[step + 1][turn % 2][position + row * WIDTH + i] = inside ? sum : 0.0;
                    } else {
                        const int from_x = section_x + 2 * t + i - REACH, from_y = section_y + row - REACH_Y;
                        const bool wanted = 0 <= from_x && from_x < TILE_X && 0 <= from_y && from_y < TILE_Y;
                        if (inside && wanted && start <= done && done < end) c[grid.at(x + i, y + row, done)] = sum;
                    }
                }
            }
        }
        __syncthreads();
    }
}
