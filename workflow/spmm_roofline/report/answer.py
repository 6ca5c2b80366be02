"""The answer of the data for each device and state of L2: facts, sentences and the opening tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, counted, listed, percent, times
from ..figures.sentences import BOUNDS, OWN, few, leaders, population
from .choices import choice, opened
from .tables.study import VERDICTS

if TYPE_CHECKING:
    import pandas as pd


def answers(tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """One answer for each device and L2 state: devices measured here first, then those with the most rows."""
    found = []
    rows = tables["cases"].groupby(["device", "l2"]).size()
    for (device, l2), kinds in tables["kinds"].groupby(["device", "l2"], sort=True):
        about = tables["devices"].set_index("device").loc[device]
        cases = _once(tables["fastest"], tables["cases"], device, l2)
        found.append(
            {
                "device": device,
                "title": about["title"],
                "l2": l2,
                "local": int(about["local_rows"]),
                "rows": int(rows[device, l2]),
                "stale": bool(measured(tables, device, l2)["stale"].fillna(False).any()),
                "facts": facts(about),
                "short": short(tables, about, cases, l2),
                "alone": alone(cases),
                "claims": scorecard(tables["claims"], device),
                "choices": [
                    {**choice(subset, precision), "says": sentence(cases, precision)}
                    for precision in PRECISIONS
                    if len(subset := kinds[kinds["precision"] == precision]) and (subset["study"] != "cusparse").any()
                ],
            }
        )
    found.sort(key=lambda answer: (answer["local"] == 0, -answer["rows"], answer["device"], answer["l2"]))
    for rank, answer in enumerate(found):
        answer["most"] = opened(answer["choices"])
        answer["described"] = answer["device"] in {earlier["device"] for earlier in found[:rank]}
    return found


def short(tables: dict[str, pd.DataFrame], about: pd.Series, fastest: pd.DataFrame, l2: str) -> list[tuple[str, str]]:
    """The answer in four sentences: what was measured, what wins by how much, what limits it, how far to trust it."""
    rows = measured(tables, str(about.name), l2)
    return [
        ("Measured", covered(tables, rows)),
        ("Fastest", gains(fastest)),
        ("Limit", limits(fastest)),
        ("Trust", trust(tables["claims"], str(about.name), rows)),
    ]


def measured(tables: dict[str, pd.DataFrame], device: str, l2: str) -> pd.DataFrame:
    """The measured rows of a device in a state of L2: all but those of the best of cuSPARSE, which are derived."""
    cases = tables["cases"]
    rows = cases[(cases["device"] == device) & (cases["l2"] == l2)]
    return rows[~rows["kernel"].str.startswith("cusparse_best_")]


def covered(tables: dict[str, pd.DataFrame], launched: pd.DataFrame) -> str:
    """How many kernels, matrices and widths were measured, and when."""
    days = sorted({stamp[:10] for stamp in launched["measured_at"]})
    return (
        f"{counted(launched['kernel'].nunique(), 'kernel')} on {population(tables, launched['matrix'])}, at "
        f"{counted(launched['n'].nunique(), 'width')} N; {counted(len(launched), 'row')}, "
        f"{days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}."
    )


def gains(fastest: pd.DataFrame) -> str:
    """The gain over cuSPARSE of taking the fastest kernel, cuSPARSE included, a clause for each precision with a gain.

    The mean is over the cases of :func:`_open_to_all`. Where cuSPARSE wins the gain is 1, whatever its precision.
    """
    every, fastest = len(fastest), _open_to_all(fastest)
    over = "all cases" if len(fastest) == every else "the cases that a general kernel multiplied"
    clauses: list[str] = []
    for precision, name in PRECISIONS.items():
        known, wins = _won(fastest, precision)
        if len(wins):
            won = f"{len(wins):,} of {len(known):,}{'' if clauses else ' cases won'}"
            clauses.append(f"{times(_mean(known['speedup'].clip(lower=1)))} in {name} ({won})")
    if not clauses:
        return "No kernel is known to beat cuSPARSE."
    said = f"The fastest kernel of a case against the fastest algorithm of cuSPARSE: {listed(clauses)}"
    return f"{said}, as geometric means over {over}, 1 where cuSPARSE wins."


def trust(claims: pd.DataFrame, device: str, launched: pd.DataFrame) -> str:
    """What was checked, which of the rows are doubtful, and how many claims of the studies hold on the device."""
    stale, noisy, throttled = (int(launched[name].fillna(False).sum()) for name in ("stale", "noisy", "throttled"))
    doubtful = f"{stale:,} {'is' if stale == 1 else 'are'} stale, {noisy:,} noisy and {throttled:,} throttled"
    said = f"Every result was compared with float64 before its time counted; of these rows, {doubtful}"
    verdicts = dict(scorecard(claims, device))
    tested = sum(count for name, count in verdicts.items() if name != "not_testable")
    if tested:
        are = "is" if verdicts["reproduced"] == 1 else "are"
        said += f"; {verdicts['reproduced']} of {counted(tested, 'claim')} of the studies {are} reproduced"
    return f"{said}."


def _open_to_all(fastest: pd.DataFrame) -> pd.DataFrame:
    """The cases that a general kernel multiplied, if there are any: a suite of one study's kernels alone says nothing
    about what a user can take."""
    return fastest[fastest["general"]] if fastest["general"].any() else fastest


def _won(fastest: pd.DataFrame, precision: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a precision with a baseline, and those of them that another kernel than cuSPARSE wins.

    The fastest kernel of a class without cuSPARSE may still be slower than cuSPARSE in FP32.
    """
    rows = fastest[fastest["precision"] == precision]
    known = rows[rows["speedup"].notna()]
    return known, known[(known["study"] != "cusparse") & (known["speedup"] > 1)]


def _mean(factors: pd.Series) -> float:
    import numpy as np

    return float(np.exp(np.log(factors.astype("float64")).mean()))


def _once(fastest: pd.DataFrame, cases: pd.DataFrame, device: str, l2: str) -> pd.DataFrame:
    """The fastest rows of a device with the study of their kernel; a matrix of several suites counts once.

    ``contested`` says whether any kernel outside cuSPARSE has a time in the precision, ``general`` whether a kernel of
    the study :data:`OWN` has one on the case.
    """
    study = cases.drop_duplicates("kernel").set_index("kernel")["study"]
    rows = fastest[(fastest["device"] == device) & (fastest["l2"] == l2)]
    case = ["matrix", "n", "precision"]
    rows = rows.sort_values(["time_ms", "kernel"]).drop_duplicates(case)
    own = cases[(cases["device"] == device) & (cases["l2"] == l2) & (cases["status"] == "ok")]
    contested = set(own.loc[own["study"] != "cusparse", "precision"])
    general = set(own.loc[own["study"] == OWN, case].itertuples(index=False, name=None))
    return rows.assign(
        study=rows["kernel"].map(study),
        contested=rows["precision"].isin(contested),
        general=[each in general for each in rows[case].itertuples(index=False, name=None)],
    )


def scorecard(claims: pd.DataFrame, device: str) -> list[tuple[str, int]]:
    """Verdict → the number of claims of the studies with this verdict on a device."""
    verdicts = claims[claims["device"] == device].drop_duplicates("claim")["overall"].value_counts()
    return [(name, int(verdicts.get(name, 0))) for name in VERDICTS if len(verdicts)]


def alone(fastest: pd.DataFrame) -> str:
    """A sentence that names the precisions in which only cuSPARSE ran; empty if there are none."""
    contested = set(fastest.loc[fastest["contested"], "precision"])
    names = [PRECISIONS[name] for name in PRECISIONS if name in set(fastest["precision"]) - contested]
    return f"In {listed(names)} only cuSPARSE ran." if names else ""


def sentence(fastest: pd.DataFrame, precision: str) -> str:
    """A sentence on the fastest kernels of a precision: how often and by how much they beat the baseline, over the
    cases of :func:`_open_to_all`."""
    rows = _open_to_all(fastest[fastest["precision"] == precision])
    name = PRECISIONS[precision]
    if rows.empty:
        return ""
    known, wins = _won(rows, precision)
    rival = "cuSPARSE in FP32" if precision == "tf32" else "cuSPARSE"
    rest = len(rows) - len(known)
    more = f" {counted(rest, 'more case has', 'more cases have')} no baseline." if rest else ""
    if known.empty:
        return f"In {name} no case has a baseline: cuSPARSE was not run with all of its algorithms."
    every = f"all {counted(len(known), 'case')}" if len(known) > 1 else "the one case"
    if wins.empty:
        return f"In {name} {rival} is the fastest in {every}.{more}"
    names = few(leaders(wins["kernel"].value_counts()))
    gain = times(_mean(wins["speedup"]))
    most = every if len(wins) == len(known) else f"{len(wins):,} of {counted(len(known), 'case')}"
    return (
        f"In {name} another kernel beats {rival} in {most}, there by {gain} in the geometric mean, most often "
        f"{names}.{more}"
    )


def limits(fastest: pd.DataFrame) -> str:
    """A sentence on the limits of the fastest kernels and their distance from them."""
    known = fastest[fastest["bound_fraction"].notna()]
    if known.empty:
        return "What limits them is unknown: the device has no measured DRAM rate or no file in config/devices."
    counts = known["bound"].value_counts()
    order = sorted((name for name in BOUNDS if name in counts), key=lambda name: -counts[name])
    named = BOUNDS | {"launch": f"the launch alone ({BOUNDS['launch']})"}
    units = [f"{named[name]} in {percent(counts[name] / len(known))}" for name in order]
    median = float(known["bound_fraction"].median())
    rest = ", so that most of their time goes into something else" if median < 0.5 else ""
    return (
        f"The lowest limit of the fastest kernels is {listed(units)} of the cases; in the median they reach "
        f"{percent(median)} of it{rest}."
    )


def facts(device: pd.Series) -> list[tuple[str, str]]:
    """The origin of the numbers, as pairs of a name and a value."""
    origins = []
    if device["local_rows"]:
        origins.append(f"{device['local_rows']:,} measured here")
    if device["recorded_rows"]:
        origins.append(f"{device['recorded_rows']:,} recorded")
    doubtful = " · ".join(f"{device[f'{name}_rows']:,}" for name in ("stale", "noisy", "throttled"))
    first, last = device["first_measured_at"][:10], device["last_measured_at"][:10]
    return [
        ("Driver", device["driver"]),
        ("CUDA", device["cuda"]),
        ("Measured", first if first == last else f"{first} to {last}"),
        ("Rows", listed(origins)),
        ("Stale, noisy, throttled", doubtful),
        ("Empty replay", f"{device['hosts']} µs" if device["hosts"] else "not measured"),
        ("Counters", f"{device['profiled_cases']:,} cases, {device['other_code_cases']:,} of other code left out"),
        ("Commit", ", ".join(commit[:7] for commit in device["git_commit"].split(", "))),
    ]
