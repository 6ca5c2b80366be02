"""Work partitions: how formats divide windows of tiles, or rows of entries, among CTAs.

The CTAs that a device holds at once are a wave. They work on as many places of the matrix, each with the rows of B that
neighbouring rows of A have in common. In one wave these places lie all over the matrix, and the rows of B between two
of them leave L2 before they are read again if they do not all fit. In several waves they lie close together.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np


def wave_columns(row_bytes: int, l2_bytes: int) -> int:
    """Columns of A for which a wave is: as many rows of B, ``row_bytes`` long in a column slab, as fit 2/5 of L2.

    The other rows of B that are at hand, and those of C, take the rest (log of the general kernels, 34).
    """
    return 2 * l2_bytes // (5 * row_bytes)


def waves_of(m: int, k: int, columns: int) -> int:
    """Number of waves for an A of m×k if each is for ``columns`` columns of A; one if ``columns`` is 0.

    A matrix of fewer rows than columns counts its rows, because they have few columns in common.
    """
    return max(1, min(m, k) // columns) if columns else 1


@dataclass(frozen=True)
class PartitionRule:
    """How segments of elements are cut into partitions of about equal cost; costs are in elements.

    A segment is what is summed together: a window of tiles, or a row of entries.
    """

    segment_cost: int
    """cost of a segment's rows of C, added to the cost of its elements"""
    least_cost: int
    """least cost of a partition"""
    least_slack: int = 0
    """a border moves to a segment's border at most this far away, so that the segment is not split"""
    slack_divisor: int = 2**31 - 1
    """or at most a partition's cost divided by this away"""
    small: int = 0
    """a partition that costs less than this"""
    small_slack: int = 0
    """may move its borders this far"""

    def cost(self, elements: int, segments: int) -> int:
        """Cost of all elements and segments."""
        return elements + self.segment_cost * segments

    def count(self, cost: int, most: int) -> int:
        """Number of partitions, at most ``most``."""
        return max(min(most, cost // self.least_cost), 1)

    def slack(self, cost: int, count: int) -> int:
        """Elements by which a border may move."""
        size = cost // count
        return max(size // self.slack_divisor, self.small_slack if size < self.small else self.least_slack)

    @cached_property
    def argument(self) -> np.ndarray:
        """The rule as a packer takes it, a struct of int32 (``kernels/include/packing/partition.cuh``)."""
        return np.array((astuple(self),), dtype=[("costs", np.int32, len(astuple(self)))])


def partitioned(begins: Any, rule: PartitionRule, most: int) -> tuple[Any, Any]:
    """At most ``most`` partitions of segments whose elements begin at ``begins``, int64[segments+1].

    Returns two arrays:


    - ``work`` int32[partitions, 4]: first element of a partition, the element after its last one, and its partial sums
      as indices in ``cut``: of the segment that began in an earlier partition, and of the one that continues in a later
      one (a segment that does both has the latter only); -1 for none;
    - ``cut`` int32[partials, 4]: first partial sum of the same segment, their number, the segment, the partition.
    """
    segments = len(begins) - 1
    cost = rule.cost(int(begins[-1]), segments)
    count = rule.count(cost, most)
    slack = rule.slack(cost, count)
    cost_before = begins + rule.segment_cost * np.arange(segments + 1, dtype=np.int64)
    goals = np.arange(count + 1, dtype=np.int64) * int(cost_before[-1]) // count
    here = np.searchsorted(cost_before, goals, side="right") - 1
    begin, after = begins[here], begins[np.minimum(here + 1, segments)]
    border = np.minimum(begin + goals - cost_before[here], after)
    border = np.where(border - begin <= slack, begin, np.where(after - border <= slack, after, border))

    owner = np.searchsorted(begins, border, side="right") - 1
    is_split = border != begins[owner]
    busy = border[:-1] < border[1:]
    began_before, continues = is_split[:-1] & busy, is_split[1:] & busy
    began_before &= ~(continues & (owner[:-1] == owner[1:]))
    partials = began_before.astype(np.int64) + continues
    number = np.cumsum(partials) - partials
    numbers = np.where(began_before, number, -1), np.where(continues, number + began_before, -1)
    work = np.stack([border[:-1], border[1:], *numbers], axis=1)
    segment, partition = np.empty((2, int(partials.sum())), dtype=np.int64)
    at = number[began_before]
    segment[at], partition[at] = owner[:-1][began_before], np.flatnonzero(began_before)
    at = (number + began_before)[continues]
    segment[at], partition[at] = owner[1:][continues], np.flatnonzero(continues)
    first, last = (np.searchsorted(segment, segment, side=side) for side in ("left", "right"))
    cut = np.stack([first, last - first, segment, partition], axis=1)
    return work.astype(np.int32), cut.astype(np.int32)
