"""Verdicts over cases, kernels and everything: what is faster, slower, the same, or not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from .. import contracts
from ..analysis.bootstrap import LEAST, interval
from .pairs import Paired, Unpaired, pair
from .sides import CompareError, Side, side
from .spread import FREEDOM, Spread, estimate, without

#: From worst to best, the order in which they are printed.
VERDICTS = ("slower", "faster", "insufficient", "same")
RESAMPLES = 1000


@dataclass(frozen=True)
class Options:
    """How to compare. ``kernel``, ``suite``, ``match``, ``across_devices``, ``across_suites``: see :func:`.pairs.pair`.

    ``least``: smallest relative change that matters; ``false_alarms``: highest expected share of wrong verdicts among
    those of faster and slower; ``absolute``: keep the common shift; ``unchanged``: kernels whose machine code did not
    change may be faster or slower, too.
    """

    kernel: str = ""
    suite: str = ""
    match: tuple[str, str] | None = None
    across_devices: bool = False
    across_suites: bool = False
    least: float = 0.01
    false_alarms: float = 0.01
    absolute: bool = False
    unchanged: bool = False


@dataclass(frozen=True)
class Judged:
    """A geometric mean of time B over time A: of a kernel, or over all kernels (``kernel`` is empty).

    ``kernel_b``: kernel of B, another one only where two kernels are compared with each other;
    ``low`` and ``high``: 95 % interval; ``verdicts``: verdict → number of cases; ``worst``: the slowest case as text.
    """

    kernel: str
    kernel_b: str
    cases: int
    matrices: int
    changed: bool
    ratio: float
    low: float
    high: float
    verdict: str
    verdicts: dict[str, int]
    worst: str

    @property
    def label(self) -> str:
        return self.kernel if self.kernel == self.kernel_b else f"{self.kernel_b} over {self.kernel}"


@dataclass(frozen=True)
class Comparison:
    """``cases``: table ``compare``; ``kernels``: by verdict, the slowest first; ``whole``: over all of these cases, or
    over those of the changed kernels if there are any; None if no case was timed well enough."""

    a: Side
    b: Side
    options: Options
    cases: pd.DataFrame
    kernels: list[Judged]
    whole: Judged | None
    unpaired: list[Unpaired]
    spread: Spread
    notes: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Cases with a time in A that failed in B."""
        return sum(each.cases for each in self.unpaired if each.lost)

    @property
    def judged(self) -> bool:
        """Whether anything could be said: a kernel that is faster, slower or the same."""
        return any(kernel.verdict != "insufficient" for kernel in self.kernels)

    def exit_code(self, strict: bool = False, single_cases: bool = False) -> int:
        """1 if a kernel is slower or lost a case, 3 if ``strict`` and nothing could be judged, else 0.

        ``single_cases``: a slower case counts as a slower kernel does.
        """
        slower = any(k.verdict == "slower" or (single_cases and k.verdicts["slower"]) for k in self.kernels)
        if slower or self.lost:
            return 1
        return 3 if strict and not self.judged else 0


def compare(a: str | Path, b: str | Path, options: Options) -> Comparison:
    """Compare the measured rows of ``b`` (new) with those of ``a`` (old); each is a folder or a bundle.

    Raises :class:`.CompareError` for input that cannot be compared.
    """
    one_folder = Path(a).resolve() == Path(b).resolve()
    first = side(a)
    second = Side(str(b), first.rows, first.code) if one_folder else side(b)
    return judge(first, second, options, one_folder)


def judge(a: Side, b: Side, options: Options, one_run: bool = False) -> Comparison:
    """:func:`compare` of two sides in memory. ``one_run``: both are one run, so no shift is possible between them."""
    which = {name: getattr(options, name) for name in ("kernel", "suite", "match", "across_devices", "across_suites")}
    paired = pair(a, b, **which)
    if not paired.cases["asked"].any() and not any(e.lost or e.reason.startswith("one ") for e in paired.unpaired):
        raise CompareError(_nothing(a, b, options, paired))
    cases = paired.cases
    quiet = ~cases["noisy"].to_numpy(dtype=bool)
    controls = cases[cases["same_code"].to_numpy(dtype=bool) & quiet]
    common = not (one_run or options.across_devices)
    spread = estimate(controls, common)
    shift = _shifts(cases, controls, spread, options)
    shift_error = 0.0 if options.absolute else spread.shift_error

    table = cases[cases["asked"].to_numpy(dtype=bool)].copy()
    table["log"] -= shift[table.index]
    table["scale"] = spread.scale(table)
    table["open"] = ~table["same_code"].astype(bool) | options.unchanged
    _judge_cases(table, shift_error, options)
    kernels = _judge_kernels(table, spread, shift_error, options)
    changed = table[~table["same_code"].astype(bool)]
    whole = _whole(changed if len(changed) else table, spread, shift_error, options)
    notes = _notes(a, b, cases, spread, common)
    return Comparison(a, b, options, _written(table), kernels, whole, paired.unpaired, spread, notes)


def rejected(p: np.ndarray, rate: float) -> np.ndarray:
    """Which of the hypotheses with p-values ``p`` are rejected at a false discovery ``rate`` (Benjamini & Hochberg)."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    below = np.nonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))[0]
    found = np.zeros(len(p), dtype=bool)
    if below.size:
        found[order[: below[-1] + 1]] = True
    return found


def _shifts(cases: pd.DataFrame, controls: pd.DataFrame, spread: Spread, options: Options) -> pd.Series:
    """Shift to remove from the log of each case: for a control that of the other controls, if there are any."""
    if options.absolute:
        return pd.Series(0.0, index=cases.index)
    others = without(controls, spread)
    own = cases["kernel"].map(others).where(cases["same_code"].astype(bool))
    return own.astype(float).fillna(spread.shift)


def _verdict(low: np.ndarray, high: np.ndarray, log: np.ndarray, refused: np.ndarray, least: float) -> np.ndarray:
    """Verdicts from 95 % intervals of log ratios and from what the false discovery rate rejects."""
    margin = np.log1p(least)
    verdict = np.full(len(log), "insufficient", dtype=object)
    verdict[refused & (low > 0) & (log >= margin)] = "slower"
    verdict[refused & (high < 0) & (log <= -margin)] = "faster"
    verdict[(low >= -margin) & (high <= margin)] = "same"
    return verdict


def _judge_cases(table: pd.DataFrame, shift_error: float, options: Options) -> None:
    """Add ``low``, ``high`` (of the log) and ``verdict`` to the cases; a noisy case is insufficient."""
    log = table["log"].to_numpy(dtype=float)
    scale = np.hypot(table["scale"].to_numpy(dtype=float), shift_error)
    half = stdtrit(FREEDOM, 0.975) * scale
    quiet = ~table["noisy"].to_numpy(dtype=bool)
    tested = table["open"].to_numpy(dtype=bool) & quiet
    refused = np.zeros(len(table), dtype=bool)
    refused[tested] = rejected(_p(log[tested], scale[tested], FREEDOM), options.false_alarms)
    verdict = _verdict(log - half, log + half, log, refused, options.least)
    table["low"], table["high"] = log - half, log + half
    table["verdict"] = np.where(quiet, verdict, "insufficient")


def _p(log: np.ndarray, error: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Two-sided p-value of "no difference" under Student's t-distribution."""
    return 2 * stdtr(freedom, -np.abs(log) / error)


def _judge_kernels(table: pd.DataFrame, spread: Spread, shift_error: float, options: Options) -> list[Judged]:
    found = [
        (_mean(rows, str(kernel), spread, shift_error, "matrix"), rows) for kernel, rows in table.groupby("kernel")
    ]
    opened = np.array([bool(rows["open"].any()) and mean is not None for mean, rows in found], dtype=bool)
    p = np.array([mean.p if mean else 1.0 for mean, _ in found])
    refused = np.zeros(len(found), dtype=bool)
    refused[opened] = rejected(p[opened], options.false_alarms)
    kernels = [
        _judged(str(rows["kernel"].iloc[0]), rows, mean, bool(no), options)
        for (mean, rows), no in zip(found, refused, strict=True)
    ]
    return sorted(kernels, key=lambda k: (VERDICTS.index(k.verdict), -k.ratio if k.ratio == k.ratio else 0, k.kernel))


def _whole(table: pd.DataFrame, spread: Spread, shift_error: float, options: Options) -> Judged | None:
    if table.empty:
        return None
    several = table["kernel"].nunique() >= LEAST
    mean = _mean(table, "", spread, shift_error, "kernel" if several else "matrix")
    refused = mean is not None and bool(table["open"].any()) and mean.p <= options.false_alarms
    return _judged("", table, mean, refused, options)


@dataclass(frozen=True)
class _Mean:
    """A mean log ratio with its 95 % interval and the p-value of "no difference"."""

    log: float
    low: float
    high: float
    p: float


def _mean(rows: pd.DataFrame, name: str, spread: Spread, shift_error: float, by: str) -> _Mean | None:
    """Mean of the cases that are not noisy; groups are those of column ``by``; None if there is no such case.

    Its variance is that between two runs, pooled with that between its own groups by their degrees of freedom, and
    never less than that between two runs: own groups do not show what all cases of a kernel share.
    """
    rows = rows[~rows["noisy"].astype(bool)]
    if rows.empty:
        return None
    logs = rows["log"].to_numpy(dtype=float)
    log = float(logs.mean())
    between_runs = spread.scatter * float(np.sqrt((rows["scale"].to_numpy(dtype=float) ** 2).sum())) / len(rows)
    # What another kind of host adds has one sign, so it does not average out.
    fixed = float(np.hypot(shift_error, rows["host"].mean()))
    groups = rows[by].to_numpy()
    several = len(set(groups)) >= LEAST
    freedom, error = spread.freedom, between_runs
    if several:
        own, own_freedom = _between_groups(logs, groups)
        weight = min(freedom, own_freedom)
        pooled = np.sqrt((weight * between_runs**2 + own_freedom * own**2) / (weight + own_freedom))
        freedom, error = weight + own_freedom, max(between_runs, float(pooled))
    error = float(np.hypot(error, fixed))
    half = float(stdtrit(freedom, 0.975)) * error
    low, high, p = log - half, log + half, float(_p(np.array(log), np.array(error), freedom))
    if several:
        own_low, own_high = interval(logs, groups, lambda x: np.nanmean(x, axis=-1), ("compare", name), RESAMPLES)
        low, high = min(low, own_low), max(high, own_high)
    return _Mean(log, low, high, p)


def _between_groups(logs: np.ndarray, groups: np.ndarray) -> tuple[float, int]:
    """Standard error of the mean of the logs from the scatter of whole groups, and its degrees of freedom."""
    _, group = np.unique(groups.astype(str), return_inverse=True)
    sums = np.bincount(group, logs - logs.mean())
    count = len(sums)
    return float(np.sqrt(count / (count - 1) * (sums**2).sum()) / len(logs)), count - 1


def _judged(kernel: str, rows: pd.DataFrame, mean: _Mean | None, refused: bool, options: Options) -> Judged:
    counts = rows["verdict"].value_counts()
    # A noisy case is the slowest only where all are noisy.
    rank = rows["log"].to_numpy(dtype=float) - 1e6 * rows["noisy"].to_numpy(dtype=float)
    worst = rows.iloc[int(rank.argmax())]
    several = rows["suite"].nunique() > 1
    where = [f"{worst['matrix']} n={worst['n']}", *([worst["suite"]] if several else [])]
    nan = float("nan")
    log, low, high = (mean.log, mean.low, mean.high) if mean else (nan, nan, nan)
    verdict = str(_verdict(np.array([low]), np.array([high]), np.array([log]), np.array([refused]), options.least)[0])
    return Judged(
        kernel=kernel,
        kernel_b=str(rows["kernel_b"].iloc[0]) if kernel else "",
        cases=len(rows),
        matrices=rows["matrix"].nunique(),
        changed=not rows["same_code"].astype(bool).all(),
        ratio=float(np.exp(log)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        verdict=verdict,
        verdicts={name: int(counts.get(name, 0)) for name in VERDICTS},
        worst=f"{np.exp(worst['log']):.3f} {', '.join(where)}",
    )


def _nothing(a: Side, b: Side, options: Options, paired: Paired) -> str:
    devices = [sorted(each.rows["device"].unique()) for each in (a, b)]
    if not set(devices[0]) & set(devices[1]) and not options.across_devices:
        return (
            f"A was measured on {', '.join(devices[0])} and B on {', '.join(devices[1])}; "
            "--across-devices compares two devices"
        )
    said = "; ".join(f"{each.reason}: {each.cases:,} cases" for each in paired.unpaired)
    suites = [set(each.rows["suite"]) for each in (a, b)]
    other = "" if suites[0] & suites[1] or options.across_suites else "; --across-suites pairs cases of other suites"
    return f"no case has a time on both sides ({said or 'no row is left'}){other}"


def _notes(a: Side, b: Side, cases: pd.DataFrame, spread: Spread, common: bool) -> list[str]:
    """Sentences on what a reader should know before believing a verdict."""
    notes = []
    drivers = [", ".join(sorted(each.rows["driver"].unique())) for each in (a, b)]
    if drivers[0] != drivers[1]:
        notes.append(f"The driver was {drivers[0]} in A and {drivers[1]} in B.")
    if not spread.controls:
        untimed = cases["same_code"].astype(bool).any()
        why = "No unchanged kernel was timed well enough" if untimed else "No kernel is unchanged"
        notes.append(
            f"{why}, so a slower machine cannot be told from slower kernels, and the spread of two runs is that of the "
            "recorded rows."
            if common
            else "The spread of two runs is that of the recorded rows."
        )
    elif spread.controls < LEAST:
        tell = "kernel tells" if spread.controls == 1 else "kernels tell"
        notes.append(f"Only {spread.controls} unchanged {tell} what two runs differ by.")
    if abs(spread.shift) > 0.03:
        notes.append("The common shift is above 3 %: clocks, driver or host differ; measure again if in doubt.")
    hosts = int((cases.loc[cases["asked"].astype(bool), "host"] > 0).sum())
    if hosts:
        notes.append(f"{hosts:,} cases ran on another kind of host; the difference in replay widens their intervals.")
    noisy = int(cases.loc[cases["asked"].astype(bool), "noisy"].sum())
    if noisy:
        notes.append(f"{noisy:,} cases are noisy on one side; they enter no mean.")
    return notes


def _written(table: pd.DataFrame) -> pd.DataFrame:
    """The cases as table ``compare``."""
    ratios = {
        "ratio": np.exp(table["log"].astype(float)),
        "ratio_low": np.exp(table["low"].astype(float)),
        "ratio_high": np.exp(table["high"].astype(float)),
        "changed": ~table["same_code"].astype(bool),
    }
    names = contracts.table("compare").names
    rows = table.assign(**ratios)[names]
    order = rows.assign(by=rows["verdict"].map(VERDICTS.index)).sort_values(["by", "ratio"], ascending=[True, False])
    return contracts.check(order[names], "compare")
