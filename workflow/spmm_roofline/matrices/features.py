"""Structural features of a canonical CSR: the columns of table ``matrices`` that follow from the structure alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Rows of a tile, a row panel and a brick column.
PANEL = 16
#: 16x16 tiles along a side of a super-tile: BLOCK of Mistry 2025, section 2.4. Each doubles the one before it.
BLOCKS = (2, 4, 8)
#: Columns of a brick, and the classes of bricks by occupied slots: name → the most that a brick of the class has.
BRICK = 4
BRICK_CLASSES = {"1": 1, "2": 2, "3_to_4": 4, "5_to_8": 8, "9_to_16": 16, "17_to_32": 32, "33_to_64": 64}


def features(csr: csr_array) -> dict[str, Any]:
    """Every structural column of table ``matrices`` for a canonical ``csr`` (m, k); fractions of nothing are 0.

    Tiles and bricks are aligned at multiples of their size; those cut by the lower or right edge count with all their
    slots. Bricks are those of the matrix as it is (Xiang et al. 2024, section 1 and figure 1). α is the mean fill of a
    brick column, the modelled synergy of cuTeSpMM, which packs the active columns of a panel together (section 6.4).
    """
    m, k = csr.shape
    nnz = int(csr.nnz)
    lengths = np.diff(csr.indptr)
    median, p90, p99 = (float(value) for value in np.percentile(lengths, [50, 90, 99]))
    return {
        "m": m,
        "k": k,
        "nnz": nnz,
        "density_fraction": nnz / m / k,
        "empty_rows": int((lengths == 0).sum()),
        "nonempty_columns": _nonempty_columns(csr),
        "bandwidth": _bandwidth(csr, lengths),
        "row_length_min": int(lengths.min()),
        "row_length_mean": nnz / m,
        "row_length_median": median,
        "row_length_p90": p90,
        "row_length_p99": p99,
        "row_length_max": int(lengths.max()),
        "row_length_std": float(lengths.std()),
        **_tiles(csr, lengths),
    }


def _nonempty_columns(csr: csr_array) -> int:
    seen = np.zeros(csr.shape[1], dtype=bool)
    seen[csr.indices] = True
    return int(seen.sum())


def _bandwidth(csr: csr_array, lengths: np.ndarray) -> int:
    rows = np.flatnonzero(lengths)
    if not len(rows):
        return 0
    first = csr.indices[csr.indptr[rows]].astype(np.int64)
    last = csr.indices[csr.indptr[rows + 1] - 1].astype(np.int64)
    return int(np.maximum(np.abs(first - rows), np.abs(last - rows)).max())


def _tiles(csr: csr_array, lengths: np.ndarray) -> dict[str, Any]:
    panels, columns, counts, breaks_24 = _brick_columns(csr, lengths)
    active, nnz = len(columns), int(csr.nnz)
    row: dict[str, Any] = {}
    for width in (16, 32):
        starts = _starts(panels, columns // width)
        tiles = len(starts)
        fitting = tiles - int(np.count_nonzero(np.add.reduceat(breaks_24, starts))) if tiles else 0
        row[f"tiles_16x{width}"] = tiles
        row[f"tile_fill_16x{width}_fraction"] = nnz / (tiles * PANEL * width) if tiles else 0.0
        row[f"tile_24_16x{width}_fraction"] = fitting / tiles if tiles else 0.0
    row["alpha_fraction"] = nnz / (active * PANEL) if active else 0.0
    return row | _super_tiles(panels, columns, nnz) | _bricks(panels, columns, counts)


def _starts(panels: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """First brick column of each block of a panel: brick columns are sorted by panel, then by column."""
    return np.flatnonzero(np.r_[True, (blocks[1:] != blocks[:-1]) | (panels[1:] != panels[:-1])][: len(blocks)])


def _super_tiles(panels: np.ndarray, columns: np.ndarray, nnz: int) -> dict[str, Any]:
    """Super-tiles of BLOCK x BLOCK tiles that hold a non-zero, and their fill; each size is merged from the last."""
    starts = _starts(panels, columns // PANEL)
    rows, across = panels[starts].astype(np.int64), columns[starts].astype(np.int64) // PANEL
    row: dict[str, Any] = {}
    for block in BLOCKS:
        stride = int(across.max(initial=0)) // 2 + 1
        keys = np.sort(rows // 2 * stride + across // 2)
        keys = keys[np.r_[True, keys[1:] != keys[:-1]][: len(keys)]]
        rows, across = keys // stride, keys % stride
        side = block * PANEL
        row[f"tiles_{side}x{side}"] = len(keys)
        row[f"tile_fill_{side}x{side}_fraction"] = nnz / (len(keys) * side * side) if len(keys) else 0.0
    return row


def _bricks(panels: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """Bricks of 16 x 4 slots that hold a non-zero, their mean fill, and how many have how many occupied slots."""
    starts = _starts(panels, columns // BRICK)
    bricks, slots = len(starts), PANEL * BRICK
    occupied = np.add.reduceat(counts, starts) if bricks else counts
    classes = np.searchsorted(list(BRICK_CLASSES.values()), occupied)
    of_class = np.bincount(classes, minlength=len(BRICK_CLASSES)).tolist()
    return {
        "bricks_16x4": bricks,
        "brick_fill_16x4_fraction": int(occupied.sum()) / (bricks * slots) if bricks else 0.0,
        **{f"bricks_of_{name}": count for name, count in zip(BRICK_CLASSES, of_class, strict=True)},
    }


def _brick_columns(csr: csr_array, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Panel, column, non-zeros and breaches of 2:4 of every brick column (16 rows x 1 column) that holds a non-zero.

    Three consecutive non-zeros of a row in one aligned group of four columns breach the 2:4 rule. The breach counts for
    the column of the first of them. Because columns are sorted, comparing neighbours finds it. Joining the 16 rows of a
    panel into one CSR row turns the entries of a brick column into duplicates, which are summed: no step sorts more
    than one panel at a time. A brick column holds at most 16 non-zeros, so that one sum counts both: 32 a breach, 1 a
    non-zero.
    """
    from scipy.sparse import csr_array

    m, k = csr.shape
    group = csr.indices >> 2
    row = np.repeat(np.arange(m, dtype=np.int32), lengths)
    both = np.ones(csr.nnz, dtype=np.int32)
    both[:-2] += np.int32(32) * ((group[2:] == group[:-2]) & (row[2:] == row[:-2]))
    joined = np.append(csr.indptr[:-1:PANEL], csr.indptr[-1])
    panels = csr_array((both, csr.indices.copy(), joined), shape=(len(joined) - 1, k))
    panels.sum_duplicates()
    numbers = np.repeat(np.arange(panels.shape[0], dtype=np.int32), np.diff(panels.indptr))
    return numbers, panels.indices, panels.data & 31, panels.data >> 5
