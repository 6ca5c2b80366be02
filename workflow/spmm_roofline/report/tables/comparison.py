"""Comparisons of kernels: the fastest kernel, its speed-up, and the break-even of its preprocessing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...figures.numbers import duration, percent, rate, significant, times
from .cells import (
    KERNEL,
    Cell,
    Column,
    Table,
    code,
    count,
    interval,
    missing,
    number,
    precision,
    table,
    text,
    text_or_dash,
    wins,
)

if TYPE_CHECKING:
    import pandas as pd


def _behind(row: Any) -> Cell:
    """The runner-up and its extra time in per cent."""
    return code(f"{row.runner_up} (+{percent(row.runner_up_ms / row.time_ms - 1)})" if row.runner_up else "–")


FASTEST = (
    Column("matrix", "matrix", code),
    Column("kind", "kind", text),
    Column("N", "n", count),
    Column("precision", "precision", precision),
    Column("fastest kernel", None, KERNEL.shown),
    Column("time", "time_ms", number(duration)),
    Column("useful rate", "useful_gflops", number(rate)),
    Column("over cuSPARSE", "speedup", number(times)),
    Column("bound", "bound", text_or_dash),
    Column("share of bound", "bound_fraction", number(percent)),
    Column("runner-up", None, _behind),
)


def fastest(rows: pd.DataFrame) -> Table:
    return table("The fastest kernel of each case", FASTEST, rows.itertuples())


SPEEDUP = (
    KERNEL,
    Column("study", "study", text),
    Column("precision", "precision", precision),
    Column("N", "n", count),
    Column("geometric mean", "geomean", number(times)),
    Column("95 % interval", None, lambda row: interval(row.geomean_low, row.geomean_high, "fewer than 4 matrices")),
    Column("worst", "worst", number(times)),
    Column("best", "best", number(times)),
    Column("faster on", None, lambda row: wins(row.wins, row.matrices)),
)


def speedup(rows: pd.DataFrame) -> Table:
    caption = "Speed-up over cusparse_best: geometric mean over matrices with its 95 % bootstrap interval"
    return table(caption, SPEEDUP, rows.itertuples())


def across(rows: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    """Kernel × device, over the cases that all devices ran; the first of ``titles`` is the reference."""
    devices = [device for device in titles if device in set(rows["device"])]
    columns = [
        KERNEL,
        Column("precision", "precision", precision),
        Column("L2", "l2", text),
        Column("cases", "cases", count),
        *(column for device in devices for column in _of_device(device, devices[0], titles)),
    ]
    return table("Kernels on several devices, over the cases that these share", columns, _by_kernel(rows))


def _by_kernel(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    """Each kernel in each state of L2, with its row for each device in ``on``."""
    for (kernel, l2), own in rows.groupby(["kernel", "l2"], sort=True):
        on = {row.device: row for row in own.itertuples()}
        one = next(iter(on.values()))
        stale = own["stale"].any()
        yield SimpleNamespace(kernel=kernel, l2=l2, stale=stale, precision=one.precision, cases=one.cases, on=on)


def _of_device(device: str, first: str, titles: Mapping[str, str]) -> Iterator[Column]:
    """Columns of one device; every device except ``first`` has a ratio over ``first``."""

    def reads(field: str, of: str = device):
        return lambda row: getattr(row.on[of], field) if of in row.on else None

    def column(title: str, value, shown) -> Column:
        return Column(title, None, lambda row: number(shown)(value(row)))

    own, reference = reads("useful_gflops"), reads("useful_gflops", first)

    def ratio(row: Any) -> float | None:
        return own(row) / reference(row) if {device, first} <= row.on.keys() else None

    yield column(titles[device], own, rate)
    if device != first:
        yield column(f"over {titles[first]}", ratio, times)
    yield column("over cuSPARSE", reads("speedup"), times)
    yield column("share of its limit", reads("bound_fraction"), percent)


#: Factors over the least time that the table of performance profiles shows.
TAUS = (1.0, 1.1, 1.5, 2.0, 5.0)


def _within(tau: float) -> Callable[[Any], Cell]:
    return lambda row: number(percent)(row.within[tau])


PERFORMANCE = (
    KERNEL,
    Column("study", "study", text),
    Column("precision", "precision_class", precision),
    Column("L2", "l2", text),
    Column("cases", "cases", count),
    Column("without a time", None, lambda row: count(row.cases - row.ran)),
    *(Column("fastest" if tau == 1 else f"{tau:g}×", None, _within(tau)) for tau in TAUS),
)


def performance(rows: pd.DataFrame) -> Table:
    """Points of the performance profiles, a line per kernel, sorted by the share of cases at τ = 2."""
    caption = "Share of the cases on which a kernel is the fastest, or within a factor of the fastest"
    return table(caption, PERFORMANCE, _profiles(rows))


def _profiles(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    if rows.empty:
        return
    keys = ["device", "l2", "precision_class", "study", "kernel", "cases", "ran", "stale"]
    wide = rows[rows["tau"].isin(TAUS)].pivot(index=keys, columns="tau", values="share_fraction")
    wide = wide.reset_index().sort_values(["precision_class", "l2", 2.0, "kernel"], ascending=[True, True, False, True])
    for row in wide.to_dict("records"):
        yield SimpleNamespace(**{key: row[key] for key in keys}, within={tau: row[tau] for tau in TAUS})


#: Numbers of products for which the table shows the share of cases that have broken even.
PRODUCTS = (1, 10, 100, 1000)


def _after(products: int) -> Callable[[Any], Cell]:
    return lambda row: number(percent)(row.after[products])


def _calls(products: float) -> Cell:
    """A number of products, or that there is none."""
    return Cell("never", math.inf) if products == math.inf else count(products)


BREAK_EVEN = (
    KERNEL,
    Column("study", "study", text),
    Column("precision", "precision", precision),
    Column("L2", "l2", text),
    Column("cases", "cases", count),
    Column("pack", "pack_ms", number(duration)),
    Column("look", "look_ms", number(duration)),
    Column("compile, once", "compile_ms", number(duration)),
    Column("preprocessing / multiplication", "preprocessing", number(significant)),
    Column("pays back after: lower quartile", "lower", _calls),
    Column("median", "median", _calls),
    Column("upper quartile", "upper", _calls),
    Column("never pays back", "never", number(percent)),
    *(Column(f"by {products:,}", None, _after(products)) for products in PRODUCTS),
)


def break_even(rows: pd.DataFrame) -> Table:
    """Cost and break-even of preprocessing, a line per kernel, over all its cases with a baseline.

    Quartiles are over all cases; a case on which the kernel is no faster than cuSPARSE counts as never.
    """
    return table(
        "Preprocessing (medians), and after how many products it has paid back against cuSPARSE",
        BREAK_EVEN,
        _paid(rows),
    )


def _paid(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    own = rows[rows["speedup"].notna() & rows["preprocess_products"].notna() & (rows["study"] != "cusparse")]
    for (dtype, l2, study, kernel), subset in own.groupby(["precision_class", "l2", "study", "kernel"], sort=True):
        calls = subset["break_even"].astype("float64").fillna(math.inf)
        # Between a number and never there is no middle.
        lower, median, upper = calls.quantile([0.25, 0.5, 0.75], interpolation="higher")
        yield SimpleNamespace(
            kernel=kernel,
            stale=subset["stale"].any(),
            study=study,
            precision=dtype,
            l2=l2,
            cases=len(subset),
            pack_ms=subset["pack_ms"].median(),
            look_ms=subset["look_ms"].median(),
            compile_ms=subset["compile_ms"].median(),
            preprocessing=subset["preprocess_products"].median(),
            lower=lower,
            median=median,
            upper=upper,
            never=float((calls == math.inf).mean()),
            after={products: float((calls <= products).mean()) for products in PRODUCTS},
        )


#: Classes of synergy in the order of the page.
CLASSES = {"high": 0, "medium": 1, "low": 2, "all": 3}

SYNERGY = (
    Column("kernel", "kernel", code),
    Column("N", "n", count),
    Column("synergy", "synergy", lambda name: Cell(name, CLASSES[name])),
    Column("matrices", "matrices", count),
    Column("geometric mean", "geomean", number(times)),
    Column("95 % interval", None, lambda row: interval(row.geomean_low, row.geomean_high, "–")),
    Column("faster on", None, lambda row: Cell("–") if missing(row.geomean) else wins(row.wins, row.matrices)),
    Column("median rate", "median_gflops", number(rate)),
    Column("rank correlation of α and rate", "spearman", number(lambda value: significant(value, 2))),
)


def synergy(rows: pd.DataFrame) -> Table:
    """Speed-ups over the best on scalar cores by class of synergy."""
    order = rows.sort_values(
        ["kernel", "n", "synergy"], key=lambda column: column.map(CLASSES) if column.name == "synergy" else column
    )
    caption = "Synergy: speed-up over the best kernel on scalar cores by class of brick density α"
    return table(caption, SYNERGY, order.itertuples())


FAMILIES = (
    Column("family", "name", code),
    Column("precision", "precision", precision),
    Column("N", "n", count),
    Column("cases", "cases", count),
    Column("geometric mean over cuSPARSE", "mean", number(times)),
    Column("faster on", "faster", text),
    Column("chosen most", "most", code),
    Column("never chosen", "never", code),
)


def families(rows: pd.DataFrame) -> Table:
    """Each family as one kernel, the fastest member of each case; a line per width."""
    return table("The best of a family, case by case", FAMILIES, _chosen(rows))


def _chosen(rows: pd.DataFrame) -> Iterable[SimpleNamespace]:
    import numpy as np

    members = rows.groupby("family")["kernel"].unique()
    for (family, dtype, n), own in rows.groupby(["family", "precision", "n"], sort=True):
        ratios = own["speedup"].dropna()
        chosen = own["kernel"].value_counts()
        most = sorted(chosen[chosen == chosen.max()].index)[0]
        yield SimpleNamespace(
            name=f"{family}_best",
            precision=dtype,
            n=n,
            cases=len(own),
            mean=float(np.exp(np.log(ratios).mean())) if len(ratios) else None,
            faster=f"{int((ratios > 1).sum())} of {len(ratios)}",
            most=f"{most} ({chosen.max()})",
            never=", ".join(sorted(set(members[family]) - set(chosen.index))) or "–",
        )
