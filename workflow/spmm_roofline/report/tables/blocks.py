"""Blocks of transformers: times, ratios to the usual implementation, and what could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...figures.numbers import PRECISIONS, duration, percent, significant, times
from .cells import Cell, Column, Table, count, number, table, text, text_or_dash

if TYPE_CHECKING:
    import pandas as pd


def _implementation(row: Any) -> Cell:
    return Cell(row.implementation, marks=("noisy",) if row.noisy is True else (), note=text_of(row.kernel))


def text_of(value: Any) -> str:
    """A text, empty where there is none."""
    return value if isinstance(value, str) else ""


def _dtype(value: str) -> Cell:
    return Cell(PRECISIONS[value])


def _time(row: Any) -> Cell:
    if row.status != "ok":
        return Cell(row.status.replace("_", " "), note=text_of(row.message))
    return Cell(duration(row.time_ms), row.time_ms, note="with the host" if row.timed == "events" else "")


CASE = (
    Column("dtype", "dtype", _dtype),
    Column("batch", "batch", count),
    Column("length", "sequence", count),
    Column("implementation", None, _implementation),
    Column("time", None, _time),
)
PRUNED = (
    Column("sparsity", "sparsity_fraction", number(percent)),
    *CASE,
    Column("projections", "projections_ms", number(duration)),
    Column("over dense", "over_baseline", number(times)),
    Column("packing and preparing", "plan_ms", number(duration)),
)
MASKED = (
    Column("mask", "pattern", text),
    Column("width", "head_width", count),
    *CASE,
    Column("over SDPA with mask", "over_baseline", number(times)),
    Column("scores computed / in the mask", "padding", number(significant)),
    Column("bound", "bound_ms", number(duration)),
    Column("of the bound", "bound_fraction", number(percent)),
    Column("by", "bound", text_or_dash),
)


def pruned(rows: pd.DataFrame) -> Table:
    """Layers with pruned weights, a line per case and implementation."""
    own = rows[rows["block"] == "pruned"].sort_values(["dtype", "batch", "sequence", "sparsity_fraction"])
    return table("Attention with pruned weights", PRUNED, own.itertuples())


def masked(rows: pd.DataFrame) -> Table:
    """Attention over masks, a line per case and implementation."""
    own = rows[rows["block"] == "masked"].sort_values(["pattern", "head_width", "dtype", "batch", "sequence"])
    return table("Attention over sparse masks", MASKED, own.itertuples())
