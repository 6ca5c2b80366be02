"""Equal shares of ranges for CTAs: how formats cut windows of tiles, or rows of entries, between them, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np


def equal_shares(begins: Any, range_cost: int, count: int, slack: int) -> tuple[Any, Any]:
    """``count`` shares of about equal cost of ranges whose elements begin at ``begins``, int64[ranges+1].

    An element costs one, a range ``range_cost`` more. The border of a share may move by ``slack`` elements to that of a
    range; where it does not, it cuts the range. Two arrays:

    - ``work`` int32[count, 4]: the first element of a share, the one after its last, and the numbers of the parts that
      it holds of ranges that are cut: of the one that began before, and of the one that goes on after (where that is
      the same range, this one alone); -1 where there is none;
    - ``cut`` int32[parts, 4]: of each part the first one of its range, how many there are, the range, and the share.
    """
    ranges = len(begins) - 1
    paid = begins + range_cost * np.arange(ranges + 1, dtype=np.int64)
    goals = np.arange(count + 1, dtype=np.int64) * int(paid[-1]) // count
    here = np.searchsorted(paid, goals, side="right") - 1
    begin, after = begins[here], begins[np.minimum(here + 1, ranges)]
    border = np.minimum(begin + goals - paid[here], after)
    border = np.where(border - begin <= slack, begin, np.where(after - border <= slack, after, border))

    owner = np.searchsorted(begins, border, side="right") - 1
    is_cut = border != begins[owner]
    busy = border[:-1] < border[1:]
    before, behind = is_cut[:-1] & busy, is_cut[1:] & busy
    before &= ~(behind & (owner[:-1] == owner[1:]))
    parts = before.astype(np.int64) + behind
    number = np.cumsum(parts) - parts
    numbers = np.where(before, number, -1), np.where(behind, number + before, -1)
    work = np.stack([border[:-1], border[1:], *numbers], axis=1)
    of, share = np.empty((2, int(parts.sum())), dtype=np.int64)
    of[number[before]], share[number[before]] = owner[:-1][before], np.flatnonzero(before)
    of[(number + before)[behind]], share[(number + before)[behind]] = owner[1:][behind], np.flatnonzero(behind)
    first, last = np.searchsorted(of, of, side="left"), np.searchsorted(of, of, side="right")
    cut = np.stack([first, last - first, of, share], axis=1)
    return work.astype(np.int32), cut.astype(np.int32)
