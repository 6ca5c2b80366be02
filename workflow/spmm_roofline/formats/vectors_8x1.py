"""Columns of eight rows with an entry, sixteen to a tile: the sparse matrix as the narrow operand of a product.

After FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025): with operands swapped, the sparse matrix is the
8-wide operand of an mma, and half as many zeros are stored as with 16 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from .base import (
    Format,
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
#: Chunks that each multiprocessor should have, and tiles that a chunk has at least.
CHUNKS_EACH, LEAST_SHARE = 4, 16
#: Parts that a window is cut into at most.
PARTS_MOST = 64


@dataclass(frozen=True)
class Vectors8x1(Format):
    """Windows of 8 rows, tiles of 16 of their columns, and a list of pieces of work in the order of the rows.

    - ``columns`` int32[tiles, 16]: the columns of a tile, ascending; -1 where the window has no more;
    - ``data`` dtype[tiles, 8, 16]: their values, row by row;
    - ``items`` int32[items, 4]: a window, its tiles from the second to before the third, and which part of a window
      that is cut this is, or -1. Windows of more than ``most`` tiles are cut;
    - ``chunks`` int32[chunks + 1]: the first item of each chunk, about equal shares of the work, and their number;
    - ``cut`` int32[parts, 4]: of each part the number of its window among those that are cut, the window's first part
      and how many it has; the last is 0.
    """

    name: ClassVar[str] = "vectors_8x1"

    columns: Any
    data: Any
    items: Any
    chunks: Any
    cut: Any
    most: int
    share: int

    @classmethod
    def from_csr(
        cls, a: Any, dtype: str = "float16", most: int = 16, share: int = 64, multiprocessors: int = 1
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        ``most`` tiles are one piece of work. A chunk has about ``share`` tiles, or less where a device with so many
        ``multiprocessors`` would not have :data:`CHUNKS_EACH` of them each.
        """
        xp = array_module(a.data)
        if xp is not np:
            return cls._on_device(a, dtype, most, share, multiprocessors)
        m, k, nnz = int(a.shape[0]), max(int(a.shape[1]), 1), int(a.nnz)
        windows = ceil_div(m, WINDOW)
        row = row_of_entry(a.indptr, nnz)
        keys, vector = distinct(row // WINDOW * k + a.indices)
        first = xp.searchsorted(keys, xp.arange(windows + 1, dtype=xp.int64) * k)
        tiles = -(-xp.diff(first) // TILE_K)
        tile_of = xp.zeros(windows + 1, dtype=xp.int64)
        tile_of[1:] = xp.cumsum(tiles)
        count = int(tile_of[-1])
        # A vector's slot: its window's first one, and its place among the vectors of the window.
        window = keys // k
        slot = tile_of[window] * TILE_K + xp.arange(len(keys)) - first[window]
        columns = xp.full(count * TILE_K, -1, dtype=xp.int32)
        columns[slot] = (keys - window * k).astype(xp.int32)
        values = rounded(a.data, dtype)
        data = xp.zeros((count, WINDOW, TILE_K), dtype=values.dtype)
        place = slot[vector]
        data[place // TILE_K, row % WINDOW, place % TILE_K] = values
        items, cut = _work(xp, tile_of, most)
        # A piece costs its tiles and, for its rows of C, about as much as a tile more.
        cost = xp.zeros(len(items) + 1, dtype=xp.int64)
        cost[1:] = xp.cumsum(items[:, 2] - items[:, 1] + 1)
        share = _share(int(cost[-1]), share, multiprocessors)
        goals = xp.arange(ceil_div(int(cost[-1]), share) + 1) * share
        chunks = xp.searchsorted(cost[:-1], goals).astype(xp.int32)
        return cls(
            shape=(m, int(a.shape[1])),
            nnz=nnz,
            dtype=dtype,
            columns=columns.reshape(count, TILE_K),
            data=data,
            items=items,
            chunks=chunks,
            cut=cut,
            most=most,
            share=share,
        )

    @classmethod
    def _on_device(cls, a: Any, dtype: str, most: int, share: int, multiprocessors: int) -> Self:
        """The same arrays, made on the device without a sort."""
        import cupy as xp

        m, nnz = int(a.shape[0]), int(a.nnz)
        windows = ceil_div(m, WINDOW)
        indptr, indices = a.indptr.astype(xp.int32, copy=False), a.indices.astype(xp.int32, copy=False)
        values = rounded(a.data, dtype)
        build = _builder()
        by_row = (ceil_div(8 * m, 256),), (256,)
        by_window = (ceil_div(windows, 256),), (256,)
        before = xp.zeros(nnz + 1, dtype=xp.int32)
        tiles = xp.zeros(windows, dtype=xp.int32)
        begins = xp.zeros((windows + 1, 4), dtype=xp.int32)
        if m:
            first = xp.empty(nnz, dtype=xp.int32)
            build("mark_first", *by_row, indptr, indices, m, first)
            xp.cumsum(first, out=before[1:])
            build("count_tiles", *by_window, indptr, before, m, windows, tiles)
            build("place_windows", (1,), (1024,), tiles, windows, most, PARTS_MOST, begins)
        count, pieces, parts, _ = (int(number) for number in begins[-1].get())
        cost = count + pieces
        share = _share(cost, share, multiprocessors)
        chunk_count = ceil_div(cost, share)
        columns = xp.full((count, TILE_K), -1, dtype=xp.int32)
        data = xp.zeros((count, WINDOW, TILE_K), dtype=values.dtype)
        items, cut = xp.empty((pieces, 4), dtype=xp.int32), xp.empty((parts, 4), dtype=xp.int32)
        chunks = xp.zeros(chunk_count + 1, dtype=xp.int32)
        if m:
            build(f"place_{8 * values.itemsize}", *by_row, indptr, indices, values, before, begins, m, columns, data)
            build("list_pieces", *by_window, begins, windows, most, PARTS_MOST, share, chunk_count, items, cut, chunks)
        return cls(
            shape=(m, int(a.shape[1])),
            nnz=nnz,
            dtype=dtype,
            columns=columns,
            data=data,
            items=items,
            chunks=chunks,
            cut=cut,
            most=most,
            share=share,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        # Pieces of a window lie one behind the other: the piece of a tile is the last one that begins at or before it.
        order = xp.argsort(self.items[:, 1] * 2 + (self.items[:, 2] > self.items[:, 1]))
        begins = self.items[order, 1]
        window_of = self.items[order, 0].astype(xp.int64)[
            xp.searchsorted(begins, xp.arange(len(self.columns)), side="right") - 1
        ]
        slot = nonzero_slots(self.data)
        tile, within = slot // (WINDOW * TILE_K), slot % (WINDOW * TILE_K)
        rows = window_of[tile] * WINDOW + within // TILE_K
        columns = self.columns[tile, within % TILE_K]
        return csr_of_entries(rows, columns, widened(self.data.reshape(-1)[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Tiles."""
        return len(self.columns)

    def counts(self) -> dict[str, int]:
        """``chunk_count``, windows ``cut_windows`` that are cut and ``parts`` of them, beside the usual counts."""
        cut_windows = int(self.cut[-1, 0]) + 1 if len(self.cut) else 0
        return {
            **super().counts(),
            "chunk_count": len(self.chunks) - 1,
            "cut_windows": cut_windows,
            "parts": len(self.cut),
        }


def _share(cost: int, share: int, multiprocessors: int) -> int:
    """Cost of a chunk: ``share``, or less where the device would not be full."""
    return max(min(share, cost // (CHUNKS_EACH * multiprocessors)), LEAST_SHARE)


@cache
def _builder() -> Callable[..., None]:
    """Launches a function of the CUDA code beside this module: name, grid, block, arguments."""
    import cupy

    module = cupy.RawModule(code=Path(__file__).with_suffix(".cu").read_text(), options=("--std=c++17",))

    def launch(name: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> None:
        numbers = (np.int32(value) if isinstance(value, int) else value for value in arguments)
        module.get_function(name)(grid, block, tuple(numbers))

    return launch


def _work(xp: Any, tile_of: Any, most: int) -> tuple[Any, Any]:
    """``items`` and ``cut`` of windows whose tiles begin at ``tile_of``."""
    tiles = xp.diff(tile_of)
    # One warp adds the parts of a window up, so that they must not be too many.
    most = xp.maximum(most, -(-tiles // PARTS_MOST))
    pieces = xp.maximum(-(-tiles // most), 1)
    before = xp.cumsum(pieces) - pieces
    total = int(pieces.sum()) if len(pieces) else 0
    # Which window a piece belongs to: how many windows have begun up to it.
    begun = xp.zeros(total + 1, dtype=xp.int64)
    begun[before] = 1
    window = (xp.cumsum(begun)[:total] - 1) if total else xp.zeros(0, dtype=xp.int64)
    number = xp.arange(total) - before[window]
    begin = tile_of[window] + number * most[window]
    end = xp.minimum(begin + most[window], tile_of[window + 1])
    is_cut = pieces[window] > 1
    part = xp.where(is_cut, xp.cumsum(is_cut) - 1, -1)
    items = xp.stack([window, begin, end, part], axis=1).astype(xp.int32)
    of = xp.cumsum(pieces > 1) - 1
    owner = window[is_cut]
    first_part = xp.cumsum(xp.where(pieces > 1, pieces, 0)) - pieces
    cut = xp.stack([of[owner], first_part[owner], pieces[owner], xp.zeros_like(owner)], axis=1)
    return items, cut.astype(xp.int32)


FORMAT = Vectors8x1
