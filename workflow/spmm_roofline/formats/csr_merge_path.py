"""CSR cut into tiles and chunks of equal work along its merge path (Merrill & Garland 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div
from .base import FormatError, Int32
from .csr import Csr

#: A kernel aligns its first load of a tile to this many entries, 128 bytes of indices.
ALIGNMENT = 32


@dataclass(frozen=True)
class CsrMergePath(Csr):
    """As :class:`Csr`, with cuts of the path that passes all entries in order, and each row's end after its entries.

    The m + nnz steps of the path are cut into tiles of ``width`` steps each. ``tile_row`` int32[tiles+1] is the
    number of rows that end before each tile; tile t begins with entry ``min(t width, m + nnz) - tile_row[t]``.
    ``steps`` consecutive tiles form a chunk. In double precision every step is 12 bytes, an entry (value and index) or
    a row (pointer and result), so all chunks cost the same whatever the row lengths. Tiles are about as wide as the
    limits of ``items`` - 31 entries and ``items`` - 2 rows per tile allow.
    """

    name: ClassVar[str] = "csr_merge_path"
    count_names: ClassVar[tuple[str, ...]] = (*Csr.count_names, "items", "tiles", "width", "chunks", "steps")

    items: int
    chunks: int
    width: int
    tile_row: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", items: int = 1536, chunks: int = 528) -> Self:
        """Pack a canonical CSR (m×k) in at most ``chunks`` chunks, each of at least ``items`` steps.

        See :meth:`Csr.from_csr`. Raises :class:`FormatError` for fewer than 64 ``items`` or 1 chunk.
        """
        if items < 2 * ALIGNMENT or chunks < 1:
            raise FormatError(
                f"{cls.name} takes at least {2 * ALIGNMENT} items per tile and at least 1 chunk, "
                f"not {items} and {chunks}"
            )
        xp = array_module(a.data)
        packed = Csr.from_csr(a, dtype)
        m = packed.shape[0]
        path = m + packed.nnz
        chunks = min(chunks, ceil_div(path, items))
        # Step of the path at which each row ends.
        end = packed.indptr[1:].astype(xp.int64) + xp.arange(m, dtype=xp.int64)
        entries, rows = items - ALIGNMENT + 1, items - 2
        # `low` tiles per chunk suffice for rows of equal length, `high` always; bisect for a number that suffices.
        whole = max(chunks, 1)
        low = max(ceil_div(packed.nnz, whole * entries), ceil_div(m, whole * rows), 1)
        high = max(ceil_div(path, whole * entries), low)
        while True:
            steps = (low + high) // 2
            width = ceil_div(path, whole * steps)
            cuts = xp.minimum(xp.arange(chunks * steps + 1, dtype=xp.int64) * width, path)
            tile_row = xp.searchsorted(end, cuts)
            if low == high:
                break
            fits = (xp.diff(tile_row) <= rows) & (xp.diff(cuts - tile_row) <= entries)
            low, high = (low, steps) if bool(fits.all()) else (steps + 1, high)
        return cls(
            packed.shape,
            packed.nnz,
            packed.dtype,
            packed.indptr,
            packed.indices,
            packed.data,
            items=items,
            chunks=chunks,
            width=width,
            tile_row=tile_row.astype(xp.int32),
        )

    def counts(self) -> dict[str, int]:
        """``items``, ``tiles`` of ``width``, ``chunks`` of ``steps`` tiles, besides the counts of every format."""
        tiles = len(self.tile_row) - 1
        own = {"items": self.items, "tiles": tiles, "width": self.width, "chunks": self.chunks}
        return {**super().counts(), **own, "steps": tiles // max(self.chunks, 1)}


FORMAT = CsrMergePath
