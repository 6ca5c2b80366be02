"""Windows of eight rows in blocks, the columns of a block numbered among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .base import (
    Format,
    FormatError,
    array_module,
    ceil_div,
    csr_of_entries,
    distinct,
    nonzero_slots,
    rounded,
    row_of_entry,
    widened,
)

#: Rows of a window, and columns of a tile.
WINDOW, TILE_K = 8, 16
#: Windows of a block at most.
MOST_WINDOWS = 64


@dataclass(frozen=True)
class Gathered8x1(Format):
    """Tiles of windows of eight rows, 16 columns each, which say where their columns are among those of a block.

    A block is 2, 4, … up to 64 windows, as many as have entries in no more than ``capacity`` columns; or one window.

    - ``columns`` int32[gathered]: the columns in which a block has entries, ascending, block after block;
    - ``work`` int32[blocks+1, 2]: the first one of a block's columns, and its first window;
    - ``windows`` int32[windows+1]: the first tile of a window;
    - ``places`` uint16[tiles, 16]: which of the block's columns are those of a tile; where the window has no more, its
      last one again;
    - ``data`` dtype[tiles, 8, 16]: their values, row by row.
    """

    name: ClassVar[str] = "gathered_8x1"

    columns: Any
    work: Any
    windows: Any
    places: Any
    data: Any

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", capacity: int = 384) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` if eight rows have entries in 2¹⁶ columns or more, and from 2³¹ non-zeros or 2²⁷
        tiles on, which ``places`` and 32-bit positions do not count.
        """
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        if nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {nnz:,} non-zeros")
        windows, wide = ceil_div(m, WINDOW), max(k, 1)
        row = row_of_entry(a.indptr, nnz)
        keys, vector = distinct(row // WINDOW * wide + a.indices)
        window, column = keys // wide, keys % wide
        block = _blocks(xp, window, column, windows, wide, capacity)
        columns, place = distinct(block[window] * wide + column)
        count = int(block[-1]) + 1 if windows else 0
        first_column = xp.searchsorted(columns, xp.arange(count + 1) * wide)
        first_vector = xp.searchsorted(window, xp.arange(windows + 1))
        first_tile = xp.zeros(windows + 1, dtype=np.int64)
        vectors = xp.diff(first_vector)
        first_tile[1:] = xp.cumsum(-(-vectors // TILE_K))
        tiles = int(first_tile[-1])
        if tiles >= 2**27:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {tiles:,} tiles")
        place = place - first_column[block[window]]
        if len(place) and int(place.max()) >= 2**16:
            raise FormatError(f"{cls.name}: eight rows have entries in {int(place.max()) + 1:,} columns, too many")
        slot = first_tile[window] * TILE_K + xp.arange(len(keys)) - first_vector[window]
        # Of a tile with less than 16 columns the last one of its window, which has some.
        owner = xp.searchsorted(first_tile, xp.arange(tiles), side="right") - 1
        places = xp.empty((tiles, TILE_K), dtype=np.uint16)
        places[:] = place[first_vector[1:][owner] - 1][:, None]
        places.reshape(-1)[slot] = place
        values = rounded(a.data, dtype)
        data = xp.zeros((tiles, WINDOW, TILE_K), dtype=values.dtype)
        at = slot[vector]
        data[at // TILE_K, row % WINDOW, at % TILE_K] = values
        work = xp.zeros((count + 1, 2), dtype=np.int32)
        work[:, 0] = first_column
        work[:, 1] = xp.searchsorted(block, xp.arange(count + 1))
        return cls(
            (m, k),
            nnz,
            dtype,
            (columns % wide).astype(np.int32),
            work,
            first_tile.astype(np.int32),
            places,
            data,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        slot = nonzero_slots(self.data)
        tile, within = slot // (WINDOW * TILE_K), slot % (WINDOW * TILE_K)
        window = xp.searchsorted(self.windows, tile, side="right") - 1
        block = xp.searchsorted(self.work[:, 1], window, side="right") - 1
        column = self.columns[self.work[block, 0] + self.places[tile, within % TILE_K]]
        values = widened(self.data.reshape(-1)[slot], self.dtype)
        return csr_of_entries(window * WINDOW + within // TILE_K, column, values, self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Blocks of windows."""
        return len(self.work) - 1


def _blocks(xp: Any, window: Any, column: Any, windows: int, wide: int, capacity: int) -> Any:
    """The block of each window, int64[windows]; ``window`` and ``column`` are those of all vectors."""
    size = MOST_WINDOWS
    chosen = xp.zeros(windows, dtype=np.int64)
    while size:
        open_ = chosen[window] == 0
        keys, _ = distinct(window[open_] // size * wide + column[open_])
        counts = xp.bincount(keys // wide, minlength=ceil_div(windows, size))
        fits = ((counts <= capacity) | (size == 1))[xp.arange(windows) // size] & (chosen == 0)
        chosen[fits] = size
        size //= 2
    return xp.cumsum(xp.arange(windows) % chosen == 0) - 1


FORMAT = Gathered8x1
