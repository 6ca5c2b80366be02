"""Windows of eight rows in blocks, the columns of a block numbered among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from . import builder
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
from .windows import firsts_on_device

#: Rows of a window, and columns of a tile.
WINDOW, TILE_K = 8, 16
#: Windows of a block at most, the largest ``capacity``, and columns of a window alone, which ``places`` still count.
MOST_WINDOWS, MOST_CAPACITY, MOST_COLUMNS = 64, 1024, 2**16

#: The code that packs on a device, and what it shares with this module.
BUILDER = Path(__file__).with_suffix(".cu")
BUILDER_DEFINES = builder.defines(0, 1, WINDOW=WINDOW, TILE_K=TILE_K, MOST_WINDOWS=MOST_WINDOWS, CAPACITY=MOST_CAPACITY)


@dataclass(frozen=True)
class Gathered8x1(Format):
    """Tiles of windows of eight rows, 16 columns each, which say where their columns are among those of a block.

    Our own; windows of eight rows after FlashSparse (Shi et al. 2024).

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

        Raises :class:`FormatError` unless ``capacity`` is from 16 to 1,024, if eight rows have entries in more than 2¹⁶
        columns, and from 2³¹ non-zeros or 2²⁷ tiles on, which 32-bit positions do not count.
        """
        if not TILE_K <= capacity <= MOST_CAPACITY:
            raise FormatError(f"{cls.name} has room for {TILE_K} to {MOST_CAPACITY:,} columns, not {capacity}")
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        if nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {nnz:,} non-zeros")
        make = _on_host if xp is np else _on_device
        return cls((m, k), nnz, dtype, *make(a, m, k, nnz, rounded(a.data, dtype), capacity))

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


def _check_counts(tiles: int, columns: int) -> None:
    """``columns``: of the window that has entries in most."""
    if tiles >= 2**27:
        raise FormatError(f"{Gathered8x1.name} has 32-bit positions, too short for {tiles:,} tiles")
    if columns > MOST_COLUMNS:
        raise FormatError(
            f"{Gathered8x1.name} counts to {MOST_COLUMNS:,}: eight rows have entries in {columns:,} columns"
        )


def _on_host(a: Any, m: int, k: int, nnz: int, values: Any, capacity: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields."""
    windows, wide = ceil_div(m, WINDOW), max(k, 1)
    row = row_of_entry(a.indptr, nnz)
    keys, vector = distinct(row // WINDOW * wide + a.indices)
    window, column = keys // wide, keys % wide
    block = _blocks(window, column, windows, wide, capacity)
    columns, place = distinct(block[window] * wide + column)
    count = int(block[-1]) + 1 if windows else 0
    first_column = np.searchsorted(columns, np.arange(count + 1) * wide)
    first_vector = np.searchsorted(window, np.arange(windows + 1))
    vectors = np.diff(first_vector)
    first_tile = np.zeros(windows + 1, dtype=np.int64)
    first_tile[1:] = np.cumsum(-(-vectors // TILE_K))
    tiles = int(first_tile[-1])
    _check_counts(tiles, int(vectors.max(initial=0)))
    place = place - first_column[block[window]]
    slot = first_tile[window] * TILE_K + np.arange(len(keys)) - first_vector[window]
    some = vectors > 0
    places = np.repeat(place[first_vector[1:][some] - 1], (TILE_K * np.diff(first_tile))[some]).astype(np.uint16)
    places[slot] = place
    data = np.zeros((tiles, WINDOW, TILE_K), dtype=values.dtype)
    at = slot[vector]
    data[at // TILE_K, row % WINDOW, at % TILE_K] = values
    work = np.zeros((count + 1, 2), dtype=np.int32)
    work[:, 0], work[:, 1] = first_column, np.searchsorted(block, np.arange(count + 1))
    of_block = (columns % wide).astype(np.int32)
    return of_block, work, first_tile.astype(np.int32), places.reshape(tiles, TILE_K), data


def _on_device(a: Any, m: int, k: int, nnz: int, values: Any, capacity: int) -> tuple[Any, ...]:
    """What :func:`_on_host` makes, on the device and without a sort of all."""
    import cupy as xp

    windows = ceil_div(m, WINDOW)
    build = builder.launcher(BUILDER, BUILDER_DEFINES)
    indptr, indices = a.indptr.astype(xp.int32, copy=False), a.indices.astype(xp.int32, copy=False)
    before = firsts_on_device(indptr, indices, m, nnz, WINDOW)
    unique, first_tile = xp.empty(windows, dtype=xp.int32), xp.empty(windows + 1, dtype=xp.int32)
    work, numbers = xp.empty((windows + 1, 2), dtype=xp.int32), xp.zeros(4, dtype=xp.int32)
    if windows:
        given = indptr, indices, before, m, windows, capacity
        build("choose_blocks", ceil_div(windows, MOST_WINDOWS), *given, unique)
    states = builder.states(windows), builder.states(windows)
    given = indptr, before, unique, m, windows, *states
    build("count_blocks", builder.ctas(windows), *given, first_tile, work, numbers)
    count, gathered, tiles, most = numbers.get().tolist()
    _check_counts(tiles, most)
    columns, places = xp.empty(gathered, dtype=xp.int32), xp.empty((tiles, TILE_K), dtype=xp.uint16)
    data = xp.zeros((tiles, WINDOW, TILE_K), dtype=values.dtype)
    if nnz:
        given = indptr, indices, values, before, first_tile, work, m, capacity
        build(f"fill_{8 * values.itemsize}", count, *given, columns, places, data)
    return columns, work[: count + 1], first_tile, places, data


def _blocks(window: Any, column: Any, windows: int, wide: int, capacity: int) -> Any:
    """The block of each window, int64[windows]; ``window`` and ``column`` are those of all vectors."""
    size = MOST_WINDOWS
    chosen = np.zeros(windows, dtype=np.int64)
    while size:
        open_ = chosen[window] == 0
        keys, _ = distinct(window[open_] // size * wide + column[open_])
        counts = np.bincount(keys // wide, minlength=ceil_div(windows, size))
        fits = ((counts <= capacity) | (size == 1))[np.arange(windows) // size] & (chosen == 0)
        chosen[fits] = size
        size //= 2
    return np.cumsum(np.arange(windows) % chosen == 0) - 1


FORMAT = Gathered8x1
