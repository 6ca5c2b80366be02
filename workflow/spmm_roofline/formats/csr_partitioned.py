"""CSR as row segments of about equal cost, divided among CTAs."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from . import builder
from .arrays import array_module, csr_of_entries, nonzero_slots, row_of_entry, row_slots
from .base import Format, FormatError, Int32, Packer, Values
from .partitions import waves_of
from .values import rounded, widened


class Sizes(NamedTuple):
    """What a rule gives for one matrix; costs are in entries."""

    cost: int
    """all slots and rows"""
    partitions: int
    segment_cost: int
    """approximate cost of a segment"""
    longest: int
    """a row of more entries is split"""


@dataclass(frozen=True)
class SegmentRule:
    """How rows become segments and segments become work partitions; costs are in entries."""

    row_cost: int = 1
    """cost of a row of C"""
    least_cost: int = 64
    """least cost of a partition"""
    least_segment: int = 8
    """short rows are combined into segments of at least this cost"""
    most_segment: int = 32
    """and at most this cost"""
    segments_per_group: int = 4
    """minimum number of segments per lane group, so that groups that take segments in turn finish together"""
    long_groups: int = 2
    """a row is split if it has more entries than this many lane groups handle on average"""
    least_long: int = 48
    """and more than this"""
    most_long: int = 512
    """or more than this in any case; each partial sum costs a fence, a device-wide one if the row spans partitions"""
    kept_divisor: int = 8
    """the segments of a row stay in one partition if they cost at most the partition's cost divided by this"""
    kept_entries: int = 32
    """or at most this for each lane group"""

    def sizes(self, slots: int, m: int, most: int, groups: int) -> Sizes:
        """For a matrix of ``slots`` slots and ``m`` rows in at most ``most`` partitions of ``groups`` lane groups."""
        cost = slots + self.row_cost * m
        partitions = max(min(most, cost // self.least_cost), 1)
        of_group = cost // (partitions * groups)
        segment_cost = min(max(of_group // self.segments_per_group, self.least_segment), self.most_segment)
        longest = min(max(self.long_groups * of_group, self.least_long), self.most_long)
        return Sizes(cost, partitions, segment_cost, longest)

    @cached_property
    def argument(self) -> np.ndarray:
        """The rule as the packer takes it, a struct of int32 (``kernels/packing/csr_partitioned.cu``)."""
        return np.array((astuple(self),), dtype=[("numbers", np.int32, len(astuple(self)))])


RULE = SegmentRule()


@dataclass(frozen=True)
class CsrPartitioned(Format):
    """Entries row by row, without row pointers: each entry marks whether it is the last of its row.

    - ``columns`` int32[slots]: the column of an entry, or ~column (negative) where a row, or a segment, ends with it. A
      row without entries has one slot, in column 0;
    - ``data`` dtype[slots]: the values;
    - ``segments`` int32[segments+1, 2]: the first slot of a segment, and its first row or, for a section of a split
      row, ~partial (negative). A segment is one or more whole rows, or one section. The last pair is ``slots``, 0;
    - ``work`` int32[partitions+1]: the first segment of a partition;
    - ``cut`` int32[partials, 4]: first partial sum of the same row, their number, the row, and the row's first segment.
    """

    name: ClassVar[str] = "csr_partitioned"
    packer: ClassVar[str | None] = "csr_partitioned"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "partitions", "partials")

    columns: Int32
    data: Values
    segments: Int32
    work: Int32
    cut: Int32

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float32",
        ctas: int = 2,
        multiprocessors: int = 1,
        groups: int = 8,
        wave_columns: int = 0,
        packer: Packer | None = None,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        There are at most ``ctas`` partitions per multiprocessor in each wave of ``wave_columns`` columns of A
        (:func:`.partitions.waves_of`), fewer if they would be too small, each for ``groups`` lane groups. Raises
        :class:`FormatError` if slots and rows together may reach 2³¹.
        """
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        if nnz + 2 * m >= 2**31:
            raise FormatError(f"{cls.name} counts with 32 bits, too few for {nnz:,} non-zeros in {m:,} rows")
        values, most = rounded(a.data, dtype, copy=False), ctas * multiprocessors * waves_of(m, k, wave_columns)
        if xp is np:
            arrays = _on_host(a, m, values, most, groups)
        else:
            arrays = _on_device(a, m, values, most, groups, cls.given(packer))
        return cls((m, k), nnz, dtype, *arrays)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        begin, code = self.segments[:-1, 0].astype(xp.int64), self.segments[:-1, 1].astype(xp.int64)
        first_row = code.copy()
        first_row[code < 0] = self.cut[~code[code < 0], 2]
        # Row of a slot: the first row of its segment, plus the row ends in the segment before the slot.
        ended = xp.zeros(len(self.columns) + 1, dtype=xp.int64)
        ended[1:] = xp.cumsum(self.columns < 0)
        slot = nonzero_slots(self.data)
        segment = xp.searchsorted(begin, slot, side="right") - 1
        rows = first_row[segment] + ended[slot] - ended[begin[segment]]
        columns = self.columns[slot].astype(xp.int64)
        columns = xp.where(columns < 0, ~columns, columns)
        return csr_of_entries(rows, columns, widened(self.data[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Row segments."""
        return len(self.segments) - 1

    def counts(self) -> dict[str, int]:
        """``partitions``, and ``partials`` of split rows, besides the counts of every format."""
        return {**super().counts(), "partitions": len(self.work) - 1, "partials": len(self.cut)}


def _on_host(a: Any, m: int, values: Any, most: int, groups: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields, in at most ``most`` partitions."""
    begins, columns, data = row_slots(a, values)
    slots, lengths = len(columns), np.diff(begins)

    sizes = RULE.sizes(slots, m, most, groups)
    begin, first_row, section, sections = _segments(begins, lengths, sizes)
    count = len(begin)
    is_section = sections > 1
    partial = np.cumsum(is_section) - 1
    segments = np.zeros((count + 1, 2), dtype=np.int32)
    segments[:count, 0], segments[count, 0] = begin, slots
    segments[:count, 1] = np.where(is_section, ~partial, first_row)
    cut = np.zeros((int(is_section.sum()), 4), dtype=np.int32)
    cut[:, 0] = (partial - section)[is_section]
    cut[:, 1] = sections[is_section]
    cut[:, 2] = first_row[is_section]
    cut[:, 3] = (np.arange(count) - section)[is_section]
    ends = np.zeros(slots, dtype=bool)
    ends[begins[1:] - 1] = True
    ends[begin[1:] - 1] = True
    columns = np.where(ends, ~columns, columns)
    return columns, data, segments, _partitioned(segments, cut, sizes, groups), cut


def _on_device(a: Any, m: int, values: Any, most: int, groups: int, pack: Packer) -> tuple[Any, ...]:
    """The same arrays as :func:`_on_host`, made on the device."""
    import cupy as xp

    rule = RULE.argument
    begins = builder.row_begins(pack, a)
    first, first_partial = xp.empty(m + 1, dtype=xp.int32), xp.empty(m + 1, dtype=xp.int32)
    counts = xp.empty(3, dtype=xp.int32)
    states = builder.scan_states(m)
    pack("count_segments", builder.ctas(m), begins, m, most, groups, rule, states, first, first_partial, counts)
    slots, count, partials = counts.get().tolist()
    columns, data = builder.scattered_rows(pack, a, values, begins, slots)
    segments, cut = xp.empty((count + 1, 2), dtype=xp.int32), xp.empty((partials, 4), dtype=xp.int32)
    pack("scatter_segments", builder.ctas(m + 1), begins, first, first_partial, m, columns, segments, cut)
    sizes = RULE.sizes(slots, m, most, groups)
    work = xp.empty(sizes.partitions + 1, dtype=xp.int32)
    of_partitions = segments, cut, count, sizes.cost, sizes.partitions, groups, rule, work
    pack("partition_segments", builder.ctas(sizes.partitions + 1), *of_partitions)
    return columns, data, segments, work, cut


def _segments(begins: Any, lengths: Any, sizes: Sizes) -> tuple[Any, Any, Any, Any]:
    """For each segment, int64: first slot, first row, index among the sections of its row, number of these sections.

    Rows whose cumulative cost begins in the same interval of ``sizes.segment_cost`` form a segment; a row of more than
    ``sizes.longest`` entries is split into several segments.
    """
    m = len(lengths)
    sections = -(-lengths // sizes.longest)
    interval = (begins[:-1] + RULE.row_cost * np.arange(m, dtype=np.int64)) // sizes.segment_cost
    leads = np.ones(m, dtype=bool)
    leads[1:] = (interval[1:] != interval[:-1]) | (sections[1:] > 1) | (sections[:-1] > 1)
    first = np.zeros(m + 1, dtype=np.int64)
    first[1:] = np.cumsum(np.where(leads, sections, 0))
    count = int(first[-1])
    row = row_of_entry(first, count)
    section = np.arange(count, dtype=np.int64) - first[row]
    return begins[row] + lengths[row] * section // sections[row], row, section, sections[row]


def _partitioned(segments: Any, cut: Any, sizes: Sizes, groups: int) -> Any:
    """First segment of each partition, int32[partitions+1].

    A segment belongs to the partition that holds the middle of its cost; the sections of a short row stay together
    in the partition that holds the middle of the row.
    """
    count = len(segments) - 1
    row, first = segments[:-1, 1].astype(np.int64), np.arange(count, dtype=np.int64)
    after, is_section = first + 1, row < 0
    _, sections, split_row, first_of_row = cut.T
    row[is_section] = split_row
    cost_before = np.full(count + 1, sizes.cost, dtype=np.int64)
    cost_before[:-1] = segments[:-1, 0] + RULE.row_cost * row
    kept_cost = max(sizes.cost // sizes.partitions // RULE.kept_divisor, RULE.kept_entries * groups)
    together = cost_before[first_of_row + sections] - cost_before[first_of_row] <= kept_cost
    kept = np.flatnonzero(is_section)[together]
    first[kept], after[kept] = first_of_row[together], (first_of_row + sections)[together]
    goals = np.arange(sizes.partitions + 1, dtype=np.int64) * sizes.cost // sizes.partitions
    work = np.searchsorted(cost_before[first] + cost_before[after], 2 * goals, side="left")
    return work.astype(np.int32)


FORMAT = CsrPartitioned
