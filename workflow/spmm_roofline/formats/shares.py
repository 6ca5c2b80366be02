"""Equal shares of ranges for CTAs: how formats cut windows of tiles, or rows of entries, between them."""

from __future__ import annotations

from typing import Any

from .base import array_module


def equal_shares(begins: Any, range_cost: int, count: int, slack: int) -> tuple[Any, Any]:
    """``count`` shares of about equal cost of ranges whose elements begin at ``begins``, int64[ranges+1].

    An element costs one, a range ``range_cost`` more. The border of a share may move by ``slack`` elements to that of a
    range; where it does not, it cuts the range. Two arrays:

    - ``work`` int32[count, 4]: the first element of a share, the one after its last, and the numbers of the parts that
      it holds of ranges that are cut: of the one that began before, and of the one that goes on after (where that is
      the same range, this one alone); -1 where there is none;
    - ``cut`` int32[parts, 4]: of each part the first one of its range, how many there are, and the range; 0.
    """
    xp = array_module(begins)
    ranges = len(begins) - 1
    paid = begins + range_cost * xp.arange(ranges + 1, dtype=xp.int64)
    goals = xp.arange(count + 1, dtype=xp.int64) * int(paid[-1]) // count
    here = xp.searchsorted(paid, goals, side="right") - 1
    begin, after = begins[here], begins[xp.minimum(here + 1, ranges)]
    border = xp.minimum(begin + goals - paid[here], after)
    border = xp.where(border - begin <= slack, begin, xp.where(after - border <= slack, after, border))

    owner = xp.searchsorted(begins, border, side="right") - 1
    is_cut = border != begins[owner]
    busy = border[:-1] < border[1:]
    before, behind = is_cut[:-1] & busy, is_cut[1:] & busy
    before &= ~(behind & (owner[:-1] == owner[1:]))
    parts = before.astype(xp.int64) + behind
    number = xp.cumsum(parts) - parts
    numbers = xp.where(before, number, -1), xp.where(behind, number + before, -1)
    work = xp.stack([border[:-1], border[1:], *numbers], axis=1)
    of = xp.empty(int(parts.sum()), dtype=xp.int64)
    of[number[before]] = owner[:-1][before]
    of[(number + before)[behind]] = owner[1:][behind]
    first, last = xp.searchsorted(of, of, side="left"), xp.searchsorted(of, of, side="right")
    cut = xp.stack([first, last - first, of, xp.zeros_like(of)], axis=1)
    return work.astype(xp.int32), cut.astype(xp.int32)
