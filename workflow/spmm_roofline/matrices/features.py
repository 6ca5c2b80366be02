"""Structural features of a canonical CSR: the columns of table ``matrices`` that follow from the structure alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Rows of a tile, a row panel and a brick column.
PANEL = 16


def features(csr: csr_array) -> dict[str, Any]:
    """Every structural column of table ``matrices`` for a canonical ``csr`` (m, k); fractions of nothing are 0.

    Tiles are aligned at multiples of their size; those cut by the lower or right edge count with all their slots. α is
    the mean fill of a brick column, the modelled synergy of cuTeSpMM (Xiang et al. 2024, section 6.4).
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
    panels, columns, breaks_24 = _brick_columns(csr, lengths)
    active, nnz = len(columns), int(csr.nnz)
    row: dict[str, Any] = {}
    for width in (16, 32):
        tile = columns // width
        # Brick columns are sorted by panel, then by column: a tile starts where either changes.
        starts = np.flatnonzero(np.r_[True, (tile[1:] != tile[:-1]) | (panels[1:] != panels[:-1])][:active])
        tiles = len(starts)
        fitting = tiles - int(np.count_nonzero(np.add.reduceat(breaks_24, starts))) if tiles else 0
        row[f"tiles_16x{width}"] = tiles
        row[f"tile_fill_16x{width}_fraction"] = nnz / (tiles * PANEL * width) if tiles else 0.0
        row[f"tile_24_16x{width}_fraction"] = fitting / tiles if tiles else 0.0
    row["alpha_fraction"] = nnz / (active * PANEL) if active else 0.0
    return row


def _brick_columns(csr: csr_array, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Panel, column and number of breaches of 2:4 for every brick column (16 rows x 1 column) that holds a non-zero.

    Three consecutive non-zeros of a row in one aligned group of four columns breach the 2:4 rule. The breach counts for
    the column of the first of them. Because columns are sorted, comparing neighbours finds it. Joining the 16 rows of a
    panel into one CSR row turns the entries of a brick column into duplicates, which are summed: no step sorts more
    than one panel at a time.
    """
    from scipy.sparse import csr_array

    m, k = csr.shape
    group = csr.indices >> 2
    row = np.repeat(np.arange(m, dtype=np.int32), lengths)
    breach = np.zeros(csr.nnz, dtype=np.int32)
    breach[:-2] = (group[2:] == group[:-2]) & (row[2:] == row[:-2])
    joined = np.append(csr.indptr[:-1:PANEL], csr.indptr[-1])
    panels = csr_array((breach, csr.indices.copy(), joined), shape=(len(joined) - 1, k))
    panels.sum_duplicates()
    return np.repeat(np.arange(panels.shape[0], dtype=np.int32), np.diff(panels.indptr)), panels.indices, panels.data
