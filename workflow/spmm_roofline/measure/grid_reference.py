"""The float64 product of a grid operator: shifted views of a slab of the grid, added up, step by step.

A slab is some whole layers of the grid. It is fetched from B with as many layers around it as all steps reach, so that
slabs are independent of each other and memory is bounded by their size. Works on NumPy and CuPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..formats.arrays import array_module
from ..formats.values import widened
from ..kernels.operands import Dense
from ..matrices.grids import GridOperator, neighbours, reduced

#: Points of a slab: 0.5 GB per array of float64, of which about eight exist at a time.
SLAB_POINTS = 1 << 26

#: Receives each application of the operator to a slab: input and result, float64 by point, each with the number of its
#: first point, and the rows of the slab.
Check = Callable[[Any, int, Any, int, range], None]


@dataclass(frozen=True)
class Slab:
    """A^steps·B in some consecutive rows."""

    rows: range
    product: Any
    """float64[rows, n]"""
    input_square: float
    """Squared Frobenius norm of what the last multiplication read in these rows."""


@dataclass(frozen=True)
class Layers:
    """A grid as layers of rows of points, and the offsets in that order; a layer of a plane stencil is one row."""

    extents: tuple[int, int, int]
    reach: tuple[int, int, int]
    offsets: list[tuple[int, int, int]]

    @classmethod
    def of(cls, a: GridOperator) -> Layers:
        reach, offsets = a.stencil.reach, a.stencil.offsets
        if a.stencil.dimensions == 3:
            return cls((a.nz, a.ny, a.nx), reach, offsets)
        return cls((a.ny, 1, a.nx), (reach[1], 0, reach[2]), [(dy, 0, dx) for _, dy, dx in offsets])

    def around(self, start: int, stop: int, steps: int) -> tuple[int, int]:
        """The layers ``start`` to ``stop`` and those that ``steps`` applications reach from them, within the grid."""
        return max(start - steps * self.reach[0], 0), min(stop + steps * self.reach[0], self.extents[0])


def slabs(
    a: GridOperator, b: Dense, steps: int = 1, most: int = SLAB_POINTS, check: Check | None = None
) -> Iterator[Slab]:
    """A^steps·B by slabs of at most ``most`` points (but one layer at least), in the order of the rows.

    ``b`` is an operand (k×n), each column a grid; coefficients and B are both on the host or both on a device.
    """
    xp, grid = array_module(a.coefficients), Layers.of(a)
    coefficients, layer = a.coefficients.tolist(), prod(grid.extents[1:])
    height = max(most // (layer * max(b.columns, 1)), 1)
    for start in range(0, grid.extents[0], height):
        stop = min(start + height, grid.extents[0])
        rows = range(start * layer, stop * layer)
        product, input_square = xp.empty((len(rows), b.columns)), 0.0
        for column in range(b.columns):
            first, last = grid.around(start, stop, steps)
            field = widened(b.view[first * layer : last * layer, column], b.dtype).reshape(-1, *grid.extents[1:])
            for remaining in reversed(range(steps)):
                if not remaining:
                    own = field[start - first : stop - first]
                    input_square += float((own * own).sum())
                low, high = grid.around(start, stop, remaining)
                result = _applied(grid, coefficients, field, first, low, high)
                if check:
                    check(field.ravel(), first * layer, result.ravel(), low * layer, rows)
                field, first = result, low
            product[:, column] = field.ravel()
        yield Slab(rows, product, input_square)


def _applied(grid: Layers, coefficients: list[float], field: Any, first: int, low: int, high: int) -> Any:
    """Layers ``low`` to ``high`` of one application to ``field``, whose first layer is number ``first``.

    ``field`` has all layers that they need; what lies outside the grid is zero.
    """
    xp = array_module(field)
    height, (_, rows, width) = high - low, grid.extents
    above, beside, along = grid.reach
    padded = xp.zeros((height + 2 * above, rows + 2 * beside, width + 2 * along))
    begin, end = grid.around(low, high, 1)
    at = begin - (low - above)
    padded[at : at + end - begin, beside : beside + rows, along : along + width] = field[begin - first : end - first]
    result, term = xp.zeros((height, rows, width)), xp.empty((height, rows, width))
    for coefficient, (dz, dy, dx) in zip(coefficients, grid.offsets, strict=True):
        shifted = padded[above + dz :, beside + dy :, along + dx :][:height, :rows, :width]
        xp.multiply(shifted, coefficient, out=term)
        result += term
    return result


def gathered(a: GridOperator, rows: Any, field: Any, first: int) -> Any:
    """One application in the given ``rows`` (int64), entry by entry as the matrix is defined, not by shifted views.

    ``field`` is float64 by point from number ``first`` on and has all neighbours of the rows.
    """
    xp = array_module(field)
    sums = xp.zeros(len(rows))
    found = neighbours(a.stencil, a.extents, rows)
    for coefficient, (inside, column) in zip(a.coefficients.tolist(), found, strict=True):
        sums += coefficient * xp.where(inside, field[xp.where(inside, column - first, 0)], 0.0)
    return sums


def row_norms(a: GridOperator, rows: range) -> Any:
    """‖a_i‖₂ of every row of whole layers, float64[rows]: one of the few that the grid's kinds of points have."""
    xp, stencil = array_module(a.coefficients), a.stencil
    small, _ = reduced(stencil, a.extents)
    found = neighbours(stencil, small, np.arange(prod(small)))
    squares = sum(value**2 * inside for value, (inside, _) in zip(a.coefficients.tolist(), found, strict=True))
    of_kind = xp.asarray(np.sqrt(squares).reshape(small[::-1]))
    x, y, z = (
        xp.asarray(np.maximum(np.minimum(np.arange(extent), kinds // 2), np.arange(extent) - (extent - kinds)))
        for extent, kinds in zip(a.extents, small, strict=True)
    )
    if stencil.dimensions == 3:
        z = z[rows.start // (a.nx * a.ny) : rows.stop // (a.nx * a.ny)]
    else:
        y = y[rows.start // a.nx : rows.stop // a.nx]
    return of_kind[z][:, y][:, :, x].ravel()
