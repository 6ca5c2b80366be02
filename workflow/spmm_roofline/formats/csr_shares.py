"""CSR in pieces of rows of about equal cost, and equal shares of the pieces for all CTAs."""

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
    csr_of_entries,
    nonzero_slots,
    rounded,
    row_of_entry,
    widened,
)

#: Cost of a row of C, in entries.
ROW_COST = 1
#: What a share costs at least.
LEAST_COST = 64
#: Short rows are gathered to pieces of at least and at most about this cost, and of no more than this part of what a
#: group of lanes would have of equal shares, so that groups that take pieces in turn end together.
LEAST_PIECE, MOST_PIECE, PIECES_PER_GROUP = 8, 32, 4
#: A row is cut that has more entries than what so many groups would have, and than the first of these numbers, or more
#: than the second: parts cost a fence each, of the device where they lie in several shares.
LONG_GROUPS, LEAST_LONG, MOST_LONG = 2, 48, 512
#: The parts of a row stay in one share if they cost no more than this part of it, or so many entries for each group.
KEPT_PART, KEPT = 8, 32

#: The code that packs on a device, and what it shares with this module.
BUILDER = Path(__file__).with_suffix(".cu")
BUILDER_DEFINES = builder.defines(
    ROW_COST,
    LEAST_COST,
    LEAST_PIECE=LEAST_PIECE,
    MOST_PIECE=MOST_PIECE,
    PIECES_PER_GROUP=PIECES_PER_GROUP,
    LONG_GROUPS=LONG_GROUPS,
    LEAST_LONG=LEAST_LONG,
    MOST_LONG=MOST_LONG,
    KEPT_PART=KEPT_PART,
    KEPT=KEPT,
)


@dataclass(frozen=True)
class CsrShares(Format):
    """Entries row by row, with no row pointers: an entry says whether it is the last of its row.

    - ``columns`` int32[slots]: the column of an entry, or ~column (negative) where a row, or a piece, ends with it. A
      row without entries has one, in column 0;
    - ``data`` dtype[slots]: the values;
    - ``pieces`` int32[pieces+1, 2]: the first slot of a piece, and its first row; or, where it is a part of a row that
      is cut, ~part (negative). A piece is whole rows, or a part of one. The last pair is ``slots``, 0;
    - ``work`` int32[shares+1]: the first piece of a share;
    - ``cut`` int32[parts, 4]: of each part the first one of its row, how many there are, the row, and the piece
      that the first one is.
    """

    name: ClassVar[str] = "csr_shares"

    columns: Any
    data: Any
    pieces: Any
    work: Any
    cut: Any

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", ctas: int = 2, multiprocessors: int = 1, groups: int = 8) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        There are up to ``ctas`` shares for each of so many ``multiprocessors``, fewer where they would be too small,
        each for so many ``groups`` of lanes. Raises :class:`FormatError` from 2³¹ slots and rows on.
        """
        xp = array_module(a.data)
        m, nnz = int(a.shape[0]), int(a.nnz)
        if nnz + 2 * m >= 2**31:
            raise FormatError(f"{cls.name} counts with 32 bits, too few for {nnz:,} non-zeros in {m:,} rows")
        make = _on_host if xp is np else _on_device
        arrays = make(a, m, nnz, rounded(a.data, dtype), ctas * multiprocessors, groups)
        return cls((m, int(a.shape[1])), nnz, dtype, *arrays)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        begin, code = self.pieces[:-1, 0].astype(xp.int64), self.pieces[:-1, 1].astype(xp.int64)
        first_row = code.copy()
        first_row[code < 0] = self.cut[~code[code < 0], 2]
        # The row of a slot: its piece's first one, and how many ends the piece has before.
        ended = xp.zeros(len(self.columns) + 1, dtype=xp.int64)
        ended[1:] = xp.cumsum(self.columns < 0)
        slot = nonzero_slots(self.data)
        piece = xp.searchsorted(begin, slot, side="right") - 1
        rows = first_row[piece] + ended[slot] - ended[begin[piece]]
        columns = self.columns[slot].astype(xp.int64)
        columns = xp.where(columns < 0, ~columns, columns)
        return csr_of_entries(rows, columns, widened(self.data[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Pieces."""
        return len(self.pieces) - 1

    def counts(self) -> dict[str, int]:
        """``shares``, and ``parts`` of rows that are cut, beside the usual counts."""
        return {**super().counts(), "shares": len(self.work) - 1, "parts": len(self.cut)}


def _on_host(a: Any, m: int, nnz: int, values: Any, most: int, groups: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields, in up to ``most`` shares."""
    pointers = a.indptr.astype(np.int64)
    lengths = np.maximum(np.diff(pointers), 1)
    begins = np.zeros(m + 1, dtype=np.int64)
    begins[1:] = np.cumsum(lengths)
    slots = int(begins[-1])
    row = row_of_entry(pointers, nnz)
    slot = begins[row] - pointers[row] + np.arange(nnz, dtype=np.int64)
    columns = np.zeros(slots, dtype=np.int32)
    columns[slot] = a.indices
    data = np.zeros(slots, dtype=values.dtype)
    data[slot] = values

    cost, shares, piece_cost, longest = _costs(slots, m, most, groups)
    begin, first_row, part, parts_of_row = _pieces(begins, lengths, piece_cost, longest)
    count = len(begin)
    is_part = parts_of_row > 1
    number = np.cumsum(is_part) - 1
    pieces = np.zeros((count + 1, 2), dtype=np.int32)
    pieces[:count, 0], pieces[count, 0] = begin, slots
    pieces[:count, 1] = np.where(is_part, ~number, first_row)
    cut = np.zeros((int(is_part.sum()), 4), dtype=np.int32)
    cut[:, 0] = (number - part)[is_part]
    cut[:, 1] = parts_of_row[is_part]
    cut[:, 2] = first_row[is_part]
    cut[:, 3] = (np.arange(count) - part)[is_part]
    ends = np.zeros(slots, dtype=bool)
    ends[begins[1:] - 1] = True
    ends[begin[1:] - 1] = True
    columns = np.where(ends, ~columns, columns)
    return columns, data, pieces, _shares(pieces, cut, cost, shares, groups), cut


def _on_device(a: Any, m: int, nnz: int, values: Any, most: int, groups: int) -> tuple[Any, ...]:
    """What :func:`_on_host` makes, on the device."""
    import cupy as xp

    build = builder.launcher(BUILDER, BUILDER_DEFINES)
    begins = builder.row_begins(build, a)
    first, part = xp.empty(m + 1, dtype=xp.int32), xp.empty(m + 1, dtype=xp.int32)
    numbers = xp.empty(3, dtype=xp.int32)
    build("count_pieces", builder.ctas(m), begins, m, most, groups, builder.states(m), first, part, numbers)
    slots, count, parts = numbers.get().tolist()
    columns, data = builder.placed_rows(build, a, values, begins, slots)
    pieces, cut = xp.empty((count + 1, 2), dtype=xp.int32), xp.empty((parts, 4), dtype=xp.int32)
    build("place_pieces", builder.ctas(m + 1), begins, first, part, m, columns, pieces, cut)
    cost, shares, _, _ = _costs(slots, m, most, groups)
    work = xp.empty(shares + 1, dtype=xp.int32)
    build("share_pieces", builder.ctas(shares + 1), pieces, cut, count, cost, shares, groups, work)
    return columns, data, pieces, work, cut


def _costs(slots: int, m: int, most: int, groups: int) -> tuple[int, int, int, int]:
    """The cost of all slots and rows, how many shares to make of it, about what a piece costs, and from how many
    entries on a row is cut."""
    cost = slots + ROW_COST * m
    shares = max(min(most, cost // LEAST_COST), 1)
    of_group = cost // (shares * groups)
    piece_cost = min(max(of_group // PIECES_PER_GROUP, LEAST_PIECE), MOST_PIECE)
    return cost, shares, piece_cost, min(max(LONG_GROUPS * of_group, LEAST_LONG), MOST_LONG)


def _pieces(begins: Any, lengths: Any, cost: int, longest: int) -> tuple[Any, Any, Any, Any]:
    """First slot, first row, place among the parts of its row and their number, int64, of each piece.

    Rows whose places on the path of all costs lie in one interval of length ``cost`` are a piece; a row of more than
    ``longest`` entries is several.
    """
    m = len(lengths)
    parts = -(-lengths // longest)
    interval = (begins[:-1] + ROW_COST * np.arange(m, dtype=np.int64)) // cost
    leads = np.ones(m, dtype=bool)
    leads[1:] = (interval[1:] != interval[:-1]) | (parts[1:] > 1) | (parts[:-1] > 1)
    first = np.zeros(m + 1, dtype=np.int64)
    first[1:] = np.cumsum(np.where(leads, parts, 0))
    count = int(first[-1])
    row = row_of_entry(first, count)
    part = np.arange(count, dtype=np.int64) - first[row]
    return begins[row] + lengths[row] * part // parts[row], row, part, parts[row]


def _shares(pieces: Any, cut: Any, cost: int, shares: int, groups: int) -> Any:
    """The first piece of each share, int32[shares+1]: a piece belongs where its middle does, or that of its row."""
    count = len(pieces) - 1
    row, first = pieces[:-1, 1].astype(np.int64), np.arange(count, dtype=np.int64)
    after, is_part = first + 1, row < 0
    _, parts, row_of_part, first_of_row = cut.T
    row[is_part] = row_of_part
    paid = np.full(count + 1, cost, dtype=np.int64)
    paid[:-1] = pieces[:-1, 0] + ROW_COST * row
    together = paid[first_of_row + parts] - paid[first_of_row] <= max(cost // shares // KEPT_PART, KEPT * groups)
    kept = np.flatnonzero(is_part)[together]
    first[kept], after[kept] = first_of_row[together], (first_of_row + parts)[together]
    goals = np.arange(shares + 1, dtype=np.int64) * cost // shares
    work = np.searchsorted(paid[first] + paid[after], 2 * goals, side="left")
    return work.astype(np.int32)


FORMAT = CsrShares
