"""Rows without a time
Share of the rows of each kernel by outcome, for kernels with at least one row that is not ok. Only a verified result
has a time, so these rows have a mark in no other figure."""

from __future__ import annotations

from .numbers import counted, listed
from .style import canvas

SECTION, ORDER, PER = "suite", 5, ("device", "suite")

COLOURS = {
    "ok": "#b9c0ca",
    "wrong": "#d55e00",
    "unsupported": "#56a5d8",
    "compile_failed": "#cc79a7",
    "launch_failed": "#7a5cc0",
    "out_of_memory": "#b8860b",
    "timeout": "#009e73",
}


def draw(tables, styles):
    counts = tables["status"].groupby(["kernel", "status"])["rows"].sum().unstack(fill_value=0)
    counts = counts.reindex(columns=[status for status in COLOURS if status in counts])
    counts = counts[counts.drop(columns="ok", errors="ignore").sum(axis=1) > 0] if len(counts) else counts
    if counts.empty:
        return None
    shares = 100 * counts.div(counts.sum(axis=1), axis=0).iloc[::-1]
    figure, (ax,) = canvas(1, 1, 1.0 + 0.3 * len(shares))
    start = 0 * shares.iloc[:, 0]
    for status in shares:
        ax.barh(shares.index, shares[status], left=start, color=COLOURS[status], height=0.62, label=status)
        start = start + shares[status]
    ax.set(xlim=(0, 100), ylim=(-0.6, len(shares) - 0.4), xlabel="rows (%)")
    ax.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=len(shares.columns))
    return figure


def says(tables):
    status = tables["status"]
    failed = status[status["status"] != "ok"]
    if failed.empty:
        return ""
    by_status = failed.groupby("status")["rows"].sum().sort_values(ascending=False, kind="stable")
    counts = [f"{rows:,} {name.replace('_', ' ')}" for name, rows in by_status.items()]
    total, lost = int(status["rows"].sum()), int(failed["rows"].sum())
    said = listed(counts) if len(counts) > 1 else by_status.index[0].replace("_", " ")
    return f"{lost:,} of {counted(total, 'row')} {'has' if lost == 1 else 'have'} no time: {said}."
