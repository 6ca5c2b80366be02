"""The stencils of Zhang et al. 2025, table 3, and their matrices' structure: what a generator makes, a format knows.

A stencil on a grid of nx × ny × nz points is a square matrix over the points in row-major order, x fastest: the row of
a point holds its coefficients in the columns of its neighbours. What lies outside the grid is zero (Dirichlet), so
that rows at the border are shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Stencil:
    """All points of the box of this ``radius`` in so many ``dimensions``, or those on its axes alone (a star)."""

    dimensions: int
    radius: int
    box: bool

    @property
    def reach(self) -> tuple[int, int, int]:
        """Radius along z, y and x; 0 along z in a plane."""
        return (self.radius if self.dimensions == 3 else 0, self.radius, self.radius)

    @property
    def offsets(self) -> list[tuple[int, int, int]]:
        """(dz, dy, dx) of each neighbour, ascending: on every grid the order of the columns in a row."""
        steps = product(*(range(-r, r + 1) for r in self.reach))
        return [step for step in steps if self.box or sum(map(bool, step)) <= 1]


#: Shapes as in ConvStencil's benchmarks (Chen et al. 2024), where that study took its names from: 2d9pt is the box
#: of 3×3 points, 2d13pt the star of radius 3, 2d49pt the box of 7×7.
STENCILS = {
    "2d5pt": Stencil(2, 1, box=False),
    "2d9pt": Stencil(2, 1, box=True),
    "2d13pt": Stencil(2, 3, box=False),
    "2d49pt": Stencil(2, 3, box=True),
    "3d7pt": Stencil(3, 1, box=False),
    "3d27pt": Stencil(3, 1, box=True),
}
