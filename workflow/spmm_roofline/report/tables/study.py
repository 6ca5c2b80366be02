"""The studies beside the measurements: the scorecard of their claims, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...figures.numbers import listed, percent, significant, times
from ...figures.pruned import NAME, named, spoken
from ...figures.quantities import QUANTITIES, one_each
from .cells import Cell, Column, Table, count, table, text

if TYPE_CHECKING:
    import pandas as pd


#: Unit of a claim → how a value is shown.
SHOWN: dict[str, Callable[[float], str]] = {
    "times": times,
    "fraction": percent,
    "correlation": significant,
    "count": lambda value: f"{value:,.0f}",
}


def _measured(row: Any, differs: bool) -> Cell:
    """A set of matrices with the value of a claim there and its interval, or why there is no value.

    ``differs``: the sets have different verdicts, so that each has its own.
    """
    suites = row.suites.split(", ") if isinstance(row.suites, str) and row.suites else []
    links = tuple((suite, f"{row.device}-{suite}") for suite in suites)
    mark = ((row.verdict.replace("_", " "),) if differs else ()) + (("stale",) if row.stale is True else ())
    if row.value != row.value:
        return Cell(f"{row.set}: {row.message}", marks=mark)
    shown = SHOWN[row.unit]
    interval = f" ({shown(row.low)} – {shown(row.high)})" if row.low == row.low else ""
    many = f"{count(row.matrices).text} {'matrix' if row.matrices == 1 else 'matrices'}"
    return Cell(f"{shown(row.value)}{interval} on {row.set}, {many}: ", links=links, marks=mark)


def _ours(sets: list[Any]) -> Cell:
    differs = len({row.verdict for row in sets}) > 1
    return Cell("", lines=tuple(_measured(row, differs) for row in sets), title=sets[0].expression)


def _paper(sets: list[Any]) -> Cell:
    paper, shown = sets[0].paper, SHOWN[sets[0].unit]
    return Cell(shown(paper), paper) if paper == paper else Cell("–")


def _why(sets: list[Any]) -> Cell:
    """The verdict over all sets, and why it differs."""
    return Cell(
        "", marks=(sets[0].overall.replace("_", " "),), note=sets[0].why if isinstance(sets[0].why, str) else ""
    )


#: Columns over the sets of a claim.
CLAIMS = (
    Column("claim", None, lambda sets: Cell(sets[0].says, note=sets[0].source)),
    Column("the paper's", None, _paper),
    Column("expected", None, lambda sets: Cell(sets[0].expected)),
    Column("ours", None, _ours),
    Column("verdict", None, _why),
)


def claims(rows: pd.DataFrame) -> list[Table]:
    """The claims of a study, a table for each device: what it says, its number and ours, and whether they agree."""
    return [
        table(
            f"Claims judged on {device}",
            CLAIMS,
            [list(sets.itertuples()) for _, sets in own.groupby("claim", sort=False)],
            opened=True,
        )
        for device, own in rows.groupby("device", sort=True)
    ]


#: Outcomes of a claim over all its sets, the best first.
VERDICTS = ("reproduced", "in_part", "not_reproduced", "undecided", "not_testable")


def _at(place: int) -> Callable[[Any], Cell]:
    return lambda line: count(line[place])


def scorecard(rows: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    """The number of claims with each verdict, a line for each study and device. ``titles``: study → its title."""
    once = rows.drop_duplicates(["device", "claim"])
    counts = once.groupby(["study", "device", "overall"]).size().unstack(fill_value=0).reindex(columns=VERDICTS)
    lines = [
        (study, device, *counts.loc[(study, device)].fillna(0).astype(int))
        for study in titles
        for device in sorted(once.loc[once["study"] == study, "device"].unique())
    ]
    columns = [
        Column("study", None, lambda line: Cell("", links=((titles[line[0]], f"study-{line[0]}"),))),
        Column("device", None, lambda line: Cell(line[1])),
        *(Column(verdict.replace("_", " "), None, _at(place)) for place, verdict in enumerate(VERDICTS, 2)),
    ]
    return table("Claims by study and verdict", columns, lines, opened=True)


SHARES = (
    Column("source", "source", text),
    Column("synergy", "matrix", text),
    Column("suite", "suite", text),
    Column("share", None, lambda row: _both(row.ours, row.published, percent)),
)


def _both(ours: float, published: float, shown: Callable[[float], str]) -> Cell:
    return Cell(f"{shown(ours)} / {shown(published)}", ours)


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


def counters(rows: pd.DataFrame) -> list[Table]:
    """The papers' counters beside ours on pruned weights, a table for each device and suite that has one of ours; a
    line per sparsity and kernel, and a column per quantity."""
    found = []
    for (device, suite), own in rows.groupby(["device", "suite"], sort=True):
        if own["ours"].isna().all():
            continue
        means = one_each(own)
        names = [name for name in QUANTITIES if name in set(means["quantity"])]
        alike = [QUANTITIES[name].title for name in names if means.loc[means["quantity"] == name, "comparable"].all()]
        caption = f"Counters, ours / the paper's: {suite} on {device}; independent of the GPU: {listed(alike)}"
        lines = [
            (case, {row.quantity: (row.ours, row.published) for row in group.itertuples()})
            for case, group in means.groupby(["sparsity", "n", "kernel"], sort=True)
        ]
        columns = (
            Column("sparsity", None, lambda line: Cell(percent(line[0][0]), line[0][0])),
            Column("N", None, lambda line: count(line[0][1])),
            Column("kernel", None, lambda line: text(line[0][2])),
            *(Column(QUANTITIES[name].title, None, _counter(name)) for name in names),
        )
        found.append(table(caption, columns, lines))
    return found


def _counter(name: str) -> Callable[[Any], Cell]:
    def cell(line: Any) -> Cell:
        if name not in line[1]:
            return Cell("–")
        ours, theirs = line[1][name]
        shown = QUANTITIES[name].text
        return Cell(f"{shown(ours)} / {shown(theirs)}", ours if ours == ours else None)

    return cell


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
