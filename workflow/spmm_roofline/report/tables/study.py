"""The studies beside the measurements: the scorecard of their claims, and their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...figures.numbers import listed, percent, significant, times
from ...figures.pruned import NAME, named, spoken
from .cells import Cell, Column, Table, count, table, text

if TYPE_CHECKING:
    import pandas as pd


def _measured(row: Any) -> Cell:
    """The value of a claim with its interval, or why there is none."""
    if row.value != row.value:
        return Cell(row.message, note=row.expression)
    interval = f" ({significant(row.low)} – {significant(row.high)})" if row.low == row.low else ""
    return Cell(significant(row.value) + interval, note=row.expression)


def _suites(row: Any) -> Cell:
    """Suites that a claim was judged on, each with a link to its figures."""
    if not isinstance(row.suites, str) or not row.suites:
        return Cell("–")
    return Cell("", links=tuple((suite, f"{row.device}-{suite}") for suite in row.suites.split(", ")))


CLAIMS = (
    Column("claim", None, lambda row: Cell(row.says, note=row.source)),
    Column("study", "study", text),
    Column("verdict", "verdict", lambda verdict: Cell("", marks=(verdict.replace("_", " "),))),
    Column("expected", "expected", text),
    Column("measured", None, _measured),
    Column("cases", "cases", count),
    Column("suites", None, _suites),
    Column("device", "device", text),
)


def claims(rows: pd.DataFrame) -> Table:
    """The scorecard: the claims of each study, what was measured here, and whether it confirms the claim."""
    return table("Scorecard", CLAIMS, rows.sort_values(["study", "claim", "device"]).itertuples(), opened=True)


def _both(ours: float, published: float, shown: Callable[[float], str]) -> Cell:
    return Cell(f"{shown(ours)} / {shown(published)}", ours)


SHARES = (
    Column("source", "source", text),
    Column("synergy", "matrix", text),
    Column("share", None, lambda row: _both(row.ours, row.published, percent)),
)


def published(rows: pd.DataFrame) -> list[Table]:
    """The papers' ratios beside ours, in the form of the papers' tables: for pruned weights a column per sparsity, for
    other matrices a column per width. Shares of matrices have a separate table."""
    shares = rows["quantity"] == "share_of_matrices"
    pruned = ~shares & rows["matrix"].str.match(NAME)
    found = []
    for (device, suite), subset in rows[~shares].groupby(["device", "suite"], sort=True):
        where = (
            f"{suite} on {device}, ratios over {listed(sorted(_baseline(name) for name in set(subset['quantity'])))}"
        )
        weights = named(subset[pruned.loc[subset.index]])
        if len(weights):
            weights = weights.assign(method=weights["method"].map(spoken), column=weights["sparsity"])
            found.append(_beside(f"{where}, by sparsity", weights, ("source", "n", "method", "kernel"), percent))
        others = subset[~pruned.loc[subset.index]]
        if len(others):
            others = others.assign(column=others["n"])
            found.append(_beside(f"{where}, by N", others, ("source", "matrix", "kernel"), str))
    for device, subset in rows[shares].groupby("device", sort=True):
        caption = f"Share of matrices by synergy on {device}, ours / the paper's"
        found.append(table(caption, SHARES, subset.sort_values(["source", "ours"]).itertuples()))
    return found


def _baseline(quantity: str) -> str:
    name = quantity.removeprefix("over_")
    names = {"best_sc": "the best on scalar cores", "own_call": "cuSPARSE as the study called it"}
    return names.get(name) or name.replace("cusparse", "cuSPARSE")


def _beside(where: str, rows: pd.DataFrame, index: tuple[str, ...], shown: Callable[[Any], str]) -> Table:
    """A line per combination of ``index`` and a column per value of ``column``, each cell ours / the paper's."""

    def ratio(value: Any) -> Column:
        def cell(line: Any) -> Cell:
            if value not in line[1]:
                return Cell("–")
            ours, theirs = line[1][value]
            return _both(ours, theirs, times)

        return Column(shown(value), None, cell)

    def key(position: int, name: str) -> Column:
        cell = count if name == "n" else text
        return Column("N" if name == "n" else name, None, lambda line: cell(line[0][position]))

    lines = [
        (values, {row.column: (row.ours, row.published) for row in own.itertuples()})
        for values, own in rows.groupby(list(index), sort=True)
    ]
    columns = [key(position, name) for position, name in enumerate(index)]
    columns += [ratio(value) for value in sorted(rows["column"].unique())]
    return table(f"Ours / the paper's: {where}", columns, lines)
