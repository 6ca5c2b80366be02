"""CSR cut into tiles of equally many entries, wherever rows end."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import FormatError, array_module, ceil_div
from .csr import Csr


@dataclass(frozen=True)
class CsrEven(Csr):
    """As :class:`Csr`, padded with zeros behind the last entry to whole tiles of ``items`` entries.

    ``tile_row`` int32[tiles+1] says how many rows have ended with the entry before each tile or earlier; tile 0 begins
    with row 0, and the last tile ends with the last row. Tiles make ``chunks`` of equally many that follow each other,
    the first few of one more: ``groups`` of them for each multiprocessor, or one a tile where there are fewer tiles.
    """

    name: ClassVar[str] = "csr_even"

    items: int
    chunks: int
    tile_row: Any

    @classmethod
    def from_csr(
        cls, a: Any, dtype: str = "float32", items: int = 1024, groups: int = 4, multiprocessors: int = 132
    ) -> Self:
        """Pack a canonical CSR (m×k) with tiles of ``items`` entries; see :meth:`Csr.from_csr`.

        ``groups`` of threads on each of ``multiprocessors`` take a chunk of tiles each.
        """
        if min(items, groups, multiprocessors) < 1:
            raise FormatError(
                f"{cls.name} has at least 1 entry a tile and 1 group on 1 multiprocessor, "
                f"not {items}, {groups} and {multiprocessors}"
            )
        xp = array_module(a.data)
        packed = Csr.from_csr(a, dtype)
        m, nnz = packed.shape[0], packed.nnz
        # Rows without any entry need a tile that clears them, but nothing is stored for it.
        tiles = max(ceil_div(nnz, items), min(m, 1))
        cuts = xp.arange(tiles + 1, dtype=xp.int64) * items
        tile_row = xp.searchsorted(packed.indptr[1:].astype(xp.int64), cuts, side="right")
        tile_row[0], tile_row[-1] = 0, m
        more = -nnz % items
        indices, data = (xp.concatenate([x, xp.zeros(more, dtype=x.dtype)]) for x in (packed.indices, packed.data))
        own = {field.name: getattr(packed, field.name) for field in dataclasses.fields(Csr)}
        return cls(
            **{**own, "indices": indices, "data": data},
            items=items,
            chunks=min(groups * multiprocessors, tiles),
            tile_row=tile_row.astype(xp.int32),
        )

    @property
    def stored_slots(self) -> int:
        return len(self.data)

    def counts(self) -> dict[str, int]:
        """``items``, ``tiles``, ``chunks`` of ``steps`` tiles, ``longer`` of them of one more; and every format's."""
        tiles = len(self.tile_row) - 1
        own = {"items": self.items, "tiles": tiles, "chunks": self.chunks}
        return {**super().counts(), **own, "steps": tiles // max(self.chunks, 1), "longer": tiles % max(self.chunks, 1)}


FORMAT = CsrEven
