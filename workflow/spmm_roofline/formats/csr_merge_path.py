"""CSR cut into tiles of equal work along its merge path (Merrill & Garland 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import FormatError, array_module, ceil_div
from .csr import Csr


@dataclass(frozen=True)
class CsrMergePath(Csr):
    """As :class:`Csr`, with cuts of the path that passes every entry in order, and after its last one the end of a row.

    A path of m + nnz steps is cut into tiles of ``items`` steps. ``tile_row`` int32[tiles+1] says how many rows have
    ended before each tile; tile t begins at entry ``t items - tile_row[t]``. ``split_row`` int32[…] are the rows with
    entries before the tile in which they end: tiles ``split_first`` to ``split_last`` - 1, int32[…] each, hold parts of
    them. ``crossing`` int32[tiles+1]: which of those rows goes on from the tile before into each tile, or -1. Neither
    long rows nor runs of empty ones make a tile larger.
    """

    name: ClassVar[str] = "csr_merge_path"

    items: int
    tile_row: Any
    split_row: Any
    split_first: Any
    split_last: Any
    crossing: Any

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", items: int = 2048) -> Self:
        """Pack a canonical CSR (m×k) with tiles of ``items`` entries and rows; see :meth:`Csr.from_csr`."""
        if items < 1:
            raise FormatError(f"{cls.name} has tiles of at least 1 item, not {items}")
        xp = array_module(a.data)
        packed = Csr.from_csr(a, dtype)
        m, steps = packed.shape[0], packed.shape[0] + packed.nnz
        tiles = ceil_div(steps, items)
        rows = xp.arange(m, dtype=xp.int64)
        # A row's first entry and its end on the path, where the ends of the rows before it have passed.
        first = packed.indptr[:-1] + rows
        end = packed.indptr[1:] + rows
        cuts = xp.minimum(xp.arange(tiles + 1, dtype=xp.int64) * items, steps)
        split = xp.flatnonzero(first // items != end // items)
        tile_row = xp.searchsorted(end, cuts)
        which = xp.minimum(xp.searchsorted(split, tile_row), max(len(split) - 1, 0))
        crossing = xp.full(tiles + 1, -1, dtype=xp.int32)
        if len(split):
            begun = (split[which] == tile_row) & (first[split[which]] // items < xp.arange(tiles + 1))
            crossing = xp.where(begun, which, crossing).astype(xp.int32)
        return cls(
            packed.shape,
            packed.nnz,
            packed.dtype,
            packed.indptr,
            packed.indices,
            packed.data,
            items=items,
            tile_row=tile_row.astype(xp.int32),
            split_row=split.astype(xp.int32),
            split_first=(first[split] // items).astype(xp.int32),
            split_last=(end[split] // items).astype(xp.int32),
            crossing=crossing,
        )

    def counts(self) -> dict[str, int]:
        """``items``, ``tiles`` and ``split_rows``, beside the counts of every format."""
        own = {"items": self.items, "tiles": len(self.tile_row) - 1, "split_rows": len(self.split_row)}
        return {**super().counts(), **own}


FORMAT = CsrMergePath
