"""The opening tables: the kernel to choose by kind of matrix and width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, percent, significant, times

if TYPE_CHECKING:
    import pandas as pd

#: Most widths side by side in a table; a page of 1280 pixels shows this number in full.
WIDTHS_MOST = 4


def choice(kinds: pd.DataFrame, precision: str) -> dict[str, Any]:
    """The opening tables of a precision: a line per kind of matrix, and at most :data:`WIDTHS_MOST` widths per table.

    Kinds that have the same widths are in the same tables.
    """
    widths = kinds.groupby("kind")["n"].agg(lambda subset: tuple(sorted(map(int, subset))))
    by_cell = {(row.kind, int(row.n)): row for row in kinds.itertuples()}
    tables = []
    for shared, names in widths.groupby(widths, sort=True):
        columns = -(-len(shared) // -(-len(shared) // WIDTHS_MOST))
        for first in range(0, len(shared), columns):
            some = shared[first : first + columns]
            lines = []
            for kind in sorted(names.index):
                cells = [_cell(by_cell[kind, n]) for n in some]
                lines.append({"kind": kind, "matrices": max(cell["matrices"] for cell in cells), "cells": cells})
            tables.append({"widths": some, "lines": lines})
    tables.sort(key=lambda table: (-len(table["lines"]), table["widths"]))
    return {"precision": PRECISIONS[precision], "cells": int(kinds["speedup"].notna().sum()), "tables": tables}


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
