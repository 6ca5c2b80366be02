"""Items of work: whole panels, and parts of those that would keep a CTA much longer than the others."""

from __future__ import annotations

from typing import Any

import numpy as np

#: A panel costs two extra tiles, for its rows of C.
PANEL_COST = 2


def cost_of(begins: Any) -> int:
    """What all panels cost, in tiles; those of a panel begin at ``begins``, int[panels+1]."""
    return int(begins[-1]) + PANEL_COST * (len(begins) - 1)


def items_of(begins: Any, parts: Any) -> tuple[Any, Any]:
    """``work`` in the order of the panels, and ``cut``, if each panel is split into so many equal parts, int64[panels].

    The tiles of a panel begin at ``begins``, int64[panels+1].
    """
    panel = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(panel)) - (np.cumsum(parts) - parts)[panel]
    tiles = np.diff(begins)[panel]
    is_cut = parts[panel] > 1
    work = np.zeros((len(panel), 4), dtype=np.int32)
    work[:, 0] = begins[panel] + tiles * part // parts[panel]
    work[:, 1] = begins[panel] + tiles * (part + 1) // parts[panel]
    work[:, 2] = panel
    work[:, 3] = np.where(is_cut, np.cumsum(is_cut) - 1, -1)
    cut_panel, cut_part = panel[is_cut], part[is_cut]
    cut = np.zeros((len(cut_panel), 4), dtype=np.int32)
    cut[:, 0] = np.arange(len(cut_panel)) - cut_part
    cut[:, 1], cut[:, 2] = parts[cut_panel], cut_panel
    return work, cut
