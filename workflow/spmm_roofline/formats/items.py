"""Items of work: whole panels, and parts of those that would keep a CTA much longer than the others."""

from __future__ import annotations

from typing import Any

import numpy as np

#: A panel costs two extra tiles, for its rows of C.
PANEL_COST = 2
#: A panel is split if it has more tiles than this many shares of a partition, and more than the least.
SHARES = 2


def items_of(begins: Any, partitions: int, least: int) -> tuple[Any, Any]:
    """``work`` in the order of the panels, and ``cut``, for panels whose tiles begin at ``begins``, int64[panels+1].

    No panel of up to ``least`` tiles is split.
    """
    panels = len(begins) - 1
    tiles = np.diff(begins)
    most = max(SHARES * (int(begins[-1]) + PANEL_COST * panels) // partitions, least)
    parts = np.maximum(-(-tiles // most), 1)
    first = np.cumsum(parts) - parts
    panel = np.repeat(np.arange(panels), parts)
    part = np.arange(len(panel)) - first[panel]
    is_cut = parts[panel] > 1
    work = np.zeros((len(panel), 4), dtype=np.int32)
    work[:, 0] = begins[panel] + tiles[panel] * part // parts[panel]
    work[:, 1] = begins[panel] + tiles[panel] * (part + 1) // parts[panel]
    work[:, 2] = panel
    work[:, 3] = np.where(is_cut, np.cumsum(is_cut) - 1, -1)
    cut_panel, cut_part = panel[is_cut], part[is_cut]
    cut = np.zeros((len(cut_panel), 4), dtype=np.int32)
    cut[:, 0] = np.arange(len(cut_panel)) - cut_part
    cut[:, 1], cut[:, 2] = parts[cut_panel], cut_panel
    return work, cut
