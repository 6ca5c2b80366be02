"""Blocked CSR of tall blocks, whose tiles lie as the lanes of a warp hold them (PTX ISA, wgmma and sparse wgmma).

Hopper multiplies 64 rows at a time, and all of them share the rows of B that a block covers. A dense tile is the sum
of two 2:4 tiles, columns 0 and 1 of each group of four and columns 2 and 3: sparse products alone serve both classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .arrays import array_module, ceil_div, csr_of_entries, distinct, row_of_entry
from .base import FormatError, Int32, UInt32, Values
from .blocks import BlockFormat, Blocks, entries
from .items import cost_of, items_of
from .two_four import NIBBLES, entries_24, split

#: Rows and columns of a tile, and columns of a half: the operand of one warp in one product.
TILE_M, TILE_K, HALF_K = 16, 32, 16
#: A panel is cut if it has more blocks than so many shares of a CTA, and more than the least, because partial sums take
#: time to add up. With 48, matrices of few panels waited for one of them while most multiprocessors were idle.
SHARES, LEAST_CUT = 2, 16
#: Metadata of the two halves of a dense tile: columns 0 and 1 of every group of four, and columns 2 and 3.
FIRST_PAIR, SECOND_PAIR = (int(NIBBLES[bits]) * 0x1111_1111 for bits in (0b0011, 0b1100))


@dataclass(frozen=True)
class BcsrPanels(BlockFormat):
    """Blocks of ``panel`` × 32, in rows of blocks; of a block only the 16×32 tiles that hold an entry are stored.

    - ``indptr`` int32[2·block_rows + 1]: a row of blocks is two runs, of blocks whose tiles all are one half, then of
      others;
    - ``indices`` int32[blocks]: columns in units of blocks, sorted within a run;
    - ``tiles`` int32[blocks, panel / 16]: -1 for a tile without an entry, else 2h if the tile is half h, and 2h + 1 if
      it is halves h and h + 1. The halves of a block follow each other;
    - ``data`` dtype[halves, 32, 8]: the four registers of lane 4g + t, each two neighbouring values of a 16×16 matrix:
      from column 2t of row g, the same of row g + 8, from column 2t + 8 of row g, and of row g + 8;
    - ``metadata`` uint32[halves, 8, 2]: see :func:`~.two_four.metadata_words`.

    - ``work`` int32[items, 4]: a panel, or a part of a long one: first block, the block after its last one, panel, and
      its partial sum as an index in ``cut``, or -1. Long items come first;
    - ``cut`` int32[partials, 4]: first partial sum of the same panel, their number, the panel, and 0.

    With ``two_four`` a 2:4 tile is one half, its kept values, and a dense tile two: of each group of four columns the
    first pair and the second one. Without it every tile is two halves, its left and its right columns, and ``metadata``
    is empty.
    """

    name: ClassVar[str] = "bcsr_panels"
    count_names: ClassVar[tuple[str, ...]] = (*BlockFormat.count_names, "items", "partials")

    indptr: Int32
    indices: Int32
    tiles: Int32
    data: Values
    metadata: UInt32
    work: Int32
    cut: Int32

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float16",
        panel: int = 64,
        two_four: bool = True,
        ctas: int = 1,
        multiprocessors: int = 1,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Panels are cut that would keep one of ``ctas`` CTAs per multiprocessor much longer than the others. Raises
        :class:`FormatError` unless ``panel`` is a multiple of 64, the rows of a product.
        """
        if panel <= 0 or panel % 64:
            raise FormatError(f"{cls.name} has panels of a multiple of 64 rows, not {panel}")
        xp = array_module(a.data)
        found = Blocks.of(a, TILE_M, TILE_K)
        count, across, high = len(found.indices), max(found.grid[1], 1), panel // TILE_M
        tile_row = row_of_entry(found.indptr, count)
        keys, block = distinct(tile_row // high * across + found.indices)
        if two_four:
            is_24, packed = split(found, a.data, dtype)
            dense = packed["data"].reshape(-1, TILE_M, TILE_K // 4, 2, 2).transpose(0, 3, 1, 2, 4)
        else:
            is_24 = xp.zeros(count, dtype=bool)
            dense = found.dense(a.data, dtype).reshape(-1, TILE_M, 2, HALF_K).transpose(0, 2, 1, 3)
        # Runs: blocks that one product serves, then those with a tile of two halves.
        run = keys // across * 2
        run[block[~is_24]] |= 1
        order = xp.argsort(run * across + keys % across)
        place = xp.empty_like(order)
        place[order] = xp.arange(len(order))
        # The halves of a block follow each other.
        in_order = xp.argsort(place[block] * high + tile_row % high)
        ends = xp.cumsum(2 - is_24[in_order].astype(xp.int64))
        first = xp.empty_like(ends)
        first[in_order] = ends - 2 + is_24[in_order]
        halves = xp.empty((int(ends[-1]) if count else 0, TILE_M, HALF_K), dtype=dense.dtype)
        metadata = xp.empty((len(halves) if two_four else 0, 8, 2), dtype=xp.uint32)
        for pair, words in enumerate((FIRST_PAIR, SECOND_PAIR)):
            halves[first[~is_24] + pair] = dense[:, pair].reshape(-1, TILE_M, HALF_K)
            if two_four:
                metadata[first[~is_24] + pair] = words
        if two_four:
            halves[first[is_24]], metadata[first[is_24]] = packed["data24"], packed["metadata"]
        tiles = xp.full((len(keys), high), -1, dtype=xp.int32)
        tiles[place[block], tile_row % high] = 2 * first + ~is_24
        runs = xp.arange(2 * ceil_div(int(a.shape[0]), panel) + 1)
        indptr = xp.searchsorted(run[order], runs).astype(xp.int32)
        work, cut = _work(indptr[::2], ctas * multiprocessors)
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=indptr,
            indices=(keys[order] % across).astype(xp.int32),
            tiles=tiles,
            data=_lanes(halves),
            metadata=metadata,
            work=work,
            cut=cut,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the halves and the metadata."""
        xp = array_module(self.tiles)
        row_of_block = row_of_entry(self.indptr, self.blocks) // 2
        block, within = xp.nonzero(self.tiles >= 0)
        code = self.tiles[block, within]
        of_half = xp.zeros(len(self.data), dtype=xp.int64)
        for second in (0, 1):
            has = code % 2 >= second
            of_half[code[has] // 2 + second] = xp.flatnonzero(has) * 2 + second
        tile, second = of_half // 2, of_half % 2
        rows = row_of_block[block[tile]] * self.tiles.shape[1] + within[tile]
        columns = self.indices[block[tile]].astype(xp.int64)
        halves = _rows(self.data)
        if len(self.metadata):
            placed = entries_24(halves, self.metadata, rows, columns, self.dtype)
        else:
            placed = entries(halves, rows, 2 * columns + second, self.dtype)
        return csr_of_entries(*placed, self.shape)

    @property
    def block_shape(self) -> tuple[int, int]:
        return self.tiles.shape[1] * TILE_M, TILE_K

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def covered_slots(self) -> int:
        """Slots of the tiles that are stored; the other tiles of a block are not."""
        return int((self.tiles >= 0).sum()) * TILE_M * TILE_K

    @property
    def blocks(self) -> int:
        return len(self.indices)

    def counts(self) -> dict[str, int]:
        """``items`` of work, and ``partials`` of cut panels, besides the counts of every format of blocks."""
        return {**super().counts(), "items": len(self.work), "partials": len(self.cut)}


def _work(begins: Any, ctas: int) -> tuple[Any, Any]:
    """``work`` and ``cut`` of panels whose blocks begin at ``begins``, int32[block_rows+1], for so many CTAs at once.

    Items of similar length stay in the order of their panels, whose neighbours read the same rows of B.
    """
    xp = array_module(begins)
    host = begins if xp is np else begins.get()
    most = max(SHARES * cost_of(host) // ctas, LEAST_CUT)
    parts = np.maximum(ceil_div(np.diff(host), most), 1)
    work, cut = items_of(host.astype(np.int64), parts.astype(np.int64))
    magnitude = np.frexp(work[:, 1] - work[:, 0])[1]
    return xp.asarray(work[np.argsort(-magnitude, kind="stable")]), xp.asarray(cut)


def _lanes(halves: Any) -> Any:
    """Matrices [halves, 16, 16] as the lanes of a warp hold them, [halves, 32, 8]."""
    # Axes: half, half of its rows, row g; half of its columns, register t, value.
    lanes = halves.reshape(-1, 2, 8, 2, 4, 2).transpose(0, 2, 4, 3, 1, 5)
    return array_module(halves).ascontiguousarray(lanes).reshape(-1, 32, 8)


def _rows(lanes: Any) -> Any:
    """The inverse of :func:`_lanes`."""
    rows = lanes.reshape(-1, 8, 4, 2, 2, 2).transpose(0, 4, 1, 3, 2, 5)
    return array_module(lanes).ascontiguousarray(rows).reshape(-1, TILE_M, HALF_K)


FORMAT = BcsrPanels
