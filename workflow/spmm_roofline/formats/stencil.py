"""A stencil on a grid: extents and one coefficient per offset, for kernels that read no indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from ..matrices.grids import GridOperator, entries, neighbours
from ..matrices.stencils import STENCILS, Stencil
from .arrays import array_module, csr_type, row_of_entry
from .base import Format, FormatError, OptionalValues, Values
from .values import rounded, signed, widened


@dataclass(frozen=True)
class StencilGrid(Format):
    """A matrix that is one step of a stencil on a grid with zero boundary; see :mod:`..matrices.stencils`.

    - ``data`` dtype[(2r+1)^d]: the coefficient of every offset of the box of radius r in d dimensions, z slowest and x
      fastest, zero where the stencil has none;
    - ``points``: the stencil's name; ``nx``, ``ny``, ``nz``: the grid's extents;
    - on request, for a stencil in a plane, ``data_left`` and ``data_right`` dtype[terms, 2r+1]: the coefficients as the
      sum over the terms of left (along y) times right (along x). A star needs two terms, a box at most 2r + 1.

    A square matrix without non-zeros is the stencil of zeros on a line of points. Matrices that are stored as a
    :class:`~..matrices.grids.GridOperator` need no detection: :meth:`from_grid`, and :meth:`to_grid` gives it back.
    """

    name: ClassVar[str] = "stencil"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "nx", "ny", "nz", "layers", "layer_rows", "terms")
    on_request: ClassVar[dict[str, str]] = {"data_left": "low_rank", "data_right": "low_rank", "terms": "low_rank"}
    holds_any: ClassVar[bool] = False
    stores_structure: ClassVar[bool] = False

    points: str
    nx: int
    ny: int
    nz: int
    data: Values
    data_left: OptionalValues = None
    data_right: OptionalValues = None

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float64", points: str | None = None, low_rank: bool = False) -> Self:
        """Recognise the grid of a canonical CSR; ``points`` names the stencil, otherwise the first that fits is taken.

        ``low_rank`` also makes ``data_left`` and ``data_right``. Raises :class:`FormatError` unless A has exactly the
        entries of that stencil on some grid, with one value for each offset.
        """
        if points is not None and points not in STENCILS:
            raise FormatError(f"there is no stencil {points!r}, only {', '.join(STENCILS)}")
        m, k = a.shape
        if m != k:
            raise FormatError(f"a stencil gives a square matrix, and this one is {m} x {k}")
        named = [points] if points else list(STENCILS)
        if not a.nnz:
            data = array_module(a.data).zeros(prod(2 * r + 1 for r in STENCILS[named[0]].reach))
            return cls._packed(0, dtype, named[0], (m, 1, 1), data, low_rank)
        for name in named:
            for extents in _extents(STENCILS[name], m, int(a.nnz)):
                data = _coefficients(a, STENCILS[name], *extents)
                if data is not None:
                    return cls._packed(int(a.nnz), dtype, name, extents, data, low_rank)
        raise FormatError(
            f"the matrix is not {points or 'one of ' + ', '.join(STENCILS)} with one coefficient per offset on any "
            f"grid of {m} points with zero boundary"
        )

    @classmethod
    def from_grid(
        cls, operator: GridOperator, dtype: str = "float64", points: str | None = None, low_rank: bool = False
    ) -> Self:
        """Pack a grid operator; arguments and errors as those of :meth:`from_csr`."""
        if points not in (None, operator.points):
            raise FormatError(f"the matrix is not {points} but {operator}")
        xp, stencil = array_module(operator.coefficients), operator.stencil
        data = xp.zeros(prod(2 * r + 1 for r in stencil.reach))
        data[xp.asarray([_index(stencil, offset) for offset in stencil.offsets])] = operator.coefficients
        return cls._packed(operator.nnz, dtype, operator.points, operator.extents, data, low_rank)

    def to_grid(self) -> GridOperator:
        """The matrix as a grid operator with the stored coefficients, float64."""
        xp, stencil = array_module(self.data), STENCILS[self.points]
        own = xp.asarray([_index(stencil, offset) for offset in stencil.offsets])
        return GridOperator(self.points, self.nx, self.ny, self.nz, widened(self.data, self.dtype)[own])

    @classmethod
    def _packed(
        cls, nnz: int, dtype: str, points: str, extents: tuple[int, int, int], data: Any, low_rank: bool
    ) -> Self:
        m = prod(extents)
        terms = _terms(data, STENCILS[points]) if low_rank else (None, None)
        left, right = (None if band is None else rounded(band, dtype) for band in terms)
        return cls((m, m), nnz, dtype, points, *extents, rounded(data, dtype), left, right)

    @classmethod
    def random_values(cls, structure: Any, random: Any) -> Any:
        """As :meth:`Format.random_values`, one value per diagonal: an offset of the grid lies on one diagonal."""
        m, k = structure.shape
        rows = row_of_entry(structure.indptr, structure.nnz)
        return signed(random, m + k)[structure.indices - rows + m]

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        xp = array_module(self.data)
        m = self.shape[0]
        values = widened(self.data, self.dtype)
        shape = STENCILS[self.points]
        columns, data = xp.zeros((m, 0), dtype=xp.int64), xp.zeros((m, 0))
        if self.nnz:
            found = neighbours(shape, (self.nx, self.ny, self.nz), xp.arange(m))
            columns = xp.stack([xp.where(inside, column, -1) for inside, column in found], axis=1)
            data = xp.broadcast_to(xp.stack([values[_index(shape, each)] for each in shape.offsets]), columns.shape)
        kept = (columns >= 0) & (data != 0)
        indptr = xp.zeros(m + 1, dtype=xp.int32)
        indptr[1:] = xp.cumsum(kept.sum(axis=1))
        return csr_type(xp)((data[kept], columns[kept].astype(xp.int32), indptr), shape=self.shape)

    @property
    def stored_slots(self) -> int:
        """Coefficients: each stands for the entries of a diagonal."""
        return len(STENCILS[self.points].offsets) if self.nnz else 0

    @property
    def covered_slots(self) -> int:
        """Entries of the matrix; no tile pads them."""
        return self.nnz

    def stats(self) -> dict[str, float | int]:
        """As :meth:`Format.stats`; nothing that is stored is padding."""
        return {**super().stats(), "fill_fraction": 1.0}

    @property
    def blocks(self) -> int:
        return self.shape[0]

    def counts(self) -> dict[str, int]:
        """``nx``, ``ny``, ``nz``, and the same as ``layers`` along the slowest axis, of ``layer_rows`` rows each.

        A layer of a plane stencil is a single row, of a solid one a plane. ``terms``: the outer products, if
        requested.
        """
        solid = STENCILS[self.points].dimensions == 3
        layers, layer_rows = (self.nz, self.ny) if solid else (self.ny, 1)
        extents = {"nx": self.nx, "ny": self.ny, "nz": self.nz}
        terms = {} if self.data_left is None else {"terms": len(self.data_left)}
        return {**super().counts(), **extents, "layers": layers, "layer_rows": layer_rows, **terms}


def _extents(shape: Stencil, points: int, nnz: int) -> Iterator[tuple[int, int, int]]:
    """Extents nx, ny, nz of every grid of ``points`` points on which the stencil has ``nnz`` entries."""
    for nz in _divisors(points) if shape.dimensions == 3 else [1]:
        for ny in _divisors(points // nz):
            extents = (nz, ny, points // nz // ny)
            if entries(shape, extents[::-1]) == nnz:
                yield extents[::-1]


def _divisors(number: int) -> list[int]:
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})


def _coefficients(a: Any, shape: Stencil, nx: int, ny: int, nz: int) -> Any:
    """Coefficients of the box, float64, if ``a`` is exactly this stencil on this grid; otherwise None."""
    xp = array_module(a.data)
    data = xp.zeros(prod(2 * r + 1 for r in shape.reach))
    at = a.indptr[:-1].astype(xp.int64)
    right = xp.ones((), dtype=bool)
    found = neighbours(shape, (nx, ny, nz), xp.arange(nx * ny * nz))
    for offset, (inside, column) in zip(shape.offsets, found, strict=True):
        # Rows and offsets both ascend: the next entry of a row that has this neighbour is that neighbour.
        here = at[inside]
        if not len(here):
            continue
        here = xp.minimum(here, a.nnz - 1)
        values = a.data[here]
        right &= (a.indices[here] == column[inside]).all() & (values == values[0]).all()
        if not right:
            return None
        data[_index(shape, offset)] = values[0]
        at += inside
    return data if (at == a.indptr[1:]).all() else None


def _terms(data: Any, shape: Stencil) -> tuple[Any, Any]:
    """Left and right bands (terms, 2r+1) whose outer products sum up to the coefficients of the box, float64.

    Elimination with complete pivoting: each term eliminates the row and the column of the largest remaining entry.
    """
    if shape.dimensions != 2:
        raise FormatError("only the coefficients of a stencil in a plane are a matrix, and so a sum of outer products")
    xp = array_module(data)
    side = 2 * shape.radius + 1
    rest = np.array(data.tolist()).reshape(side, side)
    left, right = np.zeros((2, side if shape.box else 2, side))
    for term in range(len(left)):
        i, j = np.unravel_index(np.abs(rest).argmax(), rest.shape)
        if rest[i, j] == 0:
            break
        left[term], right[term] = rest[:, j] / rest[i, j], rest[i]
        rest = rest - np.outer(left[term], right[term])
    return xp.asarray(left), xp.asarray(right)


def _index(shape: Stencil, offset: tuple[int, int, int]) -> int:
    """Index of an offset in the box."""
    index = 0
    for step, reach in zip(offset, shape.reach, strict=True):
        index = index * (2 * reach + 1) + step + reach
    return index


FORMAT = StencilGrid
