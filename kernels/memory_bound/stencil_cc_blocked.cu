/*---
name: stencil_cc_blocked
study: memory_bound
source: "Zhang et al. 2025, sections 3.3 and 5.3, equation 13; after EBISU (Zhang et al. 2023, section 4)"
idea: three steps in one walk across the layers, each a layer after the previous step, whose results it reads from shared memory
after: stencil_cc
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
features: []
launch:
  grid: ceil_div(a.nx, tile.x), ceil_div(a.layer_rows, tile.y), ceil_div(a.layers, tile.z) * n
  block: tile.x + 2 * steps * tile.radius, (tile.y + 2 * steps * tile.reach_y) // tile.rows
  smem: 16 * steps * (tile.x + 2 * (steps + 1) * tile.radius) * (tile.y + 2 * (steps + 1) * tile.reach_y)
  args: a.data, b, c, a.nx, a.layer_rows, a.layers
variants:
  2d9pt:
    after: stencil_cc_2d9pt
    format_options: {points: 2d9pt}
    constants: {box: 1}
  3d7pt:
    after: stencil_cc_3d7pt
    format_options: {points: 3d7pt}
    tile: {reach_y: 1, x: 58, y: 18, z: 64, rows: 4, ahead: 3, ctas: 1}
  3d27pt:
    after: stencil_cc_3d27pt
    format_options: {points: 3d27pt}
    tile: {reach_y: 1, x: 58, y: 18, z: 64, rows: 4, ahead: 3, ctas: 1}
    constants: {box: 1}
deviations:
  - "CTAs overlap by the reach of their steps, and no step waits for another CTA"
  - "a depth of three, which the study chose for the original, and a tile that leaves room on every architecture"
---*/
#include "tile/stencil.cuh"

// A CTA walks across TILE_Z layers of TILE_X × TILE_Y results. Its section of a layer is wider than that by RADIUS per
// step on each side. Results in this margin become wrong step by step, but no result of the last step depends on wrong
// ones. A thread has TILE_ROWS rows of one x of the section.
//
// In turn i, step s reads from shared memory the layer that step s - 1 finished in turn i - 1 (step 0: the fetched
// layer), adds it to its sums and finishes the layer RADIUS before it. Layers are written to one of two buffers while
// the other is read, so that one barrier per turn suffices:
//
//   turn i        fetch z           step 0 finishes z - R - 1     step 1 finishes z - 2R - 2       (R = RADIUS)
//   turn i + 1    fetch z + 1       step 0 finishes z - R         step 1 finishes z - 2R - 1
namespace {

constexpr int REACH = STEPS * tile::RADIUS, REACH_Y = STEPS * tile::REACH_Y;
constexpr int THREADS_X = TILE_X + 2 * REACH, THREADS_Y = (TILE_Y + 2 * REACH_Y) / TILE_ROWS;
static_assert(THREADS_Y * TILE_ROWS == TILE_Y + 2 * REACH_Y, "the threads divide the section's rows evenly");

// A section with a margin, so that all of its points have neighbours.
constexpr int WIDTH = THREADS_X + 2 * tile::RADIUS, SECTION = WIDTH * (TILE_Y + 2 * REACH_Y + 2 * tile::REACH_Y);

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS_X * THREADS_Y, TILE_CTAS) stencil_cc_blocked(
    const double* __restrict__ coefficients, const double* __restrict__ b, double* __restrict__ c, int nx, int ny, int nz) {
    using tile::RADIUS;
    __shared__ volatile double shared[tile::COEFFICIENTS];
    extern __shared__ double dynamic_shared[];
    double(*sections)[2][SECTION] = reinterpret_cast<double(*)[2][SECTION]>(dynamic_shared);
    const int thread = threadIdx.y * THREADS_X + threadIdx.x;
    for (int i = thread; i < tile::COEFFICIENTS; i += THREADS_X * THREADS_Y) shared[i] = coefficients[i];
    for (int i = thread; i < STEPS * 2 * SECTION; i += THREADS_X * THREADS_Y) dynamic_shared[i] = 0.0;
    __syncthreads();

    const tile::Grid grid = {nx, ny, nz};
    const int x = blockIdx.x * TILE_X - REACH + threadIdx.x;
    const int y = blockIdx.y * TILE_Y - REACH_Y + threadIdx.y * TILE_ROWS;
    const int position = (threadIdx.y * TILE_ROWS + tile::REACH_Y) * WIDTH + threadIdx.x + RADIUS;  // in a section
    const int chunks = (nz + TILE_Z - 1) / TILE_Z;
    const int start = blockIdx.z % chunks * TILE_Z, end = min(start + TILE_Z, nz);
    b += blockIdx.z / chunks * grid.at(0, 0, nz);
    c += blockIdx.z / chunks * grid.at(0, 0, nz);
    const auto fetch = [&](double(&values)[TILE_ROWS], int z) {
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) values[row] = z < end + REACH ? grid.value(b, x, y + row, z) : 0.0;
    };
    const bool wanted_x = REACH <= threadIdx.x && threadIdx.x < REACH + TILE_X;

    double fetched[TILE_AHEAD][TILE_ROWS];  // the layers that come next
#pragma unroll
    for (int layer = 0; layer < TILE_AHEAD; ++layer) fetch(fetched[layer], start - REACH + layer);
    double sums[STEPS][2 * RADIUS + 1][TILE_ROWS] = {};  // the layer that is finished next, and those after it
    const int turns = end - start + 2 * REACH + STEPS;
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) {
            sections[0][turn % 2][position + row * WIDTH] = fetched[0][row];
#pragma unroll
            for (int layer = 0; layer + 1 < TILE_AHEAD; ++layer) fetched[layer][row] = fetched[layer + 1][row];
        }
        fetch(fetched[TILE_AHEAD - 1], start - REACH + turn + TILE_AHEAD);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const double* section = sections[step][(turn + 1) % 2] + position;
            double values[TILE_ROWS + 2 * tile::REACH_Y][tile::DIAMETER];
#pragma unroll
            for (int row = 0; row < TILE_ROWS + 2 * tile::REACH_Y; ++row) {
#pragma unroll
                for (int i = 0; i < tile::DIAMETER; ++i) {
                    values[row][i] = section[(row - tile::REACH_Y) * WIDTH + i - RADIUS];
                }
            }
#pragma unroll
            for (int dz = -RADIUS; dz <= RADIUS; ++dz) {
#pragma unroll
                for (int dy = -tile::REACH_Y; dy <= tile::REACH_Y; ++dy) {
#pragma unroll
                    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
                        if (!tile::has(dz, dy, dx)) continue;
                        const double coefficient = shared[tile::coefficient_index(dz, dy, dx)];
#pragma unroll
                        for (int row = 0; row < TILE_ROWS; ++row) {
                            sums[step][RADIUS - dz][row] += coefficient * values[row + dy + tile::REACH_Y][dx + RADIUS];
                        }
                    }
                }
            }
            // Turn t fetches layer start - REACH + t. Each step is one turn and RADIUS layers after the previous one.
            const int done = start - REACH + turn - (step + 1) * (RADIUS + 1);
#pragma unroll
            for (int row = 0; row < TILE_ROWS; ++row) {
                const double sum = sums[step][0][row];
#pragma unroll
                for (int layer = 0; layer < 2 * RADIUS; ++layer) sums[step][layer][row] = sums[step][layer + 1][row];
                sums[step][2 * RADIUS][row] = 0.0;
                const bool inside = grid.has(x, y + row, done);
                if (step + 1 < STEPS) {
                    // Points outside the grid stay zero in every step.
                    sections[step + 1][turn % 2][position + row * WIDTH] = inside ? sum : 0.0;
                } else {
                    const int section_y = threadIdx.y * TILE_ROWS + row;
                    const bool wanted_y = REACH_Y <= section_y && section_y < REACH_Y + TILE_Y;
                    if (inside && wanted_x && wanted_y && start <= done && done < end) c[grid.at(x, y + row, done)] = sum;
                }
            }
        }
        __syncthreads();
    }
}
