"""CSR in equal parts for all groups of lanes, whatever the rows: nonzero splitting.

After Yang, Buluç and Owens (2018), section 4.2, and the merge path of Merrill and Garland (2016); of the latter the
shares of CTAs, which pay for rows too.
"""

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
from .shares import equal_shares

#: Entries and rows that are counted with 32 bits, with room for a batch behind the last slot.
MOST = 2**31 - 2**10
#: Cost of a row of C, in entries.
ROW_COST = 1
#: What a share costs at least for each of its warps: with less they wait for others longer than they work.
LEAST_COST = 32
#: A share may begin and end so many entries, or that part of itself, sooner or later, so that no row is cut.
LEAST_SLACK, SLACK = 8, 16

#: The code that packs on a device.
BUILDER = Path(__file__).with_suffix(".cu")


def builder_defines(warps: int) -> dict[str, str]:
    """Macros of that code for shares of so many warps."""
    return builder.defines(ROW_COST, LEAST_COST * warps, LEAST_SLACK=LEAST_SLACK, SLACK=SLACK)


@dataclass(frozen=True)
class CsrSplit(Format):
    """Entries row by row, with no row pointers: an entry says whether it is the last of its row.

    A share is for one CTA. Of its slots each of the ``warps`` has equally many batches, the first ones one more where
    they do not go evenly, and each of the warp's ``groups`` of lanes has equally many of those, of ``batch`` slots one
    after the other; the last groups have what is left, or nothing. Groups begin anywhere in a row, and shares only in
    rows that are long for them.

    - ``columns`` int32[slots]: the column of an entry, or ~column (negative) where a row ends with it. A row without
      entries has one, in column 0;
    - ``data`` dtype[slots]: the values;
    - ``places`` int32[shares·warps·groups+1, 2]: the first slot of a group, and its row, or ~row (negative) where that
      began before. The last pair is ``slots``, the number of rows;
    - ``work`` int32[shares, 4]: the first slot of a share, how many of its groups have any, and the numbers of the
      parts that it holds of rows that are cut: of the one that began before, and of the one that goes on after (where
      that is the same row, this one alone); -1 where there is none;
    - ``cut`` int32[parts, 4]: of each part the first one of its row, how many there are, the row, and the share.
    """

    name: ClassVar[str] = "csr_split"

    columns: Any
    data: Any
    places: Any
    work: Any
    cut: Any

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float32",
        ctas: int = 2,
        multiprocessors: int = 1,
        warps: int = 2,
        groups: int = 4,
        batch: int = 8,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        There are up to ``ctas`` shares for each of so many ``multiprocessors``, fewer where they would be too small,
        each for so many ``warps`` of ``groups`` that take ``batch`` slots at a time. Raises
        :class:`FormatError` from nearly 2³¹ slots and rows on.
        """
        xp = array_module(a.data)
        m, nnz = int(a.shape[0]), int(a.nnz)
        if nnz + 2 * m > MOST:
            raise FormatError(f"{cls.name} counts with 32 bits, too few for {nnz:,} non-zeros in {m:,} rows")
        make = _on_host if xp is np else _on_device
        arrays = make(a, m, nnz, rounded(a.data, dtype), ctas * multiprocessors, warps, groups, batch)
        return cls((m, int(a.shape[1])), nnz, dtype, *arrays)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        ended = xp.cumsum(self.columns < 0) - (self.columns < 0)
        slot = nonzero_slots(self.data)
        columns = self.columns[slot].astype(xp.int64)
        columns = xp.where(columns < 0, ~columns, columns)
        return csr_of_entries(ended[slot], columns, widened(self.data[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Rows."""
        return self.shape[0]

    def counts(self) -> dict[str, int]:
        """``shares``, and ``parts`` of rows that are cut, beside the usual counts."""
        return {**super().counts(), "shares": len(self.work), "parts": len(self.cut)}


def _on_host(a: Any, m: int, nnz: int, values: Any, most: int, warps: int, groups: int, batch: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields, in up to ``most`` shares."""
    pointers = a.indptr.astype(np.int64)
    begins = np.zeros(m + 1, dtype=np.int64)
    begins[1:] = np.cumsum(np.maximum(np.diff(pointers), 1))
    slots = int(begins[-1])
    row = row_of_entry(pointers, nnz)
    slot = begins[row] - pointers[row] + np.arange(nnz, dtype=np.int64)
    columns = np.zeros(slots, dtype=np.int32)
    columns[slot] = a.indices
    columns[begins[1:] - 1] = ~columns[begins[1:] - 1]
    data = np.zeros(slots, dtype=values.dtype)
    data[slot] = values
    _, shares, slack = _share_count(slots, m, most, warps)
    work, cut = equal_shares(begins, ROW_COST, shares, slack)
    border = np.append(work[:, 0], work[-1:, 1]).astype(np.int64)
    places, work[:, 1] = _places(begins, border, warps, groups, batch)
    return columns, data, places, work, cut


def _on_device(
    a: Any, m: int, nnz: int, values: Any, most: int, warps: int, groups: int, batch: int
) -> tuple[Any, ...]:
    """What :func:`_on_host` makes, on the device."""
    import cupy as xp

    build = builder.launcher(BUILDER, builder_defines(warps))
    begins = builder.row_begins(build, a)
    slots, work, cut = builder.shares(build, begins, most)
    columns, data = builder.placed_rows(build, a, values, begins, slots)
    places = xp.empty((len(work) * warps * groups + 1, 2), dtype=xp.int32)
    build("split", len(work), begins, m, warps, groups, batch, work, places, threads=128)
    return columns, data, places, work, cut


def _share_count(slots: int, m: int, most: int, warps: int) -> tuple[int, int, int]:
    """The cost of all slots and rows, how many shares to make of it, and by how many slots their borders may move."""
    cost = slots + ROW_COST * m
    shares = max(min(most, cost // (LEAST_COST * warps)), 1)
    return cost, shares, max(cost // shares // SLACK, LEAST_SLACK)


def _places(begins: Any, border: Any, warps: int, groups: int, batch: int) -> tuple[Any, Any]:
    """``places``, and how many groups of each share have slots, int64[shares]."""
    warp = np.arange(warps, dtype=np.int64)[:, None]
    group = np.arange(groups, dtype=np.int64)
    begin, end = border[:-1, None, None], border[1:, None, None]
    # A unit is a batch of all groups of a warp.
    units = -(-(end - begin) // (groups * batch))
    least, more = units // warps, units % warps
    before = least * warp + np.minimum(warp, more)
    slot = begin + batch * (groups * before + (least + (warp < more)) * group)
    slot = np.minimum(slot, end).reshape(len(border) - 1, warps * groups)
    busy = (slot < border[1:, None]).sum(axis=1)
    slot = np.concatenate([slot.ravel(), border[-1:]])
    row = np.searchsorted(begins, slot, side="right") - 1
    return np.stack([slot, np.where(begins[row] == slot, row, ~row)], axis=1).astype(np.int32), busy


FORMAT = CsrSplit
