#pragma once
// The stencil that a kernel is compiled for: the box of TILE_RADIUS, or with BOX 0 the star on its axes.
//
// A grid is layers (z) of rows (y) of points (x, fastest). A plane stencil (TILE_REACH_Y = 0) has layers of a single
// row: its users' y is z here, so that all kernels walk along z.

namespace tile {

constexpr int RADIUS = TILE_RADIUS, REACH_Y = TILE_REACH_Y;
static_assert(REACH_Y == 0 || REACH_Y == RADIUS, "a stencil has the same reach along all of its axes");

// Offsets along x or z, and along y.
constexpr int DIAMETER = 2 * RADIUS + 1, DIAMETER_Y = 2 * REACH_Y + 1;
constexpr int COEFFICIENTS = DIAMETER * DIAMETER_Y * DIAMETER;

// Whether the stencil has a coefficient at an offset.
__device__ constexpr bool has(int dz, int dy, int dx) {
    const bool inside = -RADIUS <= dz && dz <= RADIUS && -REACH_Y <= dy && dy <= REACH_Y && -RADIUS <= dx && dx <= RADIUS;
    return inside && (BOX || (dz != 0) + (dy != 0) + (dx != 0) <= 1);
}

// Index of an offset among the coefficients of the box.
__device__ constexpr int coefficient_index(int dz, int dy, int dx) {
    return ((dz + RADIUS) * DIAMETER_Y + dy + REACH_Y) * DIAMETER + dx + RADIUS;
}

// Extents of a grid; outside it all values are zero.
struct Grid {
    int nx, ny, nz;

    __device__ __forceinline__ bool has(int x, int y, int z) const {
        return static_cast<unsigned>(x) < static_cast<unsigned>(nx) && static_cast<unsigned>(y) < static_cast<unsigned>(ny) &&
               static_cast<unsigned>(z) < static_cast<unsigned>(nz);
    }

    __device__ __forceinline__ long long at(int x, int y, int z) const {
        return (static_cast<long long>(z) * ny + y) * nx + x;
    }

    __device__ __forceinline__ double value(const double* __restrict__ b, int x, int y, int z) const {
        return has(x, y, z) ? b[at(x, y, z)] : 0.0;
    }
};

// Store the values of points x (even) and x + 1 that lie in the grid, in one access if rows are aligned to pairs.
__device__ __forceinline__ void store_pair(
    const Grid& grid, double* __restrict__ c, int x, int y, int z, const double (&values)[2]) {
    if (grid.nx % 2 == 0) {
        if (grid.has(x, y, z)) *reinterpret_cast<double2*>(c + grid.at(x, y, z)) = make_double2(values[0], values[1]);
    } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (grid.has(x + i, y, z)) c[grid.at(x + i, y, z)] = values[i];
        }
    }
}

}  // namespace tile
