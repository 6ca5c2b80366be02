"""Where the non-zeros of a matrix lie, on a coarse grid: what a spy plot draws, in a few kilobytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Most cells of the grid along a side.
CELLS = 64
_DIGITS = np.array(list("0123456789abcdefghijklmnopqrstuvwxyz"))


def occupancy(csr: csr_array) -> str:
    """The non-zeros in each cell of a grid of min(m, 64) x min(k, 64) cells, as text.

    Cell rows are separated by slashes. A digit in base 36 is the number of bits of the count: 0 for an empty cell, 1
    for one non-zero, 2 for two or three, 3 for four to seven. Row i of A lies in cell row ⌊i · cells / m⌋, and
    likewise a column.
    """
    m, k = csr.shape
    down, across = min(m, CELLS), min(k, CELLS)
    rows = np.repeat(np.arange(m, dtype=np.int64) * down // m, np.diff(csr.indptr))
    cells = rows * across + csr.indices.astype(np.int64) * across // k
    counts = np.bincount(cells, minlength=down * across).reshape(down, across)
    bits = np.frexp(counts.astype(np.float64))[1]
    return "/".join("".join(line) for line in _DIGITS[bits])
