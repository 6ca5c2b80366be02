"""The section that compares devices: a part for each two of them, and what choices of kernels cost on each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..analysis.between import WORK, alike, pairs
from ..figures.numbers import counted, listed, percent, times
from .tables import comparison
from .tables import devices as tables

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn


def compared(data: dict[str, pd.DataFrame], drawn: Iterable[Drawn], titles: Mapping[str, str]) -> dict[str, Any]:
    """What the section shows; empty where fewer than two devices have rows. ``titles``: device → its title, in the
    order of the page."""
    if data["cases"]["device"].nunique() < 2:
        return {}
    named = {device: device for device in data["cases"]["device"].unique()} | dict(titles)
    return {
        "across": comparison.across(data["across"], titles),
        "figures": [figure for figure in drawn if figure.kind.section == "devices"],
        "pairs": [_pair(data, device, other, named) for device, other in pairs(data["cases"])],
        "claims": tables.claims(data["claims"]),
        "claims_say": claims_say(data["claims"]),
        "elsewhere": tables.elsewhere(data["elsewhere"]),
        "elsewhere_say": elsewhere_say(data["elsewhere"]),
    }


def _pair(data: dict[str, pd.DataFrame], device: str, other: str, titles: Mapping[str, str]) -> dict[str, Any]:
    between, swapped = (
        table[(table["device"] == device) & (table["other"] == other)] for table in (data["between"], data["swapped"])
    )
    return {
        "title": f"{titles[device]} and {titles[other]}",
        "says": " ".join([pair_says(between, swapped, titles), *hosts_say(data["cases"], device, other, titles)]),
        "suites": tables.by_suite(between, device, other, titles),
        "kernels": tables.by_kernel(between, device, other, titles),
        "swapped": tables.swapped(swapped, device, other, titles),
    }


def pair_says(between: pd.DataFrame, swapped: pd.DataFrame, titles: Mapping[str, str]) -> str:
    """How much faster one device of a pair is, and where their fastest kernels differ."""
    import numpy as np

    said = []
    for row in between[(between["suite"] == "") & (between["kernel"] == "")].itertuples():
        over = f", where their limits allow {times(row.limit_ratio)}" if row.limit_ratio == row.limit_ratio else ""
        said.append(
            f"With {row.l2} L2, a kernel is {times(row.speedup)} as fast on {titles[row.other]} as on "
            f"{titles[row.device]} in the geometric mean of {counted(row.cases, 'case')}{over}."
        )
    if swapped.empty:
        return " ".join([*said, "No case has two kernels that both devices timed."])
    device, other = swapped["device"].iloc[0], swapped["other"].iloc[0]
    differs = int((swapped["kernel"] != swapped["other_kernel"]).sum())
    matters = int((swapped[["loss", "other_loss"]].max(axis=1) > tables.NOISE).sum())
    losses = [float(np.expm1(np.log1p(swapped[column].astype(float)).mean())) for column in ("loss", "other_loss")]
    said.append(
        f"On {counted(len(swapped), 'case')} with two kernels or more, the fastest kernel differs on {differs:,}, by "
        f"more than {percent(tables.NOISE)} on {matters:,}. Whoever takes the other device's choice loses "
        f"{percent(losses[0])} on {titles[device]} and {percent(losses[1])} on {titles[other]} in the geometric mean."
    )
    if matters:
        worst = swapped.loc[swapped[["loss", "other_loss"]].max(axis=1).idxmax()]
        here = worst["loss"] >= worst["other_loss"]
        taken, least = ("other_kernel", "kernel") if here else ("kernel", "other_kernel")
        said.append(
            f"The worst is {worst[taken]} instead of {worst[least]} on {titles[device if here else other]}, "
            f"{worst['matrix']} at N = {worst['n']}: {percent(max(worst['loss'], worst['other_loss']))} longer."
        )
    return " ".join(said)


def hosts_say(cases: pd.DataFrame, device: str, other: str, titles: Mapping[str, str]) -> list[str]:
    """Sentences on the work that both devices did on hosts that launch in different times, for each state of L2."""
    rows = cases[cases["status"] == "ok"].drop_duplicates(["device", "suite", *WORK])
    here, there = (rows[rows["device"] == name] for name in (device, other))
    both = here.merge(there[["suite", *WORK, "host"]], on=["suite", *WORK], suffixes=("", "_of_other"))
    said = []
    for l2, apart in both[~alike(both["host"], both["host_of_other"])].groupby("l2", sort=True):
        one, two = (listed(sorted(apart[name].unique())) for name in ("host", "host_of_other"))
        said.append(
            f"With {l2} L2, {counted(len(apart), 'pair')} of rows of one suite are left out, whose hosts took {one} µs "
            f"to launch on {titles[device]} and {two} µs on {titles[other]}."
        )
    return said


def claims_say(claims: pd.DataFrame) -> str:
    """On how many claims the devices agree."""
    tested = claims[claims["overall"] != "not_testable"].drop_duplicates(["device", "claim"])
    verdicts = tested.groupby("claim")["overall"].agg(["nunique", "size"])
    both = verdicts[verdicts["size"] > 1]
    if both.empty:
        return "No claim can be tested on two devices."
    apart = sorted(both.index[both["nunique"] > 1])
    named = f": {listed([*apart[:6], *(['others'] if len(apart) > 6 else [])])}" if apart else ""
    return (
        f"{counted(len(both), 'claim')} can be tested on more than one device; the verdict is the same on "
        f"{len(both) - len(apart)} and differs on {len(apart)}{named}."
    )


def elsewhere_say(rows: pd.DataFrame) -> str:
    """The regret of the selector on devices that it was not trained on, and of SpMM, over all precisions."""
    import numpy as np

    said = []
    away = rows[(rows["chooser"] == "selector") & (rows["trained_on"] != rows["device"])]
    parts = [(f"trained on {source} and judged on {target}", own) for (source, target), own in _by(away, "trained_on")]
    if parts:
        said.append(f"The selector loses {listed([f'{_mean(own, np)} {how}' for how, own in parts])}.")
    by_costs = [(f"on {device}", own) for (_, device), own in _by(rows[rows["chooser"] == "costs"], "chooser")]
    if by_costs:
        said.append(
            f"The choice of SpMM by costs loses {listed([f'{_mean(own, np)} {how}' for how, own in by_costs])}."
        )
    return " ".join(said) + (" All are geometric means over the cases." if said else "")


def _by(rows: pd.DataFrame, first: str) -> Any:
    return rows.groupby([first, "device"], sort=True)


def _mean(own: pd.DataFrame, np: Any) -> str:
    """Geometric mean of the regret over the cases of all precisions."""
    return percent(
        float(np.expm1(np.average(np.log1p(own["regret"].astype(float)), weights=own["cases"].astype(float))))
    )
