"""CSR with equal numbers of entries for all lane groups, whatever the row lengths: nonzero splitting.

After Yang, Buluç and Owens (2018), section 4.2. The cost of a partition includes its rows, as in the merge path of
Merrill and Garland (2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from . import builder
from .arrays import array_module, csr_of_entries, nonzero_slots, row_slots
from .base import Format, FormatError, Int32, Packer, Values
from .partitions import PartitionRule, partitioned, waves_of
from .values import rounded, widened

#: Largest number of slots and rows: 32-bit counts, less room for a batch after the last slot.
MOST = 2**31 - 2**10


@cache
def rule(warps: int) -> PartitionRule:
    """Partitions of ``warps`` warps; a warp with fewer than 32 entries would wait longer than it works."""
    return PartitionRule(segment_cost=1, least_cost=32 * warps, least_slack=8, slack_divisor=16)


@dataclass(frozen=True)
class CsrSplit(Format):
    """Entries row by row, without row pointers: each entry marks whether it is the last of its row.

    One CTA works on a partition. The slots are dealt in order, in batches of ``batch``: evenly to the ``warps`` (the
    first warps have one more if the numbers do not divide), then evenly to the ``groups`` lane groups of a warp. The
    last groups have the remainder, or nothing. A group may begin inside any row, a partition only inside a long row.

    - ``columns`` int32[slots]: the column of an entry, or ~column (negative) where a row ends with it. A row without
      entries has one slot, in column 0;
    - ``data`` dtype[slots]: the values;
    - ``group_starts`` int32[partitions·warps·groups+1, 2]: the first slot of a group, and its row, or ~row (negative)
      where the row began in an earlier group. The last pair is ``slots``, m;
    - ``work`` int32[partitions, 4]: the first slot of a partition, the number of its groups that have slots, and its
      partial sums, as in :func:`.partitions.partitioned`; a segment is a row, an element a slot;
    - ``cut`` int32[partials, 4]: see there.
    """

    name: ClassVar[str] = "csr_split"
    packer: ClassVar[str | None] = "csr_split"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "slots", "partitions", "partials")

    columns: Int32
    data: Values
    group_starts: Int32
    work: Int32
    cut: Int32

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
        wave_columns: int = 0,
        packer: Packer | None = None,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        There are at most ``ctas`` partitions per multiprocessor in each wave of ``wave_columns`` columns of A
        (:func:`.partitions.waves_of`), fewer if they would be too small, each for ``warps`` warps of ``groups``
        lane groups that load ``batch`` slots at once. Raises :class:`FormatError` if slots and rows together may exceed
        2³¹ - 2¹⁰.
        """
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        if nnz + 2 * m > MOST:
            raise FormatError(f"{cls.name} counts with 32 bits, too few for {nnz:,} non-zeros in {m:,} rows")
        values, dealt = rounded(a.data, dtype, copy=False), (warps, groups, batch)
        most = ctas * multiprocessors * waves_of(m, k, wave_columns)
        if xp is np:
            arrays = _on_host(a, values, most, *dealt)
        else:
            arrays = _on_device(a, m, values, most, *dealt, cls.given(packer))
        return cls((m, k), nnz, dtype, *arrays)

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
        """``slots``, ``partitions``, and ``partials`` of split rows, besides the counts of every format."""
        own = {"slots": self.stored_slots, "partitions": len(self.work), "partials": len(self.cut)}
        return super().counts() | own


def _on_host(a: Any, values: Any, most: int, warps: int, groups: int, batch: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields, in at most ``most`` partitions."""
    begins, columns, data = row_slots(a, values)
    columns[begins[1:] - 1] = ~columns[begins[1:] - 1]
    work, cut = partitioned(begins, rule(warps), most)
    border = np.append(work[:, 0], work[-1:, 1]).astype(np.int64)
    group_starts, work[:, 1] = _group_starts(begins, border, warps, groups, batch)
    return columns, data, group_starts, work, cut


def _on_device(
    a: Any, m: int, values: Any, most: int, warps: int, groups: int, batch: int, pack: Packer
) -> tuple[Any, ...]:
    """The same arrays as :func:`_on_host`, made on the device."""
    import cupy as xp

    begins = builder.row_begins(pack, a)
    slots, work, cut = builder.partitions(pack, begins, most, rule(warps))
    columns, data = builder.scattered_rows(pack, a, values, begins, slots)
    group_starts = xp.empty((len(work) * warps * groups + 1, 2), dtype=xp.int32)
    pack("split_groups", len(work), begins, m, warps, groups, batch, work, group_starts, threads=128)
    return columns, data, group_starts, work, cut


def _group_starts(begins: Any, border: Any, warps: int, groups: int, batch: int) -> tuple[Any, Any]:
    """``group_starts``, and the number of groups with slots in each partition, int64[partitions]."""
    warp = np.arange(warps, dtype=np.int64)[:, None]
    group = np.arange(groups, dtype=np.int64)
    begin, end = border[:-1, None, None], border[1:, None, None]
    # A unit is one batch for each group of a warp.
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
