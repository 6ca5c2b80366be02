"""The opening tables: the kernel to choose by kind of matrix and width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, percent, significant, times

if TYPE_CHECKING:
    import pandas as pd

#: Most widths side by side in a table; a page of 1280 pixels shows this number in full.
WIDTHS_MOST = 4


def choice(kinds: pd.DataFrame, precision: str) -> dict[str, Any]:
    """The opening tables of a precision: a line per kind of matrix, and at most :data:`WIDTHS_MOST` widths per table.

    ``tables``: the first one has the widths at which most kinds were measured, the others have the rest in order. A
    kind stands in the tables that have one of its widths; a cell is None where it has no kernel.
    """
    by_cell = {(row.kind, int(row.n)): _cell(row) for row in kinds.itertuples()}
    measured = Counter(n for _, n in by_cell)
    leading = sorted(sorted(measured, key=lambda n: (-measured[n], n))[:WIDTHS_MOST])
    others = sorted(set(measured) - set(leading))
    tables = [_table(widths, by_cell) for widths in (leading, *_evenly(others))]
    return {"precision": PRECISIONS[precision], "cells": int(kinds["speedup"].notna().sum()), "tables": tables}


def _evenly(widths: list[int]) -> Iterator[list[int]]:
    """The widths of each table of about equally many."""
    if widths:
        columns = -(-len(widths) // -(-len(widths) // WIDTHS_MOST))
        yield from (widths[first : first + columns] for first in range(0, len(widths), columns))


def _table(widths: list[int], by_cell: dict[tuple[str, int], dict[str, Any]]) -> dict[str, Any]:
    lines = []
    for kind in sorted({kind for kind, n in by_cell if n in widths}):
        cells = [by_cell.get((kind, n)) for n in widths]
        lines.append({"kind": kind, "matrices": max(cell["matrices"] for cell in cells if cell), "cells": cells})
    return {"widths": tuple(widths), "lines": lines}


def _cell(row: Any) -> dict[str, Any]:
    """One kernel to choose; it has an interval if there are four matrices or more."""
    low, high = row.speedup_low, row.speedup_high
    return {
        "kernel": row.kernel,
        "shown": "cuSPARSE" if row.study == "cusparse" else row.kernel,
        "vendor": row.study == "cusparse",
        "sums": "FP16 sums" if row.sums == "float16" else "",
        "as_fast": _shown(row.runner_up) if row.within_noise else "",
        "speedup": times(row.speedup),
        "interval": f"{significant(low)}–{significant(high)}" if low < high else "",
        "share": percent(row.bound_fraction),
        "bound": row.bound,
        "matrices": int(row.matrices),
        "compared": int(row.compared),
        "wins": int(row.wins),
        "stale": bool(row.stale),
    }


def _shown(kernel: str) -> str:
    return "cuSPARSE" if kernel.startswith("cusparse_best_") else kernel


def opened(choices: list[dict[str, Any]]) -> str:
    """The precision that is shown first: the one with the most cells that have a speed-up; of equal ones the last,
    which is the more accurate."""
    return max(reversed(choices), key=lambda choice: choice["cells"])["precision"] if choices else ""
