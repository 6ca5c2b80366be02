"""Every kernel on a matrix of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...analysis.roofline import VALUE_BYTES
from ...figures.numbers import duration, percent, size
from .cells import Cell, Column, Table, code, number, table, text_or_dash

if TYPE_CHECKING:
    import pandas as pd


def _time(n: int) -> Callable[[Mapping[int, Any]], Cell]:
    """Function from the rows of a kernel, by width, to the cell of one width."""

    def cell(line: Mapping[int, Any]) -> Cell:
        row = line.get(n)
        if row is None:
            return Cell("–")
        predicted = row.predicted_ms == row.predicted_ms
        note = ""
        if predicted and row.low_ms == row.low_ms:
            note = f"± {percent(row.high_ms / row.predicted_ms - 1)}"
        if row.measured_ms == row.measured_ms:
            note = f"predicted {duration(row.predicted_ms)}" if predicted else ""
            return Cell(duration(row.measured_ms), float(row.measured_ms), ("measured",), note=note)
        return Cell(duration(row.predicted_ms), float(row.predicted_ms), note=note)

    return cell


def _share(n: int) -> Callable[[Mapping[int, Any]], Cell]:
    """The longest limit, and how much of it a kernel reaches."""

    def cell(line: Mapping[int, Any]) -> Cell:
        row = line.get(n)
        if row is None or not row.bound:
            return Cell("–")
        limit = getattr(row, f"{row.bound}_ms")
        time = row.measured_ms if row.measured_ms == row.measured_ms else row.predicted_ms
        share = reached(limit, time)
        return Cell(percent(share), share, note=f"{row.bound}, {duration(limit)}")

    return cell


def reached(limit_ms: float, time_ms: float) -> float:
    """Share of a limit that a time reaches, 1 at most: a prediction may fall short of it by its error."""
    return min(1.0, float(limit_ms / time_ms))


def _bytes(packed: Mapping[str, Any]) -> Callable[[Mapping[int, Any]], Cell]:
    """Function from the rows of a kernel, by width, to the bytes of A; ``packed``: format → its row of ``formats``.

    A format was packed in one dtype; the bytes of others differ by the size of its stored values. What was not packed
    is the estimate of the selector.
    """

    def cell(line: Mapping[int, Any]) -> Cell:
        row = line[max(line)]
        real = packed.get(row.format)
        if real is None:
            estimated = row.format_bytes == row.format_bytes
            return Cell(f"≈ {size(row.format_bytes)}", row.format_bytes, note="estimated") if estimated else Cell("–")
        wider = VALUE_BYTES[row.precision] - VALUE_BYTES[real.dtype]
        return number(size)(real.format_bytes + wider * real.stored_slots)

    return cell


def _of_widest(shown: Callable[[Any], Cell], field: str) -> Callable[[Mapping[int, Any]], Cell]:
    return lambda line: shown(getattr(line[max(line)], field))


def _pays_back(line: Mapping[int, Any]) -> Cell:
    row = line[max(line)]
    if row.preprocess_ms != row.preprocess_ms:
        return Cell("–")
    calls = row.pays_back_calls
    after = "never" if calls != calls else "at once" if calls == 0 else f"after {calls:,.0f}"
    return Cell(after, None if calls != calls else float(calls))


def narrow(sums: str) -> str:
    """The mark of a kernel that accumulates in FP16, since most others add in FP32; empty for these."""
    return "FP16 sums" if sums == "float16" else ""


def kernels(rows: pd.DataFrame, caption: str, formats: pd.DataFrame) -> Table:
    """A line per kernel of one device and precision, with a time and a limit for each width, the fastest first.

    ``formats``: rows of the matrix in the table ``formats``.
    """
    packed = {row.format: row for row in formats[formats["status"] == "ok"].itertuples()}
    widths = sorted(map(int, rows["n"].unique()))
    rows = rows.astype({"pays_back_calls": "float64", "format_bytes": "float64"})
    lines = [{int(row.n): row for row in own.itertuples()} for _, own in rows.groupby("kernel", sort=True)]
    lines.sort(key=lambda line: (-max(line), line[max(line)].rank))
    columns = [
        Column("kernel", None, lambda line: code(line[max(line)].kernel, narrow(line[max(line)].sums))),
        Column("format", None, _of_widest(text_or_dash, "format")),
        *(
            column
            for n in widths
            for column in (Column(f"N = {n}", None, _time(n)), Column("of its limit", None, _share(n)))
        ),
        Column("A in this format", None, _bytes(packed)),
        Column("before the first product", None, _of_widest(number(duration), "preprocess_ms")),
        Column("pays back", None, _pays_back),
        Column("largest part of the time", None, _of_widest(text_or_dash, "spent_on")),
    ]
    return table(caption, columns, lines)
