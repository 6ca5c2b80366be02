#pragma once
// A stencil as products of windows and bands on tensor cores (m8n8k4 in double precision).
//
// One row of A is the window of values that eight neighbouring results read; its eight rows cover 64 points of a grid
// row:
//
//   A(i, p) = value at x + 8i + p - RADIUS               overlapping windows
//   B(p, j) = coefficient of offset p - j - RADIUS       a band
//
// Their product is what one input row contributes to 64 results. A lane holds one element of every four columns of A
// and of every four rows of B.

#include "tile/stencil.cuh"

namespace tile {

constexpr int FOURS = (2 * RADIUS + 8 + 3) / 4;

// Whether four rows of an offset's band hold any coefficient.
__device__ constexpr bool touches(int dz, int dy, int four) {
    for (int p = 4 * four; p < 4 * four + 4; ++p) {
        for (int j = 0; j < 8; ++j) {
            if (has(dz, dy, p - j - RADIUS)) return true;
        }
    }
    return false;
}

// The bands of all offsets along y and z, as fragments of B: lane 4g + t holds (4 · four + t, g).
struct Bands {
    double fragments[DIAMETER][DIAMETER_Y][FOURS];

    // `coefficients` of the whole box.
    __device__ __forceinline__ void load(const double* __restrict__ coefficients) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int dz = -RADIUS; dz <= RADIUS; ++dz) {
#pragma unroll
            for (int dy = -REACH_Y; dy <= REACH_Y; ++dy) {
#pragma unroll
                for (int four = 0; four < FOURS; ++four) {
                    const int dx = 4 * four + t - g - RADIUS;
                    const bool inside = -RADIUS <= dx && dx <= RADIUS && touches(dz, dy, four);
                    fragments[dz + RADIUS][dy + REACH_Y][four] = inside ? coefficients[coefficient_index(dz, dy, dx)] : 0.0;
                }
            }
        }
    }

    __device__ __forceinline__ double at(int dz, int dy, int four) const {
        return fragments[dz + RADIUS][dy + REACH_Y][four];
    }
};

}  // namespace tile
