"""Cases that both sides measured, what became of the others, and which kernels did not change."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd

from ..contracts import table
from .sides import CompareError, Side

KEY = list(table("measure").key)
#: What must be equal for two times of a case to be of the same product; what is said where it is not.
EQUAL = {
    "matrix_sha256": "another structure of the matrix",
    "dtype_a": "other dtypes",
    "dtype_b": "other dtypes",
    "dtype_accumulator": "other dtypes",
    "dtype_c": "other dtypes",
    "protocol": "another timing protocol",
}
#: Columns that two rows share only if they are one measurement.
MEASUREMENT = ["measured_at", "time_ms", "time_p10_ms", "time_p90_ms", "samples"]
#: Columns that a comparison reads.
READ = [
    *(*KEY, "study", "driver", "arch", "cuda", "kernel_sha256", "packer_sha256", *EQUAL, *MEASUREMENT),
    *("time_low_ms", "time_high_ms", "replay_ms", "noisy", "status"),
]
#: Relative difference of the replay of an empty graph from which two hosts are of different kinds.
HOSTS_DIFFER = 0.25
#: 90th less 10th percentile of a normal distribution in standard deviations, and the standard error of a median over
#: that of the mean.
P10_TO_P90 = 2.563
MEDIAN_OVER_MEAN = 1.2533
#: Width of a 95 % interval in standard errors.
INTERVAL_95 = 3.92


@dataclass(frozen=True)
class Unpaired:
    """Cases that were not compared, and their kernels; ``lost``: they have a time in A and none in B."""

    reason: str
    cases: int
    kernels: tuple[str, ...]
    lost: bool = False


@dataclass(frozen=True)
class Paired:
    """``cases``: one row a compared case (see :func:`pair`); ``unpaired``: the others by reason."""

    cases: pd.DataFrame
    unpaired: list[Unpaired]


def pair(
    a: Side,
    b: Side,
    kernel: str = "",
    suite: str = "",
    match: tuple[str, str] | None = None,
    across_devices: bool = False,
    across_suites: bool = False,
) -> Paired:
    """Pair rows by device, suite, kernel, matrix, n and state of L2.

    ``kernel`` and ``suite`` are patterns of names (``*``, ``?``; ``study/kernel`` too); kernels outside of ``kernel``
    stay as controls and are not ``asked``. ``match`` = (kernel of A, kernel of B) are compared with each other, with
    whatever dtypes, and are alone ``asked``. ``across_devices`` and ``across_suites`` leave device and suite out of
    the pairing; of a case that several suites of a side measured, the latest row counts.

    Columns of ``cases``: the key as in A, ``device_b``, ``suite_b``, ``kernel_b``, ``matrix_sha256``, ``time_a_ms``,
    ``time_b_ms``, ``log`` (logarithm of B over A), ``error`` (standard error of ``log`` from the samples of both
    rows), ``host`` (what another kind of host may add to ``log``), ``noisy``, ``same_code`` and ``asked``.
    Raises :class:`.CompareError` where no row is left or nothing matches a pattern.
    """
    left_out = {name for name, out in (("device", across_devices), ("suite", across_suites)) if out}
    by = [name for name in KEY if name not in left_out]
    rows_a, rows_b = (_chosen(side, suite, kernel if match is None else "") for side in (a, b))
    if across_devices:
        for side, rows in ((a, rows_a), (b, rows_b)):
            devices = sorted(rows["device"].unique())
            if len(devices) > 1:
                raise CompareError(f"{side.name} holds rows of {', '.join(devices)}; name a folder of one device")
    if match:
        rows_a, rows_b = _matched(rows_a, rows_b, match)
    rows_a, rows_b = (
        rows.sort_values("measured_at", kind="stable").drop_duplicates(by, keep="last") for rows in (rows_a, rows_b)
    )
    both = rows_a.merge(rows_b, on=by, how="outer", suffixes=("", "_b"), indicator=True)
    for name in KEY:
        if name in by:
            both[f"{name}_b"] = both[name]
    reasons, lost = _reasons(both, matched=match)
    if match:
        asked = both["kernel"] == "=".join(match)
    else:
        asked = _like(both["kernel"], both["study"].fillna(both["study_b"]), kernel)
    compared = both[reasons == ""]
    cases = _cases(compared)
    cases["same_code"] = False if across_devices else _same_code(compared, a, b)
    cases["asked"] = asked[compared.index].to_numpy()
    if match:
        cases.loc[cases["asked"], "same_code"] = False
        for column, name in (("kernel", match[0]), ("kernel_b", match[1])):
            cases.loc[cases["asked"], column] = name
    return Paired(cases, _counted(both[asked], reasons[asked], lost[asked]))


def _chosen(side: Side, suite: str, kernel: str) -> pd.DataFrame:
    rows = side.rows[READ]
    for pattern, said, found in (
        (suite, "suite", rows["suite"].map(lambda name: fnmatchcase(name, suite))),
        (kernel, "kernel", _like(rows["kernel"], rows["study"], kernel)),
    ):
        if pattern and not found.any():
            raise CompareError(f"{side.name}: no {said} matches {pattern!r}; it has {_some(rows[said])}")
    return rows[rows["suite"].map(lambda name: fnmatchcase(name, suite))] if suite else rows


def _like(kernels: pd.Series, studies: pd.Series, pattern: str) -> pd.Series:
    """Whether a kernel matches the pattern, as ``kernel`` or ``study/kernel``; all do if there is none."""
    if not pattern:
        return pd.Series(True, index=kernels.index)
    names = pd.DataFrame({"kernel": kernels, "study": studies})
    fits = {
        (kernel, study): fnmatchcase(f"{study}/{kernel}" if "/" in pattern else kernel, pattern)
        for kernel, study in names.drop_duplicates().itertuples(index=False, name=None)
    }
    return pd.Series([fits[key] for key in zip(kernels, studies, strict=True)], index=kernels.index, dtype=bool)


def _matched(rows_a: pd.DataFrame, rows_b: pd.DataFrame, match: tuple[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both sides with the two kernels under one common name; other kernels stay as controls."""
    name = "=".join(match)
    renamed = []
    for rows, kernel, said in ((rows_a, match[0], "A"), (rows_b, match[1], "B")):
        if not (rows["kernel"] == kernel).any():
            raise CompareError(f"{said} has no row of the kernel {kernel!r}; it has {_some(rows['kernel'])}")
        renamed.append(rows.assign(kernel=rows["kernel"].where(rows["kernel"] != kernel, name)))
    return renamed[0], renamed[1]


def _some(names: pd.Series) -> str:
    """The first names of a column, as many as a sentence holds."""
    found = sorted(names.unique())
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")


def _reasons(both: pd.DataFrame, matched: tuple[str, str] | None) -> tuple[pd.Series, pd.Series]:
    """Why a row of the outer join is not compared, empty where it is; and whether a time of A has none in B."""
    reason = pd.Series("", index=both.index, dtype=object)
    here = both["_merge"].astype(str)
    reason[here == "left_only"] = "only in A"
    reason[here == "right_only"] = "only in B"
    on_purpose = both["kernel"] == "=".join(matched) if matched else pd.Series(False, index=both.index)
    for column, said in EQUAL.items():
        differs = (both[column] != both[f"{column}_b"]).fillna(False).astype(bool)
        if said == "other dtypes":
            differs &= ~on_purpose
        reason[(reason == "") & differs] = said
    failed = (reason == "") & ((both["status"] != "ok") | (both["status_b"] != "ok")).fillna(False).astype(bool)
    statuses = both["status"].astype(str) + " in A, " + both["status_b"].astype(str) + " in B"
    lost = failed & (both["status"] == "ok").fillna(False).astype(bool)
    reason[failed] = statuses[failed]
    once = reason == ""
    for column in MEASUREMENT:
        once &= (both[column] == both[f"{column}_b"]).fillna(False).astype(bool)
    once &= ~on_purpose
    reason[once] = "one measurement on both sides"
    # A product of no time has no ratio.
    timed = ((both["time_ms"] > 0) & (both["time_ms_b"] > 0)).fillna(False).astype(bool)
    reason[(reason == "") & ~timed] = "a time of zero"
    return reason, lost


def _counted(both: pd.DataFrame, reasons: pd.Series, lost: pd.Series) -> list[Unpaired]:
    """Reasons by number of cases, lost times first."""
    of = both[reasons != ""].assign(reason=reasons[reasons != ""], lost=lost[reasons != ""])
    found = [
        Unpaired(str(reason), len(rows), tuple(sorted(rows["kernel"].unique())), bool(rows["lost"].any()))
        for reason, rows in of.groupby("reason")
    ]
    return sorted(found, key=lambda each: (not each.lost, -each.cases, each.reason))


def _cases(both: pd.DataFrame) -> pd.DataFrame:
    both = both.reset_index(drop=True)
    time_a, time_b = both["time_ms"].to_numpy(dtype=float), both["time_ms_b"].to_numpy(dtype=float)
    replay_a, replay_b = (both[f"replay_ms{end}"].to_numpy(dtype=float) for end in ("", "_b"))
    difference = np.abs(replay_b - replay_a)
    other_host = difference > HOSTS_DIFFER * np.minimum(replay_a, replay_b)
    noisy = [both[f"noisy{end}"].fillna(False).astype(bool) for end in ("", "_b")]
    known = {name: both[name] for name in (*KEY, "device_b", "suite_b", "kernel_b", "matrix_sha256")}
    return pd.DataFrame(
        {
            **known,
            "time_a_ms": time_a,
            "time_b_ms": time_b,
            "log": np.log(time_b / time_a) if len(both) else np.empty(0),
            "error": np.hypot(_median_error(both, ""), _median_error(both, "_b")),
            "host": np.where(other_host, difference / np.minimum(time_a, time_b), 0.0),
            "noisy": noisy[0] | noisy[1],
        }
    )


def _median_error(both: pd.DataFrame, end: str) -> np.ndarray:
    """Relative standard error of the median of a row.

    From the row's 95 % interval of the median; a row of an earlier version has none, and its error is estimated from
    its 10th and 90th percentile and the number of samples, as if these were normal.
    """

    def column(name: str) -> np.ndarray:
        return both[f"{name}{end}"].to_numpy(dtype=float)

    width = column("time_high_ms") - column("time_low_ms")
    deviation = (column("time_p90_ms") - column("time_p10_ms")) / P10_TO_P90
    estimate = MEDIAN_OVER_MEAN * deviation / np.sqrt(np.maximum(column("samples"), 1))
    return np.where(np.isfinite(width), width / INTERVAL_95, estimate) / column("time_ms")


def _same_code(both: pd.DataFrame, a: Side, b: Side) -> list[bool]:
    """Whether both rows ran the same machine code on the same format, or the same version of a library."""
    columns = [f"{name}{end}" for name in ("arch", "kernel_sha256", "packer_sha256", "cuda") for end in ("", "_b")]
    known: dict[tuple, bool] = {}
    for row in both[columns].drop_duplicates().itertuples(index=False, name=None):
        arch_a, arch_b, kernel_a, kernel_b, packer_a, packer_b, cuda_a, cuda_b = row
        kernel = _equal(a.code.get((arch_a, kernel_a)), b.code.get((arch_b, kernel_b)))
        packer = _equal(a.code.get((arch_a, packer_a)), b.code.get((arch_b, packer_b)))
        same = kernel if kernel is not None else kernel_a == kernel_b and cuda_a == cuda_b
        known[row] = arch_a == arch_b and same and (packer if packer is not None else packer_a == packer_b)
    return [known[row] for row in both[columns].itertuples(index=False, name=None)]


def _equal(one: tuple[str, str] | None, other: tuple[str, str] | None) -> bool | None:
    """Whether two compilations are equal; None where one is not known."""
    return one == other if one and other else None
