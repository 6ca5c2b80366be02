"""All rows: those without a time as a table, and every one for the page's script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import contracts
from .cells import Cell, Column, Table, code, count, table, text, text_or_dash

if TYPE_CHECKING:
    import pandas as pd

UNTIMED = (
    Column("kernel", "kernel", code),
    Column("status", "status", lambda status: Cell(status.replace("_", " "))),
    Column("rows", "rows", count),
    Column("why", "message", text_or_dash),
    Column("for example", "example", text),
    Column("suite", "suite", text),
    Column("device", "device", text),
)


def untimed(rows: pd.DataFrame) -> Table:
    """All rows whose status is not ok, a line per device, suite, kernel and reason."""
    return table("Rows without a time", UNTIMED, rows[rows["status"] != "ok"].itertuples())


#: Columns of the table of all rows that the page shows.
SHOWN = [
    "device",
    "suite",
    "matrix",
    "kind",
    "kernel",
    "precision",
    "n",
    "l2",
    "time_ms",
    "useful_gflops",
    "speedup",
    "bound",
    "bound_fraction",
    "rel_error",
    "status",
    "origin",
    "stale",
    "noisy",
    "throttled",
]
#: Columns of the roofline that the cases lack; ``bound`` of the roofline is called ``ceiling``.
OF_ROOFLINE = ["counted", "ceiling", "distance", "dram_flop_per_byte", "cache_flop_per_byte", "dram_limit_gflops"]
OF_ROOFLINE += ["l2_limit_gflops", "launch_limit_gflops", "save_dram_bytes", "save_l2_bytes", "save_flops"]
#: The other columns, which only the download has.
FURTHER = [*(name for name in contracts.table("analysis_cases").names if name not in SHOWN), *OF_ROOFLINE]


def with_limits(cases: pd.DataFrame, roofline: pd.DataFrame) -> pd.DataFrame:
    """Cases with their bound at the counted bytes (``ceiling``), the distance from it, and what they must save."""
    case = ["device", "suite", "kernel", "matrix", "n", "l2"]
    limits = roofline.rename(columns={"bound": "ceiling"})[[*case, *OF_ROOFLINE]]
    return cases.merge(limits, on=case, how="left")


def all_rows(cases: pd.DataFrame) -> dict[str, Any]:
    """Every row of :func:`with_limits` for the page's script, column by column, which compresses better than by row.

    ``columns``: names; ``shown``: the number of columns in the table; ``values``: a list for each column; ``texts``:
    index of a text column → its distinct texts, to which its values are indices, since texts repeat in many rows.
    """
    columns = SHOWN + FURTHER
    values, texts = [], {}
    for at, column in enumerate(columns):
        plain = _plain(cases[column])
        if cases[column].dtype.kind in "Ob" and any(isinstance(value, str) for value in plain):
            plain = ["" if value is None else value for value in plain]
            texts[at] = sorted(set(plain))
            number_of = {text: number for number, text in enumerate(texts[at])}
            plain = [number_of[text] for text in plain]
        values.append(plain)
    return {"columns": columns, "shown": len(SHOWN), "texts": texts, "values": values}


def _plain(values: pd.Series) -> list[Any]:
    """JSON values of a column: None where one is missing, "yes" or "" for booleans, six significant digits."""
    given, gaps = values.tolist(), values.isna().tolist()
    if values.dtype.kind == "f":
        return [None if gap else float(f"{value:.6g}") for value, gap in zip(given, gaps, strict=True)]
    if values.dtype.kind == "b":
        return [None if gap else "yes" if value else "" for value, gap in zip(given, gaps, strict=True)]
    return [None if gap else value for value, gap in zip(given, gaps, strict=True)]
