"""Sentences of the page about claims, ceilings and suites; :mod:`.answer` has those of the opening section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..figures.numbers import PRECISIONS, counted, listed, percent
from ..figures.sentences import population

if TYPE_CHECKING:
    import pandas as pd


def claims_say(claims: pd.DataFrame) -> str:
    """The verdicts on the claims, each over all its sets, one sentence per device."""
    said = []
    for device, rows in claims.drop_duplicates(["device", "claim"]).groupby("device", sort=True):
        counts = rows["overall"].value_counts()
        hold, untested = int(counts.get("reproduced", 0)), int(counts.get("not_testable", 0))
        tested = len(rows) - untested
        if not tested:
            said.append(f"On {device}, none of {counted(untested, 'claim')} can be tested.")
            continue
        verb = "is" if 1 in (hold, tested) else "are"
        partly, open_ = (int(counts.get(name, 0)) for name in ("in_part", "undecided"))
        more = (
            f", {partly} {'is on some of its sets' if partly == 1 else 'are on some of their sets'}" if partly else ""
        )
        more += f", {open_} {'is' if open_ == 1 else 'are'} undecided" if open_ else ""
        more += f"; {untested} more cannot be tested" if untested else ""
        said.append(f"On {device}, {hold} of {counted(tested, 'claim')} that can be tested {verb} reproduced{more}.")
    return " ".join(said)


#: The sets of the claims of Mistry 2025 that read XdYs in two ways.
READINGS = ("percentages", "tiles per block row")

#: Mean factors that differ by less than this are equally good.
SAME_FIT = 1.05


def readings_say(claims: pd.DataFrame) -> str:
    """Which of :data:`READINGS` gives values nearest to the paper's numbers, one sentence per device.

    It speaks of the claims with a number that were judged on both; distance is the geometric mean of the factor
    between value and number, whichever is larger.
    """
    import numpy as np

    said = []
    rated = claims[claims["set"].isin(READINGS) & (claims["unit"] == "times")].dropna(subset=["paper", "value"])
    for device, rows in rated.groupby("device", sort=True):
        off = rows.assign(log=np.abs(np.log(rows["value"] / rows["paper"]).astype(float)))
        both = off.pivot_table(index="claim", columns="set", values="log", aggfunc="first").dropna()
        if both.empty or len(both.columns) < 2:
            continue
        mean = np.exp(both.mean()).sort_values()
        factors = listed([f"{factor:.2f} with {name}" for name, factor in mean.items()])
        clear = mean.iloc[1] / mean.iloc[0] >= SAME_FIT
        said.append(
            f"On {device} the {counted(len(both), 'number')} that the text gives for its synthetic matrices lie, in "
            f"the mean, a factor of {factors} from ours: "
            + (f"{mean.index[0]} fit the text better." if clear else "these numbers do not tell the readings apart.")
        )
    return " ".join(["XdYs is read in two ways.", *said]) if said else ""


def ceilings_say(ceilings: pd.DataFrame, devices: list[str]) -> str:
    """The ceilings behind the limits of each device, one sentence per device."""
    said = []
    for device in devices:
        own = ceilings[(ceilings["device"] == device) & (ceilings["unit"] == "GFLOP/s")]
        rows = own[own["measured"].notna()]
        if rows.empty:
            instead = (
                "the peaks of its datasheet stand for them"
                if own["datasheet"].notna().any()
                else "nothing is known to limit computation there"
            )
            said.append(f"No ceilings of computation were measured on {device}: {instead}.")
            continue
        shares = rows["share_fraction"].dropna()
        low, high = percent(shares.min()), percent(shares.max())
        verb = "reaches" if len(shares) == 1 else "reach"
        who = f"{len(shares)} with a peak there" if len(shares) < len(rows) else "it" if len(rows) == 1 else "they"
        span = f"; {who} {verb} {low if low == high else f'{low} to {high}'} of its datasheet" if len(shares) else ""
        were = "was" if len(rows) == 1 else "were"
        said.append(f"On {device}, {counted(len(rows), 'ceiling')} of computation {were} measured{span}.")
    return " ".join(said)


def about(rows: pd.DataFrame, matrices: pd.DataFrame) -> str:
    """A sentence on what the rows of a suite cover, beside its title, which says what the suite asks for."""
    widths = listed([str(n) for n in sorted(rows["n"].unique())])
    states = listed(sorted(rows["l2"].unique()))
    ok = int((rows["status"] == "ok").sum())
    dates = sorted({stamp[:10] for stamp in rows["measured_at"]})
    date = f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}"
    origin = listed(sorted(rows["origin"].unique())).replace("local", "measured here")
    return (
        f"{counted(rows['kernel'].nunique(), 'kernel')} on {population({'matrices': matrices}, rows['matrix'])}, "
        f"N = {widths}, {states} L2; {ok:,} of {counted(len(rows), 'row')} verified and timed, {date} ({origin})."
    )


def baseline_says(rows: pd.DataFrame) -> str:
    """Why rows of a suite have no speed-up over cuSPARSE, a sentence per precision; empty if all rows have one."""
    said = []
    for precision, own in rows[rows["status"] == "ok"].groupby("precision", sort=True):
        missing = own.loc[own["baseline_missing"] != "", "baseline_missing"]
        if missing.empty:
            continue
        names = sorted(set(", ".join(missing).split(", ")) - {"all"})
        never = (missing == "all").any()
        why = f"cuSPARSE was run without {listed(names)}{', or not at all' if never else ''}" if names else ""
        why = why or "cuSPARSE was not run"
        who = "no row" if len(missing) == len(own) else f"{len(missing):,} of {counted(len(own), 'row')}"
        verb = "has" if who == "no row" else "have no" if len(missing) > 1 else "has no"
        said.append(f"In {PRECISIONS[precision]} {who} {verb} {'a ' if who == 'no row' else ''}speed-up: {why}.")
    return " ".join(said)
