"""Small matrices to draw: every one has the values 1, 2, 3, … in row order, so that a value names its entry."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array


def numbered(pattern: np.ndarray) -> csr_array:
    """The matrix with an entry wherever ``pattern``, bool[m, k], is true; entry i in row order has the value i + 1."""
    a = csr_array(pattern.astype(float))
    a.data = np.arange(1.0, a.nnz + 1)
    return a


def of_rows(k: int, rows: Iterable[Iterable[int]]) -> csr_array:
    """The matrix of ``k`` columns whose rows have entries in these columns."""
    columns = [sorted(set(row)) for row in rows]
    pattern = np.zeros((len(columns), k), dtype=bool)
    for row, found in enumerate(columns):
        pattern[row, found] = True
    return numbered(pattern)


def plain() -> csr_array:
    """12×16: short rows, a row of nine entries, an empty row."""
    rows = [[0, 3], [1, 2, 7], [2], [0, 3, 4, 6, 8, 9, 11, 13, 15], [4, 5], [], [5, 6, 12], [7], [2, 8, 9, 14], [9, 10]]
    return of_rows(16, [*rows, [1, 10, 11, 15], [11]])


def uneven() -> csr_array:
    """20×64: short rows, an empty one, and two long ones of 52 and 30 entries."""
    random = np.random.default_rng(7)
    rows = [sorted(random.choice(64, size=size, replace=False)) for size in (3, 5, 1, 2, 4, 6, 0, 3, 2)]
    rows.append([column for column in range(64) if column % 5 != 2 or column > 60][:52])
    rows += [sorted(random.choice(64, size=size, replace=False)) for size in (2, 4, 1, 3, 5, 2, 30, 3, 1, 4)]
    return of_rows(64, rows)


def windowed() -> csr_array:
    """20×40: neighbouring rows share columns; the first sixteen rows use twenty columns."""
    used = [0, 3, 4, 9, 12, 13, 18, 21, 22, 23, 26, 27, 30, 31, 33, 34, 36, 37, 38, 39]
    rows = [[used[(2 * row + step) % 20] for step in range(3)] for row in range(8)]
    rows += [[used[(row + step) % 20] for step in range(5, 7 + row % 3)] for row in range(8, 16)]
    rows += [[5, 6], [6, 7, 16], [], [5, 16]]
    return of_rows(40, rows)


def panelled() -> csr_array:
    """70×48: neighbouring rows share columns; the first 64 rows use 44 columns, the other six use five."""
    rows: list[list[int]] = []
    for group in range(16):
        first, far = 3 * group, (3 * group + 18) % 48
        rows += [[first, first + 1], [first + 1], [first, far], [first + 2] if group < 12 else []]
    return of_rows(48, [*rows, [0, 2], [2], [], [31], [30, 31], [47]])


def banked() -> csr_array:
    """8×24: rows of twelve to eighteen entries, one of four, three of which are in one group of banks, an empty row."""
    random = np.random.default_rng(3)
    rows = [sorted(random.choice(24, size=size, replace=False)) for size in (15, 12, 0, 0, 16, 14, 13, 18)]
    rows[2] = [3, 4, 11, 19]
    return of_rows(24, rows)


def blocked() -> csr_array:
    """64×64: tiles of 16×16 that are empty, 2:4 or denser."""
    random = np.random.default_rng(11)
    pattern = np.zeros((64, 64), dtype=bool)
    for kind, row, column in (
        *(("dense", 0, 0), ("24", 0, 1), ("24", 1, 1), ("dense", 1, 3)),
        *(("24", 2, 2), ("24", 2, 3), ("24", 3, 0), ("dense", 3, 3)),
    ):
        tile = pattern[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        if kind == "dense":
            tile[:] = random.random((16, 16)) < 0.16
            tile[5, 4:7] = True  # three in a group of four: no 2:4 tile
        else:
            for place in random.choice(16 * 4, size=14, replace=False):
                first = 4 * (place % 4)
                tile[place // 4, first + random.choice(4, size=1 + place % 2, replace=False)] = True
    return numbered(pattern)


def two_four() -> csr_array:
    """16×64: at most two entries in every aligned group of four columns."""
    random = np.random.default_rng(5)
    pattern = np.zeros((16, 64), dtype=bool)
    for row in range(16):
        for group in range(16):
            count = random.choice([0, 1, 2], p=[0.3, 0.4, 0.3])
            pattern[row, 4 * group + random.choice(4, size=count, replace=False)] = True
    return numbered(pattern)


def of_all_lengths() -> csr_array:
    """26×272: a row of 262 entries, eight of five to nine, and rows of none to four."""
    random = np.random.default_rng(2)
    sizes = [2, 1, 9, 262, 3, 5, 4, 1, 7, 2, 8, 3, 0, 6, 1, 5, 3, 7, 2, 1, 6, 4, 1, 0, 2, 1]
    spread = (
        [*range(262)] if size == 262 else [int(c) for c in random.choice(272, size=size, replace=False)]
        for size in sizes
    )
    return of_rows(272, spread)


def five_point(nx: int = 8, ny: int = 4) -> csr_array:
    """A five-point stencil on a grid of ``nx`` × ``ny`` points, with the coefficients 1 to 5."""
    steps = {(-1, 0): 1.0, (0, -1): 2.0, (0, 0): 3.0, (0, 1): 4.0, (1, 0): 5.0}
    dense = np.zeros((nx * ny, nx * ny))
    for y in range(ny):
        for x in range(nx):
            for (down, right), value in steps.items():
                if 0 <= y + down < ny and 0 <= x + right < nx:
                    dense[y * nx + x, (y + down) * nx + x + right] = value
    return csr_array(dense)


def scaled(m: int = 8, q: float = 3.0) -> csr_array:
    """q·I."""
    return csr_array(np.diag(np.full(m, q)))
