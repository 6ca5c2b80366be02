"""CSR with a list of pieces of rows: segments of long rows, then what is left (Pang et al. 2024, RoDe)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import FormatError, array_module, row_of_entry
from .csr import Csr, padded_to_fours


@dataclass(frozen=True)
class CsrSegmented(Csr):
    """As :class:`Csr` with ``indices`` and ``data`` padded to a multiple of four, and a list of pieces of rows.

    A row of more than ``segment`` entries is cut into segments of that length and a residue; every other row with an
    entry is one piece. ``piece_row``, ``piece_start`` and ``piece_end`` int32[pieces] say whose entries they are: all
    full segments first, then the rest, both in row order. ``split_rows`` int32[…] are the rows of more than one
    piece, whose parts are added up in C, and those of none: their row of C has to be cleared before.
    ``piece_row`` is ~row (negative) where the row has other pieces.
    """

    name: ClassVar[str] = "csr_segmented"

    piece_row: Any
    piece_start: Any
    piece_end: Any
    split_rows: Any

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", segment: int = 512) -> Self:
        """Pack a canonical CSR (m×k) in segments of ``segment`` entries; see :meth:`Csr.from_csr`."""
        if segment < 1:
            raise FormatError(f"{cls.name} cuts rows into segments of at least 1 entry, not {segment}")
        xp = array_module(a.data)
        packed = padded_to_fours(Csr.from_csr(a, dtype))
        starts = packed.indptr.astype(xp.int64)
        pieces = -(-xp.diff(starts) // segment)
        first = xp.zeros(len(pieces) + 1, dtype=xp.int64)
        first[1:] = xp.cumsum(pieces)
        count = int(first[-1])
        row = row_of_entry(first, count)
        start = starts[row] + (xp.arange(count, dtype=xp.int64) - first[row]) * segment
        end = xp.minimum(start + segment, starts[row + 1])
        residue = end - start < segment
        order = xp.argsort(xp.where(residue, count, 0) + xp.arange(count, dtype=xp.int64))
        coded = xp.where(pieces[row] > 1, ~row, row)
        return cls(
            packed.shape,
            packed.nnz,
            packed.dtype,
            packed.indptr,
            packed.indices,
            packed.data,
            piece_row=coded[order].astype(xp.int32),
            piece_start=start[order].astype(xp.int32),
            piece_end=end[order].astype(xp.int32),
            split_rows=xp.flatnonzero(pieces != 1).astype(xp.int32),
        )

    def counts(self) -> dict[str, int]:
        """``pieces`` and ``split_rows_count``, beside the counts of every format."""
        return {**super().counts(), "pieces": len(self.piece_row), "split_rows_count": len(self.split_rows)}


FORMAT = CsrSegmented
