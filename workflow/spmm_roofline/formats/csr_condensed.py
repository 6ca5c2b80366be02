"""CSR with condensed columns: the sparse graph translation of TC-GNN (Wang et al. 2023, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, distinct, row_of_entry
from .base import Int32
from .csr import Csr

#: Rows of a window and columns of a tile.
WINDOW, TILE_K = 16, 8


@dataclass(frozen=True)
class CsrCondensed(Csr):
    """As :class:`Csr`, with windows of 16 rows; the non-empty columns of a window are numbered from 0 without gaps.

    ``condensed`` int32[nnz] is the number of an entry's column within its window (the authors' edgeToColumn), ``row``
    int32[nnz] its row (edgeToRow), and ``window_tiles`` int32[windows] the number of tiles of 16×8 condensed columns
    in each window (blockPartition). The tiles are not stored: a kernel selects their entries from those of the window.
    """

    name: ClassVar[str] = "csr_condensed"
    count_names: ClassVar[tuple[str, ...]] = (*Csr.count_names, "windows")

    condensed: Int32
    row: Int32
    window_tiles: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "tf32") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Csr.from_csr`."""
        xp = array_module(a.data)
        csr = Csr.from_csr(a, dtype)
        k = max(csr.shape[1], 1)
        windows = ceil_div(csr.shape[0], WINDOW)
        row = row_of_entry(a.indptr, csr.nnz)
        keys, position = distinct(row // WINDOW * k + a.indices)
        first = xp.searchsorted(keys, xp.arange(windows + 1, dtype=xp.int64) * k)
        condensed = position - first[row // WINDOW]
        return cls(
            csr.shape,
            csr.nnz,
            csr.dtype,
            csr.indptr,
            csr.indices,
            csr.data,
            condensed=condensed.astype(xp.int32),
            row=row.astype(xp.int32),
            window_tiles=(-(-xp.diff(first) // TILE_K)).astype(xp.int32),
        )

    @property
    def covered_slots(self) -> int:
        """Slots of the tiles, which the tensor cores multiply."""
        return WINDOW * TILE_K * self.blocks

    @property
    def blocks(self) -> int:
        """Tiles of all windows."""
        return int(self.window_tiles.sum())

    def counts(self) -> dict[str, int]:
        """``windows``, besides the counts of every format."""
        return {**super().counts(), "windows": len(self.window_tiles)}


FORMAT = CsrCondensed
