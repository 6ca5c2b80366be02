"""Tables of two devices beside each other: suites, choices of kernels, and claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...figures.numbers import PRECISIONS, percent, times
from .cells import KERNEL, Cell, Column, Table, code, count, missing, number, precision, table, text
from .study import SHOWN

if TYPE_CHECKING:
    import pandas as pd

#: Extra time by which a choice loses visibly: two recordings of one case differ by less.
NOISE = 0.03


def _spread(row: Any) -> Cell:
    return Cell(
        f"{times(row.speedup_lower_quartile)} – {times(row.speedup_upper_quartile)}", row.speedup_lower_quartile
    )


def _columns(device: str, other: str, titles: Mapping[str, str]) -> tuple[Column, ...]:
    return (
        Column("L2", "l2", text),
        Column("cases", "cases", count),
        Column("matrices", "matrices", count),
        Column(f"{titles[other]} over {titles[device]}", "speedup", number(times)),
        Column("middle half of the cases", None, _spread),
        Column("by their limits", "limit_ratio", number(times)),
        Column(f"share of its limit, {titles[device]}", "bound_fraction", number(percent)),
        Column(f"share of its limit, {titles[other]}", "other_bound_fraction", number(percent)),
    )


def by_suite(rows: pd.DataFrame, device: str, other: str, titles: Mapping[str, str]) -> Table:
    """A line for each suite and state of L2 over all kernels; ``rows``: of ``analysis_between``, of this pair."""
    suite = Column("suite", "suite", lambda suite: text(suite or "all suites"))
    own = rows[rows["kernel"] == ""]
    caption = "How many times as fast a kernel is on the other device: geometric means over kernels and cases"
    return table(caption, (suite, *_columns(device, other, titles)), own.itertuples(), opened=True)


def by_kernel(rows: pd.DataFrame, device: str, other: str, titles: Mapping[str, str]) -> Table:
    """A line for each kernel and state of L2 over all suites."""
    own = rows[(rows["suite"] == "") & (rows["kernel"] != "")]
    caption = "The same by kernel, over all suites"
    return table(caption, (KERNEL, *_columns(device, other, titles)), own.itertuples())


def swapped(rows: pd.DataFrame, device: str, other: str, titles: Mapping[str, str]) -> Table:
    """A line for each precision; ``rows``: of ``analysis_swapped``, of this pair."""
    columns = (
        Column("precision", "precision", precision),
        Column("cases", "cases", count),
        Column("another kernel is the fastest", "differs", count),
        Column("and it matters (> 3 %)", "matters", count),
        Column(f"loss on {titles[device]}", "loss", number(percent)),
        Column("worst", "worst", number(percent)),
        Column(f"loss on {titles[other]}", "other_loss", number(percent)),
        Column("worst there", "other_worst", number(percent)),
        Column("most frequent pair", "pair", code),
    )
    caption = "What it costs to take the kernel that is the fastest on the other device; losses are geometric means"
    return table(caption, columns, _by_precision(rows), opened=True)


def _by_precision(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    import numpy as np

    for name in PRECISIONS:
        own = rows[rows["precision"] == name]
        if own.empty:
            continue
        differ = own[own["kernel"] != own["other_kernel"]]
        pairs = (differ["kernel"] + " / " + differ["other_kernel"]).value_counts().sort_index()
        top = pairs.idxmax() if len(pairs) else ""
        means = {
            column: float(np.expm1(np.log1p(own[column].astype(float)).mean())) for column in ("loss", "other_loss")
        }
        yield SimpleNamespace(
            precision=name,
            cases=len(own),
            differs=len(differ),
            matters=int((own[["loss", "other_loss"]].max(axis=1) > NOISE).sum()),
            worst=float(own["loss"].max()),
            other_worst=float(own["other_loss"].max()),
            pair=f"{top} ({pairs.max()})" if top else "–",
            **means,
        )


ELSEWHERE = (
    Column("chosen by", None, lambda row: Cell(_chooser(row))),
    Column("judged on", "device", text),
    Column("precision", "precision", precision),
    Column("cases", "cases", count),
    Column("matrices", "matrices", count),
    Column("regret, geometric mean", "regret", number(percent)),
    Column("worst", "worst", number(percent)),
    Column("at most 20 %", "within_fraction", number(percent)),
    Column("the fastest", "fastest_fraction", number(percent)),
)


def _chooser(row: Any) -> str:
    if row.chooser == "costs":
        return "SpMM, by costs"
    if row.trained_on == row.device:
        return f"the selector trained on {row.trained_on}, other matrices"
    return f"the selector trained on {row.trained_on}"


def elsewhere(rows: pd.DataFrame) -> Table:
    """What choices cost on each device; ``rows``: of ``analysis_elsewhere``."""
    caption = "Regret of choices of kernels against the fastest measured one, by device"
    return table(caption, ELSEWHERE, rows.itertuples(), opened=True)


def claims(rows: pd.DataFrame) -> Table:
    """A line for each claim and set, a column for each device; claims with two verdicts come first."""
    devices = sorted(rows["device"].unique())
    columns = (
        Column("claim", "claim", text),
        Column("set", "set", text),
        Column("expected", "expected", text),
        *(Column(device, None, _verdict(device)) for device in devices),
        Column("agree", "agree", text),
    )
    return table("Claims on each device", columns, sorted(_claimed(rows), key=lambda line: line.agree != "no"))


def _claimed(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    for (claim, name), own in rows.groupby(["claim", "set"], sort=False):
        on = {row.device: row for row in own.itertuples()}
        verdicts = {row.verdict for row in on.values()} - {"not_testable"}
        agree = "–" if len(on) < 2 or not verdicts else "yes" if len(verdicts) == 1 else "no"
        yield SimpleNamespace(claim=claim, set=name, expected=next(iter(on.values())).expected, on=on, agree=agree)


def _verdict(device: str):
    def cell(line: Any) -> Cell:
        row = line.on.get(device)
        if row is None:
            return Cell("–")
        verdict = row.verdict.replace("_", " ")
        return (
            Cell(verdict) if missing(row.value) else Cell(f"{SHOWN[row.unit](row.value)}, {verdict}", float(row.value))
        )

    return cell
