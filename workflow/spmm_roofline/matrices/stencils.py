"""The stencils of Zhang et al. 2025, table 3, and the structure of their matrices, for what generates and packs them.

A stencil on a grid of nx × ny × nz points is a square matrix over the points in row-major order, x fastest: the row of
a point holds its coefficients in the columns of its neighbours. Points outside the grid are zero (Dirichlet), so that
rows at the border are shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from .canonical import INDEX_LIMIT, MatrixError


@dataclass(frozen=True)
class Stencil:
    """All points of a box of ``radius`` in 2 or 3 ``dimensions``, or only those on its axes (a star)."""

    dimensions: int
    radius: int
    box: bool

    @property
    def reach(self) -> tuple[int, int, int]:
        """Radius along z, y and x; 0 along z for a plane stencil."""
        return (self.radius if self.dimensions == 3 else 0, self.radius, self.radius)

    @property
    def offsets(self) -> list[tuple[int, int, int]]:
        """(dz, dy, dx) of each neighbour, ascending, which is the order of the columns in a row on every grid."""
        dz, dy, dx = (range(-r, r + 1) for r in self.reach)
        steps = product(dz, dy, dx)
        return [step for step in steps if self.box or sum(map(bool, step)) <= 1]


#: Names and shapes of ConvStencil's benchmarks (Chen et al. 2024), which that study uses as well: 2d9pt is the box of
#: 3×3 points, 2d13pt the star of radius 3, 2d49pt the box of 7×7.
STENCILS = {
    "2d5pt": Stencil(2, 1, box=False),
    "2d9pt": Stencil(2, 1, box=True),
    "2d13pt": Stencil(2, 3, box=False),
    "2d49pt": Stencil(2, 3, box=True),
    "3d7pt": Stencil(3, 1, box=False),
    "3d27pt": Stencil(3, 1, box=True),
}


def check_grid(points: str, nx: int, ny: int, nz: int) -> None:
    """Raise :class:`~.canonical.MatrixError` unless a stencil is called ``points`` and has a grid of these extents."""
    if points not in STENCILS:
        raise MatrixError(f"stencil: there is no {points!r}; points is one of {', '.join(STENCILS)}")
    if min(nx, ny, nz) < 1:
        raise MatrixError(f"stencil: a grid of {nx} x {ny} x {nz} has no points")
    if nz != 1 and STENCILS[points].dimensions != 3:
        raise MatrixError(f"stencil: {points} lies in a plane, so nz is 1, not {nz}")
    if nx * ny * nz > INDEX_LIMIT:
        raise MatrixError(f"stencil: {nx * ny * nz} points are more than 32-bit indices count")


def drawn_coefficients(rng: np.random.Generator, count: int) -> np.ndarray:
    """``count`` coefficients, one per offset, drawn from ±[0.5, 1.5)."""
    return (rng.random(count) + 0.5) * rng.choice([-1.0, 1.0], count)
