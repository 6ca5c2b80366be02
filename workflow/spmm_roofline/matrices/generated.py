"""Seeded generators: structures that need no download and no licence, each after the paper that its docstring names.

A generator takes the random generator and its keyword parameters and returns :class:`~.canonical.Entries`.
:func:`generator` registers it under its name with its class of problem. The signature is its contract: planning refuses
an unknown parameter and a value of another type. All generators draw from PCG64 and compute the structure with exactly
rounded arithmetic only, so that a call gives the same structure on every platform.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .canonical import Entries, MatrixError
from .stencils import STENCILS, check_grid, drawn_coefficients


@dataclass(frozen=True)
class Generator:
    """A registered generator: the function, the kind of problem that it imitates, and the parameters' defaults."""

    make: Callable[..., Entries]
    kind: str
    defaults: dict[str, Any]


GENERATORS: dict[str, Generator] = {}


def generator(kind: str) -> Callable[[Callable[..., Entries]], Callable[..., Entries]]:
    """Register a function under its name; ``kind`` goes to the matrix's features."""

    def register(make: Callable[..., Entries]) -> Callable[..., Entries]:
        parameters = list(inspect.signature(make).parameters.values())[1:]
        GENERATORS[make.__name__] = Generator(make, kind, {each.name: each.default for each in parameters})
        return make

    return register


def expand(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``generated`` entries, every parameter filled in.

    Raises :class:`~.canonical.MatrixError` for an unknown generator or parameter and a value of a wrong type.
    """
    for entry in entries:
        given = {key: value for key, value in entry.items() if key not in ("generator", "name", "seed")}
        name = entry["generator"]
        if name not in GENERATORS:
            raise MatrixError(f"no generator is called {name!r}; {_choices(name, GENERATORS)}")
        defaults = GENERATORS[name].defaults
        for key, value in given.items():
            if key not in defaults:
                raise MatrixError(f"generator {name} has no parameter {key!r}; {_choices(key, defaults)}")
            _check_type(name, key, value, defaults[key])
        yield {
            "matrix": entry.get("name") or "-".join([name, *(f"{key}{value}" for key, value in given.items())]),
            "source": "generated",
            "kind": GENERATORS[name].kind,
            "generator": name,
            "seed": entry.get("seed", 0),
            "parameters": {**defaults, **given},
        }


def fetch(spec: dict[str, Any], config: dict[str, Any]) -> tuple[Entries, str]:
    """Run the generator of a spec; also return the call that makes the matrix again."""
    rng = np.random.Generator(np.random.PCG64(spec["seed"]))
    parameters = spec["parameters"]
    arguments = ", ".join(f"{key}={value}" for key, value in {**parameters, "seed": spec["seed"]}.items())
    return GENERATORS[spec["generator"]].make(rng, **parameters), f"{spec['generator']}({arguments})"


def _choices(wrong: str, right: dict[str, Any]) -> str:
    close = difflib.get_close_matches(wrong, right, n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"There are {', '.join(right)}"


def _check_type(name: str, key: str, value: Any, default: Any) -> None:
    allowed = (int, float) if isinstance(default, float) else (type(default),)
    if type(value) not in allowed:
        raise MatrixError(f"generator {name}: {key} is {value!r}, but a value like {default!r} is needed")


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise MatrixError(sentence)


# --- tiles and weights ------------------------------------------------------------------------------------------------


@generator("synthetic")
def tiles(
    rng: np.random.Generator, size: int = 4096, dense: int = 10, sparse24: int = 10, percent: bool = False
) -> Entries:
    """The thesis' XdYs matrix: ``size`` squared, of X ``dense``, Y ``sparse24`` and otherwise zero tiles of 16x32.

    With ``percent``, X and Y are percentages of all tiles, as Mistry 2025, section 3.1.2, says: their numbers are
    rounded, and their positions drawn over the whole matrix, so that block rows differ. Otherwise X and Y are tiles per
    block row: each has the same work, and the density falls with the size. A dense tile is full, where the
    thesis spreads its non-zeros at random and does not say how many. A 2:4 tile holds exactly two non-zeros in every
    aligned group of four columns.
    """
    _require(size % 32 == 0 and size > 0, f"tiles: size is {size}, but must be a positive multiple of 32")
    block_rows, across = size // 16, size // 32
    most, unit = (100, "per cent") if percent else (across, f"tiles of a block row of {size} columns")
    _require(
        dense >= 0 and sparse24 >= 0 and dense + sparse24 <= most,
        f"tiles: {dense} dense and {sparse24} 2:4 tiles do not fit the {most} {unit}",
    )
    if percent:
        total = block_rows * across
        kinds = np.cumsum([round(total * dense / 100), round(total * sparse24 / 100)])
        of_kind = np.split(rng.permutation(total)[: kinds[1]], kinds[:1])
    else:
        order = np.argsort(rng.random((block_rows, across)), axis=1, kind="stable")
        order += across * np.arange(block_rows)[:, None]
        of_kind = [order[:, :dense].ravel(), order[:, dense : dense + sparse24].ravel()]

    def origins(tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and first column of tiles, whose numbers count along block rows."""
        rows, column = tiles // across * 16, tiles % across * 32
        return rows[:, None, None] + np.arange(16)[:, None], column[:, None, None]

    rows, column = origins(of_kind[0])
    full = np.broadcast_arrays(rows, column + np.arange(32))
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    rows, column = origins(of_kind[1])
    kept = pairs[rng.integers(6, size=(len(rows), 16, 8))] + 4 * np.arange(8)[:, None]
    half = np.broadcast_arrays(rows, column + kept.reshape(len(rows), 16, 16))
    return Entries((size, size), *(np.concatenate([a.ravel(), b.ravel()]) for a, b in zip(full, half, strict=True)))


@generator("pruned")
def pruned(rng: np.random.Generator, rows: int = 512, columns: int = 512, sparsity: float = 0.9) -> Entries:
    """Weights of a layer after magnitude pruning: exactly round(``rows`` x ``columns`` x (1 - ``sparsity``)) survive.

    One threshold over the whole layer keeps the largest magnitudes (Zhu & Gupta 2017). Rows and columns differ in
    scale, so that their densities differ as in the layers of Gale et al. 2020 (DLMC, whose sparsities are 0.5, 0.6,
    0.7, 0.8, 0.9, 0.95 and 0.98). Weights are sums of four uniform numbers, close enough to a normal distribution.
    """
    _require(min(rows, columns) > 0, f"pruned: the layer is {rows} x {columns}, but needs rows and columns")
    _require(0 <= sparsity < 1, f"pruned: sparsity is {sparsity}, but must lie in [0, 1)")
    weights = sum(rng.random((rows, columns)) for _ in range(4)) - 2
    weights *= (0.5 + rng.random((rows, 1))) * (0.75 + 0.5 * rng.random((1, columns)))
    kept = rows * columns - round(rows * columns * (1 - sparsity))
    flat = np.sort(np.argsort(np.abs(weights), axis=None, kind="stable")[kept:])
    return Entries((rows, columns), flat // columns, flat % columns, weights.ravel()[flat])


@generator("pruned")
def pruned24(rng: np.random.Generator, rows: int = 512, columns: int = 512) -> Entries:
    """Weights of a layer pruned to 2:4: any two of every four in a row survive (Mishra et al. 2021)."""
    _require(
        rows > 0 and columns > 0 and columns % 4 == 0,
        f"pruned24: {rows} x {columns} has no whole groups of four columns",
    )
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], dtype=np.int32)
    column = pairs[rng.integers(6, size=(rows, columns // 4), dtype=np.uint8)]
    column += 4 * np.arange(columns // 4, dtype=np.int32)[:, None]
    row = np.repeat(np.arange(rows, dtype=np.int32), columns // 2)
    return Entries((rows, columns), row, column.ravel())


# --- lattices, meshes and bands ---------------------------------------------------------------------------------------


@generator("lattice")
def wilson_dirac(rng: np.random.Generator, extent: int = 8) -> Entries:
    """Wilson's hopping matrix on an ``extent``^4 lattice: 12 extent^4 rows of 39 non-zeros.

    Sum over directions μ of (1 - γ_μ) U_μ(x) to the neighbour ahead and (1 + γ_μ) U_μ(x - μ)^H to the one behind,
    periodic, links U random in SU(3) (Wilson 1974; in this form the QCD group of the SuiteSparse
    collection, whose conf5_4-8x8 is extent 8). In a basis with γ_4 diagonal a row meets two spins of each of its six
    neighbours in space and one spin of one neighbour in time, three colours each: 6 x 2 x 3 + 3 = 39. The original is
    complex; this is its real part, which has the same structure.
    """
    _require(extent >= 3, f"wilson_dirac: extent is {extent}, but neighbours ahead and behind are one below 3")
    sites = np.arange(extent**4).reshape((extent,) * 4)
    rows, columns, values = [], [], []
    for direction, gamma in enumerate(_gammas()):
        links = _random_su3(rng, sites.size)
        ahead = np.roll(sites, -1, axis=direction).ravel()
        for sign, source, target, link in (
            (-1, sites.ravel(), ahead, links),
            (+1, ahead, sites.ravel(), links.conj().transpose(0, 2, 1)),
        ):
            spin = np.eye(4) + sign * gamma
            for s, t in zip(*np.nonzero(spin), strict=True):
                row = np.broadcast_to((12 * source + 3 * s)[:, None, None] + np.arange(3)[:, None], link.shape)
                column = np.broadcast_to((12 * target + 3 * t)[:, None, None] + np.arange(3), link.shape)
                rows.append(row.ravel())
                columns.append(column.ravel())
                values.append((spin[s, t] * link).real.ravel())
    size = 12 * sites.size
    return Entries((size, size), np.concatenate(rows), np.concatenate(columns), np.concatenate(values))


def _gammas() -> np.ndarray:
    """Euclidean Dirac matrices (4, 4, 4) in the basis where the last one is diagonal."""
    pauli = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    gammas = np.zeros((4, 4, 4), dtype=complex)
    gammas[:3, :2, 2:] = -1j * pauli
    gammas[:3, 2:, :2] = 1j * pauli
    gammas[3] = np.diag([1, 1, -1, -1])
    return gammas


def _random_su3(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random matrices (count, 3, 3) of SU(3): two orthonormal rows and the conjugate of their cross product."""
    a, b = rng.standard_normal((2, count, 3)) + 1j * rng.standard_normal((2, count, 3))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b -= a * (a.conj() * b).sum(axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    return np.stack([a, b, np.cross(a, b).conj()], axis=1)


@generator("structural")
def fem3d(rng: np.random.Generator, nodes: int = 20, dofs: int = 3, points: int = 27) -> Entries:
    """A block stencil on ``nodes``^3 grid points with ``dofs`` unknowns each: full blocks to ``points`` - 1 neighbours.

    27 points are the hexahedral elements of HPCG (Dongarra, Heroux & Luszczek 2016) made vector-valued as in
    elasticity; 7 points are the neighbours along the axes. Rows at the border have fewer blocks.
    """
    _require(nodes > 0 and dofs > 0, f"fem3d: {nodes} nodes an edge and {dofs} dofs a node, but both must be positive")
    _require(points in (7, 27), f"fem3d: points is {points}, but only 7 and 27 are stencils here")
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    if points == 7:
        steps = steps[np.abs(steps).sum(axis=1) <= 1]
    point = np.stack(np.meshgrid(*[np.arange(nodes)] * 3, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    neighbour = point + steps
    inside = ((neighbour >= 0) & (neighbour < nodes)).all(axis=2)
    weights = np.array([nodes * nodes, nodes, 1])
    row = np.broadcast_to(point @ weights, inside.shape)[inside]
    column = (neighbour @ weights)[inside]
    block = np.arange(dofs)
    rows, columns = np.broadcast_arrays(
        (row * dofs)[:, None, None] + block[:, None], (column * dofs)[:, None, None] + block
    )
    size = nodes**3 * dofs
    return Entries((size, size), rows.ravel(), columns.ravel())


@generator("mesh")
def mesh2d(rng: np.random.Generator, nodes: int = 256, shuffled: bool = False) -> Entries:
    """Adjacency of ``nodes`` x ``nodes`` points triangulated by one diagonal a square: up to 6 neighbours, no diagonal.

    A structured stand-in for the planar meshes of the 10th DIMACS challenge (Bader et al. 2013; its
    delaunay_n17 has 6 neighbours on average). ``shuffled`` numbers the points at random and so destroys locality, the
    opposite of a bandwidth-reducing order (Cuthill & McKee 1969).
    """
    _require(nodes >= 2, f"mesh2d: nodes is {nodes}, but a triangle needs at least 2 an edge")
    number = np.arange(nodes * nodes)
    if shuffled:
        number = rng.permutation(number)
    grid = number.reshape(nodes, nodes)
    edges = ((grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:]), (grid[:-1, :-1], grid[1:, 1:]))
    start = np.concatenate([a.ravel() for a, _ in edges])
    end = np.concatenate([b.ravel() for _, b in edges])
    size = nodes * nodes
    return Entries((size, size), np.concatenate([start, end]), np.concatenate([end, start]))


@generator("banded")
def banded(rng: np.random.Generator, rows: int = 65536, half_width: int = 8) -> Entries:
    """Every diagonal from -``half_width`` to ``half_width`` full: the case of DIA in Bell & Garland 2009."""
    _require(rows > 0 and half_width >= 0, f"banded: {rows} rows and half width {half_width} make no band")
    column = np.arange(rows)[:, None] + np.arange(-half_width, half_width + 1)
    inside = (column >= 0) & (column < rows)
    row = np.broadcast_to(np.arange(rows)[:, None], column.shape)
    return Entries((rows, rows), row[inside], column[inside])


@generator("diagonal")
def identity(rng: np.random.Generator, size: int = 65536) -> Entries:
    """``size`` ones on the diagonal: with one coefficient for all, STREAM's SCALE (McCalpin 1995)."""
    _require(size > 0, f"identity: size is {size}, but must be positive")
    diagonal = np.arange(size, dtype=np.int32)
    return Entries((size, size), diagonal, diagonal, np.ones(size))


@generator("grid")
def stencil(rng: np.random.Generator, points: str = "2d5pt", nx: int = 64, ny: int = 64, nz: int = 1) -> Entries:
    """One step of a stencil on a grid of ``nx`` x ``ny`` x ``nz`` points, x fastest, zero outside the grid.

    ``points`` names one of the six stencils of Zhang et al. 2025, table 3 (:data:`~.stencils.STENCILS`); each of its
    offsets has one coefficient drawn from ±[0.5, 1.5). A grid too large for its entries is a matrix of
    the source :mod:`~.grids` instead.
    """
    check_grid(points, nx, ny, nz)
    size = nx * ny * nz
    offsets = STENCILS[points].offsets
    inside = np.empty((nz, ny, nx, len(offsets)), dtype=bool)
    for number, offset in enumerate(offsets):
        along = [
            (np.arange(extent) + step >= 0) & (np.arange(extent) + step < extent)
            for extent, step in zip((nz, ny, nx), offset, strict=True)
        ]
        inside[..., number] = along[0][:, None, None] & along[1][:, None] & along[2]
    on_grid = inside.reshape(size, len(offsets))
    row = np.arange(size, dtype=np.int32)
    shift = np.array([(dz * ny + dy) * nx + dx for dz, dy, dx in offsets], dtype=np.int32)
    coefficients = drawn_coefficients(rng, len(offsets))
    return Entries(
        (size, size),
        np.repeat(row, on_grid.sum(axis=1)),
        (row[:, None] + shift)[on_grid],
        np.broadcast_to(coefficients, on_grid.shape)[on_grid],
    )


# --- graphs -----------------------------------------------------------------------------------------------------------


@generator("graph")
def rmat(
    rng: np.random.Generator,
    scale: int = 14,
    edge_factor: int = 16,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
) -> Entries:
    """Directed R-MAT graph of 2^``scale`` vertices and ``edge_factor`` edges a vertex, repeated ones merged.

    Each edge chooses one of four quadrants ``scale`` times, with probabilities a, b, c and 1 - a - b - c
    (Chakrabarti, Zhan & Faloutsos 2004); the defaults are those of Graph500.
    """
    _require(1 <= scale <= 30 and edge_factor > 0, f"rmat: scale {scale} and edge factor {edge_factor} make no graph")
    _require(min(a, b, c) >= 0 and a + b + c <= 1, f"rmat: {a}, {b} and {c} are no probabilities that sum to 1 at most")
    size = 2**scale
    row, column = np.zeros((2, size * edge_factor), dtype=np.int64)
    for _ in range(scale):
        draw = rng.random(len(row))
        below = draw >= a + b
        right = ((draw >= a) & ~below) | (draw >= a + b + c)
        row = 2 * row + below
        column = 2 * column + right
    edges = np.unique(row * size + column)
    return Entries((size, size), edges // size, edges % size)


@generator("random")
def uniform(rng: np.random.Generator, rows: int = 16384, columns: int = 16384, nnz_per_row: float = 16.0) -> Entries:
    """round(``rows`` x ``nnz_per_row``) distinct entries drawn uniformly: the random graph of Erdős & Rényi 1959."""
    nnz = round(rows * nnz_per_row)
    _require(
        min(rows, columns) > 0 and 0 <= nnz <= rows * columns,
        f"uniform: {nnz} non-zeros do not fit a matrix of {rows} x {columns}",
    )
    flat = rng.choice(rows * columns, nnz, replace=False, shuffle=False)
    return Entries((rows, columns), flat // columns, flat % columns)


@generator("graph")
def powerlaw(
    rng: np.random.Generator,
    rows: int = 16384,
    columns: int = 16384,
    nnz_per_row: float = 8.0,
    exponent: float = 2.1,
    dense_rows: int = 0,
    dense_columns: int = 0,
) -> Entries:
    """Rows of lengths from a power law, p(length) ~ length^-``exponent``, in random order, and full rows and columns.

    The row of rank r has a share of r^(-1/(``exponent`` - 1)) of rows x ``nnz_per_row`` entries (Newman 2005 on ranks),
    at most all ``columns``; their columns are drawn uniformly, and repeated ones merged. The first ``dense_rows`` rows
    and the first ``dense_columns`` columns are full, as of a circuit's supply or a model's parameters.
    """
    _require(
        min(rows, columns) > 0 and nnz_per_row >= 0 and exponent > 1,
        f"powerlaw: {rows} x {columns}, {nnz_per_row} entries a row and the exponent {exponent} make no matrix",
    )
    _require(
        0 <= dense_rows <= rows and 0 <= dense_columns <= columns,
        f"powerlaw: {dense_rows} full rows and {dense_columns} full columns do not fit a matrix of {rows} x {columns}",
    )
    share = np.arange(1, rows + 1) ** (-1 / (exponent - 1))
    lengths = np.minimum(np.rint(share / share.sum() * rows * nnz_per_row), columns).astype(np.int64)
    row = np.repeat(rng.permutation(rows), lengths)
    keys = [row * columns + rng.integers(columns, size=len(row))]
    keys += [np.arange(dense_rows * columns), (np.arange(rows)[:, None] * columns + np.arange(dense_columns)).ravel()]
    entries = np.unique(np.concatenate(keys))
    return Entries((rows, columns), entries // columns, entries % columns)
