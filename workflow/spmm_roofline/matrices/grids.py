"""Stencils on a grid, stored as what they are: a grid operator instead of entries.

A stencil on the grids of Zhang et al. 2025, table 3, has up to 29 · 10⁹ non-zeros, which no host holds as CSR. A
:class:`GridOperator` is the same matrix in a few hundred bytes. Its structural features follow from counting: rows
differ only in which neighbours lie outside the grid. The generator ``stencil`` of :mod:`.generated` makes the same
matrix with entries, for kernels of any matrix.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .stencils import STENCILS, Stencil, check_grid, drawn_coefficients

#: Extents along x, y and z.
Extents = tuple[int, int, int]

#: Features that count tiles or brick columns; empty where rows of the grid are no whole number of tiles.
TILES = (
    *("tiles_16x16", "tile_fill_16x16_fraction", "tile_24_16x16_fraction"),
    *("tiles_16x32", "tile_fill_16x32_fraction", "tile_24_16x32_fraction"),
    "alpha_fraction",
)
#: Widest tile, and the lengths of two rows of points: each further tile of a longer row is one like the second's last.
WIDEST, SHORT, LONG = 32, 96, 128


@dataclass(frozen=True, eq=False)
class GridOperator:
    """One application of a stencil to a grid with zero boundary, a square matrix over the points; see :mod:`.stencils`.

    ``points`` names one of :data:`.stencils.STENCILS`; ``coefficients`` are float64[offsets], in the order of its
    offsets, an array of NumPy or CuPy.
    """

    points: str
    nx: int
    ny: int
    nz: int
    coefficients: Any

    def __str__(self) -> str:
        return f"{self.points} on a grid of {self.nx} x {self.ny} x {self.nz} points"

    @property
    def stencil(self) -> Stencil:
        return STENCILS[self.points]

    @property
    def extents(self) -> Extents:
        return self.nx, self.ny, self.nz

    @property
    def shape(self) -> tuple[int, int]:
        """m = k: the number of points."""
        return prod(self.extents), prod(self.extents)

    @property
    def nnz(self) -> int:
        return entries(self.stencil, self.extents)

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the structure: stencil and extents. The same matrix as CSR has another one."""
        return hashlib.sha256(f"grid operator {self.points} {self.nx} {self.ny} {self.nz}".encode()).hexdigest()

    def equals(self, other: GridOperator) -> bool:
        """Whether both are the same matrix, coefficients bit for bit, on the host or on a device."""
        return (self.points, self.extents) == (other.points, other.extents) and (
            self.coefficients.tolist() == other.coefficients.tolist()
        )


def expand(wanted: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``grids`` entries. Raises :class:`~.canonical.MatrixError` for a grid that cannot be."""
    for entry in wanted:
        given = {"points": entry["points"], "nx": entry["nx"], "ny": entry["ny"], "nz": entry.get("nz", 1)}
        check_grid(**given)
        extents = "x".join(str(given[axis]) for axis in ("nx", "ny", "nz") if axis in entry)
        yield {
            "matrix": entry.get("name") or f"{given['points']}-{extents}",
            "source": "grids",
            "kind": "grid",
            "seed": entry.get("seed", 0),
            "parameters": given,
        }


def fetch(spec: dict[str, Any], config: dict[str, Any]) -> tuple[GridOperator, str]:
    """The grid operator of a spec, and the call that makes it again; coefficients as those of generator ``stencil``."""
    rng = np.random.Generator(np.random.PCG64(spec["seed"]))
    given = spec["parameters"]
    coefficients = drawn_coefficients(rng, len(STENCILS[given["points"]].offsets))
    arguments = ", ".join(f"{key}={value}" for key, value in {**given, "seed": spec["seed"]}.items())
    return GridOperator(**given, coefficients=coefficients), f"grid({arguments})"


def entries(stencil: Stencil, extents: Extents) -> int:
    """Non-zeros: for each offset, the points whose neighbour lies on the grid."""
    return sum(
        prod(max(extent - abs(step), 0) for extent, step in zip(extents, offset[::-1], strict=True))
        for offset in stencil.offsets
    )


def neighbours(stencil: Stencil, extents: Extents, points: Any) -> Iterator[tuple[Any, Any]]:
    """For each offset: whether ``points`` have that neighbour (bool), and the neighbour's number (int64).

    ``points`` are numbers of points, int64, an array of NumPy or CuPy.
    """
    nx, ny, nz = extents
    position = (points // (nx * ny), points // nx % ny, points % nx)
    for offset in stencil.offsets:
        z, y, x = (p + step for p, step in zip(position, offset, strict=True))
        inside = (z >= 0) & (z < nz) & (y >= 0) & (y < ny) & (x >= 0) & (x < nx)
        yield inside, (z * ny + y) * nx + x


# --- structural features ----------------------------------------------------------------------------------------------


def features(operator: GridOperator) -> dict[str, Any]:
    """Structural columns of table ``matrices``, as :func:`.features.features` gives them for the same matrix in CSR.

    All are exact. :data:`TILES` are None unless a row of the grid is a whole number of 16x32 tiles; columns of larger
    tiles and of bricks are left out.
    """
    m, nnz = operator.shape[0], operator.nnz
    lengths, rows = _row_lengths(operator)
    mean = nnz / m
    return {
        "m": m,
        "k": m,
        "nnz": nnz,
        "density_fraction": nnz / m / m,
        # Each point is its own neighbour.
        "empty_rows": 0,
        "nonempty_columns": m,
        "bandwidth": _bandwidth(operator),
        "row_length_min": int(lengths[0]),
        "row_length_mean": mean,
        "row_length_median": _percentile(lengths, rows, 50),
        "row_length_p90": _percentile(lengths, rows, 90),
        "row_length_p99": _percentile(lengths, rows, 99),
        "row_length_max": int(lengths[-1]),
        "row_length_std": float(np.sqrt((rows * (lengths - mean) ** 2).sum() / m)),
        **_tiles(operator),
    }


def reduced(stencil: Stencil, extents: Extents) -> tuple[Extents, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The smallest grid with a point of every kind, and how often each of its positions occurs along x, y and z.

    Positions along an axis differ only within the stencil's reach of an end: the extent shrinks to 2·reach + 1, and
    the position in the middle stands for all others.
    """
    small, occurs = [], []
    for extent, reach in zip(extents, stencil.reach[::-1], strict=True):
        small.append(min(extent, 2 * reach + 1))
        count = np.ones(small[-1], dtype=np.int64)
        count[small[-1] // 2] += extent - small[-1]
        occurs.append(count)
    return (small[0], small[1], small[2]), (occurs[0], occurs[1], occurs[2])


def _row_lengths(operator: GridOperator) -> tuple[np.ndarray, np.ndarray]:
    """Row lengths, ascending, and the number of rows of each kind of point, int64."""
    small, (x, y, z) = reduced(operator.stencil, operator.extents)
    found = neighbours(operator.stencil, small, np.arange(prod(small)))
    lengths = sum(inside.astype(np.int64) for inside, _ in found)
    rows = (z[:, None, None] * y[:, None] * x).ravel()
    order = np.argsort(lengths, kind="stable")
    return lengths[order], rows[order]


def _percentile(lengths: np.ndarray, rows: np.ndarray, percent: float) -> float:
    """As ``numpy.percentile`` of all rows: linear between the two nearest ranks."""
    ends = np.cumsum(rows)
    rank = (int(ends[-1]) - 1) * (percent / 100)
    low, high = (int(lengths[np.searchsorted(ends, int(each), side="right")]) for each in (rank, np.ceil(rank)))
    return low + (high - low) * (rank - int(rank))


def _bandwidth(operator: GridOperator) -> int:
    nx, ny, nz = operator.extents
    on_grid = [
        (dz, dy, dx)
        for dz, dy, dx in operator.stencil.offsets
        if abs(dz) < nz and abs(dy) < ny and abs(dx) < nx
    ]  # fmt: skip
    return max(abs((dz * ny + dy) * nx + dx) for dz, dy, dx in on_grid)


def _tiles(operator: GridOperator) -> dict[str, Any]:
    """Columns of tiles and brick columns, None where a row of the grid is no whole number of tiles.

    Where it is, a tile has its rows in one row of the grid and its columns in another one. Each such pair of rows of
    points is a small matrix of its own, and there are only as many different ones as sets of offsets along x.
    """
    nx, ny, nz = operator.extents
    if nx % WIDEST:
        return dict.fromkeys(TILES)
    along: dict[tuple[int, int], tuple[int, ...]] = {}
    for dz, dy, dx in operator.stencil.offsets:
        along[dz, dy] = (*along.get((dz, dy), ()), dx)
    pairs: Counter[tuple[int, ...]] = Counter()
    for (dz, dy), steps in along.items():
        pairs[steps] += max(nz - abs(dz), 0) * max(ny - abs(dy), 0)
    counted: Counter[str] = Counter()
    for steps, times in pairs.items():
        for name, count in _line(nx, steps).items():
            counted[name] += times * count
    row: dict[str, Any] = {}
    for width in (16, 32):
        tiles = counted[f"tiles_16x{width}"]
        row[f"tiles_16x{width}"] = tiles
        row[f"tile_fill_16x{width}_fraction"] = operator.nnz / (tiles * 16 * width)
        row[f"tile_24_16x{width}_fraction"] = counted[f"fitting_16x{width}"] / tiles
    return row | {"alpha_fraction": operator.nnz / counted["brick_slots"]}


def _line(extent: int, steps: tuple[int, ...]) -> dict[str, int]:
    """Tiles, 2:4 tiles and slots of active brick columns of a row of ``extent`` points with offsets ``steps``."""
    if extent <= LONG:
        return _counts(extent, steps)
    short, long = _counts(SHORT, steps), _counts(LONG, steps)
    return {name: long[name] + (extent - LONG) // WIDEST * (long[name] - short[name]) for name in long}


def _counts(extent: int, steps: tuple[int, ...]) -> dict[str, int]:
    from scipy.sparse import csr_array, eye_array

    from .features import features as features_of

    found = features_of(csr_array(sum(eye_array(extent, k=step, format="csr") for step in steps)))
    counts = {"brick_slots": round(found["nnz"] / found["alpha_fraction"])}
    for width in (16, 32):
        counts[f"tiles_16x{width}"] = found[f"tiles_16x{width}"]
        counts[f"fitting_16x{width}"] = round(found[f"tile_24_16x{width}_fraction"] * found[f"tiles_16x{width}"])
    return counts
