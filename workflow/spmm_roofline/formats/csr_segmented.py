"""CSR with a list of row segments: full segments of long rows first, then the rest (Pang et al. 2024, RoDe)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, row_of_entry
from .base import FormatError, Int32
from .csr import Csr, padded_to_fours


@dataclass(frozen=True)
class CsrSegmented(Csr):
    """As :class:`Csr` with ``indices`` and ``data`` padded to a multiple of four, and a list of row segments.

    A row of more than ``segment`` entries is cut into full segments of that length and a residue; every other row with
    an entry is one segment. ``segment_row``, ``segment_start`` and ``segment_end`` int32[segments] give the row, the
    first entry and the entry after the last: all full segments first, then the rest, both in row order.
    ``segment_row`` is ~row (negative) where the row has other segments. ``split_rows`` int32[…] are the rows of several
    segments, whose sums are added up in C, and the empty rows: a kernel expects these rows of C to be cleared.
    """

    name: ClassVar[str] = "csr_segmented"
    count_names: ClassVar[tuple[str, ...]] = (*Csr.count_names, "segments", "split_rows_count")

    segment_row: Int32
    segment_start: Int32
    segment_end: Int32
    split_rows: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", segment: int = 512) -> Self:
        """Pack a canonical CSR (m×k) in segments of ``segment`` entries; see :meth:`Csr.from_csr`."""
        if segment < 1:
            raise FormatError(f"{cls.name} cuts rows into segments of at least 1 entry, not {segment}")
        xp = array_module(a.data)
        packed = padded_to_fours(Csr.from_csr(a, dtype))
        starts = packed.indptr.astype(xp.int64)
        segments = -(-xp.diff(starts) // segment)
        first = xp.zeros(len(segments) + 1, dtype=xp.int64)
        first[1:] = xp.cumsum(segments)
        count = int(first[-1])
        row = row_of_entry(first, count)
        start = starts[row] + (xp.arange(count, dtype=xp.int64) - first[row]) * segment
        end = xp.minimum(start + segment, starts[row + 1])
        residue = end - start < segment
        order = xp.argsort(xp.where(residue, count, 0) + xp.arange(count, dtype=xp.int64))
        coded = xp.where(segments[row] > 1, ~row, row)
        return cls(
            packed.shape,
            packed.nnz,
            packed.dtype,
            packed.indptr,
            packed.indices,
            packed.data,
            segment_row=coded[order].astype(xp.int32),
            segment_start=start[order].astype(xp.int32),
            segment_end=end[order].astype(xp.int32),
            split_rows=xp.flatnonzero(segments != 1).astype(xp.int32),
        )

    def counts(self) -> dict[str, int]:
        """``segments`` and ``split_rows_count``, besides the counts of every format."""
        return {**super().counts(), "segments": len(self.segment_row), "split_rows_count": len(self.split_rows)}


FORMAT = CsrSegmented
