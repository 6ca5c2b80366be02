"""Sections with figures and tables: all kernels together, whole blocks, and one section for each suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, counted
from ..figures.sentences import population
from .sentences import about, baseline_says
from .tables import blocks as block_tables
from .tables import comparison, limited

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn


def together(data: dict[str, pd.DataFrame], drawn: list[Drawn]) -> Iterable[dict[str, Any]]:
    """For each device: all kernels on the same matrices, with the figures of each state of L2."""
    for device, rows in data["together"].groupby("device", sort=True):
        figures = [figure for figure in drawn if figure.kind.section == "together" and figure.of["device"] == device]
        states = [
            {"l2": l2, "figures": own}
            for l2 in sorted(rows["l2"].unique())
            if (own := [figure for figure in figures if figure.of["l2"] == l2])
        ]
        performance = data["performance"]
        if states:
            yield {
                "device": device,
                "states": states,
                "performance": comparison.performance(performance[performance["device"] == device]),
                "break_even": comparison.break_even(rows),
            }


def blocks(data: dict[str, pd.DataFrame], drawn: list[Drawn]) -> Iterable[dict[str, Any]]:
    """For each device with rows of blocks: figures and tables."""
    for device, rows in data["blocks"].groupby("device", sort=True):
        yield {
            "device": device,
            "torch": sorted(set(rows["torch"].dropna()) - {""}),
            "figures": [item for item in drawn if item.kind.section == "blocks" and item.of["device"] == device],
            "tables": [block_tables.pruned(rows), block_tables.masked(rows)],
        }


def suites(
    data: dict[str, pd.DataFrame], drawn: list[Drawn], titles: Mapping[str, str], chosen: Collection[str] | None = None
) -> Iterable[dict[str, Any]]:
    """Each device and suite: what was run, and for those ``chosen`` (None for all) figures by precision and tables."""
    cases = data["cases"]
    launched = cases[~cases["kernel"].str.startswith("cusparse_best_")]
    for (device, suite), rows in launched.groupby(["device", "suite"], sort=True):
        about_suite = {
            "id": f"{device}-{suite}",
            "device": device,
            "suite": suite,
            "title": titles.get(suite, ""),
            "covered": population(data, rows["matrix"]),
        }
        if chosen is not None and suite not in chosen:
            yield about_suite | {"shown": False}
            continue
        figures = [
            figure
            for figure in drawn
            if figure.kind.section == "suite" and figure.of["device"] == device and figure.of["suite"] == suite
        ]
        contested = set(rows.loc[rows["study"] != "cusparse", "precision"])
        groups = [
            {"precision": PRECISIONS[precision], "contested": precision in contested, "figures": own}
            for precision in PRECISIONS
            if (own := [figure for figure in figures if figure.of.get("precision") == precision])
        ]
        yield about_suite | {
            "shown": True,
            "rows": counted(len(rows), "row"),
            "about": about(rows, data["matrices"]),
            "baseline": baseline_says(rows),
            "stale": _rows(rows["stale"]),
            "noisy": _rows(rows["noisy"].fillna(False)),
            "groups": groups,
            "figures": [figure for figure in figures if "precision" not in figure.of],
            "fastest": comparison.fastest(_of(data["fastest"], device, suite)),
            "speedup": comparison.speedup(_of(data["speedup"], device, suite)),
            "synergy": comparison.synergy(_of(data["synergy_classes"], device, suite)),
            "families": comparison.families(_of(data["families"], device, suite)),
            "bounds": limited.bounds(_of(data["bounds"], device, suite)),
            "limits": limited.limits(_of(data["roofline"], device, suite)),
            "counters": limited.counters(_of(data["counters"], device, suite)),
            "shared_memory": limited.shared_memory(_of(data["shared_memory"], device, suite)),
        }


def _rows(which: pd.Series) -> str:
    """The number of rows, in words; empty for none."""
    return counted(int(which.sum()), "row") if which.any() else ""


def _of(table: pd.DataFrame, device: str, suite: str) -> pd.DataFrame:
    return table[(table["device"] == device) & (table["suite"] == suite)]
