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

#: Column → what it is nearly a multiple of: columns to multiply and a column to divide by. The page holds the factor
#: that is left over, which few rows do not share and which compresses to next to nothing. Entries may use earlier ones.
RELATIVE = {
    "time_p10_ms": (["time_ms"], None),
    "time_p90_ms": (["time_ms"], None),
    "time_low_ms": (["time_ms"], None),
    "time_high_ms": (["time_ms"], None),
    "useful_gflops": (["nnz", "n"], "time_ms"),
    "padded_gflops": (["useful_gflops"], None),
    "speedup": (["baseline_ms"], "time_ms"),
    "preprocess_ms": (["pack_ms"], None),
    "intensity_flop_per_byte": (["nnz", "n"], "compulsory_bytes"),
    "bandwidth_limit_gflops": (["intensity_flop_per_byte"], None),
    "launch_limit_gflops": (["nnz", "n"], "replay_ms"),
    "dram_limit_gflops": (["memory_limit_gflops"], None),
    "l2_limit_gflops": (["memory_limit_gflops"], None),
    "bound_fraction": (["useful_gflops"], "memory_limit_gflops"),
    "distance": ([], "bound_fraction"),
}
#: Significant digits of a number, and of columns that need fewer: errors, which differ from run to run, times that are
#: measured once, quantiles and intervals, which are factors of the time, and times, which have steps of 32 ns.
DIGITS = 5
FEWER_DIGITS = {
    "max_row_error": 1,
    **dict.fromkeys(("rel_error", "look_ms", "pack_ms", "preprocess_ms"), 2),
    # Below 1 a factor has one digit less than above, and as many decimals.
    **{"time_p10_ms": 2, "time_p90_ms": 3, "time_low_ms": 3},
    **dict.fromkeys(("time_ms", "time_high_ms", "baseline_ms", "bound_fraction"), 4),
}


def with_limits(cases: pd.DataFrame, roofline: pd.DataFrame) -> pd.DataFrame:
    """Cases with their bound at the counted bytes (``ceiling``), the distance from it, and what they must save."""
    case = ["device", "suite", "kernel", "matrix", "n", "l2"]
    limits = roofline.rename(columns={"bound": "ceiling"})[[*case, *OF_ROOFLINE]]
    return cases.merge(limits, on=case, how="left")


def in_order(cases: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the page: neighbours are alike in most columns. By device first, they take 8 % more."""
    return cases.sort_values(["suite", "kernel", "n", "matrix", "device"], kind="stable")


def all_rows(cases: pd.DataFrame) -> dict[str, Any]:
    """Every row of :func:`with_limits` for the page's script, column by column, which compresses better than by row.

    ``columns``: names; ``shown``: the number of columns in the table; ``values``: a list for each column; ``texts``:
    index of a text column → its distinct texts, to which its values are indices, since texts repeat in many rows;
    ``relative``: for each column whose values are factors its index, the indices of the columns to multiply them by,
    and the index of the column to divide them by or None (see :data:`RELATIVE`), in the order in which to compute them.
    """
    columns = SHOWN + FURTHER
    cases = in_order(cases)
    values, texts, given = [], {}, _relative(cases)
    for at, column in enumerate(columns):
        plain = _plain(given.get(column, cases[column]), FEWER_DIGITS.get(column, DIGITS))
        if cases[column].dtype.kind in "Ob" and any(isinstance(value, str) for value in plain):
            plain = ["" if value is None else value for value in plain]
            texts[at] = sorted(set(plain))
            number_of = {text: number for number, text in enumerate(texts[at])}
            plain = [number_of[text] for text in plain]
        values.append(plain)
    number = {column: at for at, column in enumerate(columns)}
    relative = [
        [number[column], [number[name] for name in times], None if over is None else number[over]]
        for column, (times, over) in RELATIVE.items()
        if column in given
    ]
    return {"columns": columns, "shown": len(SHOWN), "texts": texts, "relative": relative, "values": values}


def _relative(cases: pd.DataFrame) -> dict[str, pd.Series]:
    """Column → its factors, for those of :data:`RELATIVE` whose values all follow from them."""
    import numpy as np

    found = {}
    for column, (times, over) in RELATIVE.items():
        value = cases[column].astype("float64")
        # What is missing leaves the value as it is, as in the page.
        of, by = (
            np.prod([cases[name].astype("float64").fillna(1.0) for name in names], axis=0) if names else 1.0
            for names in (times, [over] if over else [])
        )
        factor = (value * by / of).where(value != 0, 0.0)
        if np.isfinite(factor[value.notna()]).all():
            found[column] = factor.where(value.notna())
    return found


def _plain(values: pd.Series, digits: int = DIGITS) -> list[Any]:
    """JSON values of a column: None where one is missing, "yes" or "" for booleans, numbers of some ``digits``."""
    given, gaps = values.tolist(), values.isna().tolist()
    if values.dtype.kind == "f":
        found = [None if gap else float(f"{value:.{digits}g}") for value, gap in zip(given, gaps, strict=True)]
        return [int(value) if value is not None and value.is_integer() else value for value in found]
    if values.dtype.kind == "b":
        return [None if gap else "yes" if value else "" for value, gap in zip(given, gaps, strict=True)]
    return [None if gap else value for value, gap in zip(given, gaps, strict=True)]
