"""Rows without a time
Share of the rows of each kernel by outcome, for kernels with at least one row that is not ok. Only a verified result
has a time, so these rows have a mark in no other figure."""

from __future__ import annotations

from .bars import divided, key
from .numbers import counted, listed
from .style import canvas

SECTION, ORDER, PER = "suite", 5, ("device", "suite")

COLOURS = {
    "ok": "#64686f",
    "wrong": "#d55e00",
    "unsupported": "#2f9cd4",
    "compile_failed": "#cc79a7",
    "launch_failed": "#7a5cc0",
    "out_of_memory": "#a0522d",
    "timeout": "#009e73",
}


def draw(tables, styles):
    rows = tables["status"]
    rows = rows[rows["kernel"].isin(rows.loc[rows["status"] != "ok", "kernel"])]
    if rows.empty:
        return None
    kernels = sorted(rows["kernel"].unique())
    colours = {status: colour for status, colour in COLOURS.items() if (rows["status"] == status).any()}
    figure, (ax,) = canvas(1, 1, 1.0 + 0.3 * len(kernels))
    divided(ax, rows.assign(rows=rows["rows"].astype(float)), "status", colours, kernels, "rows")
    ax.set(xlabel="rows (%)")
    ax.grid(axis="x")
    figure.legend(handles=key(colours), loc="outside lower center", ncols=len(colours))
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
