"""Every kernel on the matrices of the user: predicted by the selector, measured where rows of the structure exist.

A machine without a GPU has predictions alone; a structure that was recorded has its recorded times as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import contracts
from ..selector.advice import select
from ..selector.choices import Choice
from ..selector.document import load, measured_devices
from ..selector.question import DTYPES, SelectionError
from ..selector.terms import FEATURES, Work, compulsory_bytes, counts
from .cases import is_derived, timed
from .registry import table
from .roofline import memory_limits

if TYPE_CHECKING:
    import pandas as pd

#: Limits of a row in the order in which the first of equal ones binds.
LIMITS = ("memory", "compute", "launch")


@table()
def predicted(
    own: Mapping[str, Mapping[str, Any]],
    model: str | None,
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    formats: pd.DataFrame,
    selector: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    l2_gb_per_s: Mapping[str, float],
    l2_bytes: Mapping[str, int],
) -> pd.DataFrame:
    """Table ``analysis_predicted``, empty without a matrix of the user or without a model.

    ``own``: matrix → its ``n`` (a list) and ``l2``; ``model``: file of the selector; ``selector``: the table
    ``analysis_selector``, whose held-out predictions tell the error; the other arguments as of :func:`.roofline`. A
    kernel has no predicted time at a width that is far from those that it was measured with.
    """
    import pandas as pd

    if not own or not model:
        return contracts.frame([], "analysis_predicted")
    here = cases.loc[cases["origin"] == "local", "device"]
    devices = sorted({*measured_devices(Path(model)), *here})
    found = [
        row
        for name, asked in own.items()
        for about in contracts.records(matrices[matrices["matrix"] == name].dropna(subset=[*FEATURES]))
        for device in devices
        for row in _of_matrix(about, asked, device, Path(model), cases, formats)
    ]
    if not found:
        return contracts.frame([], "analysis_predicted")
    rows = pd.DataFrame(found).reindex(columns=contracts.table("analysis_predicted").names)
    rows = _with_errors(rows, selector)
    rows = _with_limits(rows, cases, matrices, dram_gb_per_s, l2_gb_per_s, l2_bytes)
    rows = _ranked(rows)
    key = list(contracts.table("analysis_predicted").key)
    return contracts.check(rows.sort_values(key, ignore_index=True), "analysis_predicted")


def _of_matrix(
    about: Mapping[str, Any],
    asked: Mapping[str, Any],
    device: str,
    model: Path,
    cases: pd.DataFrame,
    formats: pd.DataFrame,
) -> Iterator[dict[str, Any]]:
    """Rows of a matrix on a device, without errors and limits."""
    ceilings = cases[(cases["device"] == device) & cases["compute_limit_gflops"].notna()]
    ceiling = ceilings.drop_duplicates("kernel").set_index("kernel")["compute_limit_gflops"]
    packed = formats[formats["matrix_sha256"] == about["matrix_sha256"]]
    holds = {row.format: row.status == "ok" for row in packed.itertuples()}
    rows = timed(cases[(cases["matrix_sha256"] == about["matrix_sha256"]) & (cases["device"] == device)])
    rows = rows[~is_derived(rows["kernel"])].sort_values(["origin", "time_ms"])  # what was measured here comes first
    for precision in dict.fromkeys(DTYPES.values()):
        for n in asked["n"]:
            case = {"device": device, "matrix": about["matrix"], "precision": precision, "n": n, "l2": asked["l2"]}
            own = rows[(rows["precision"] == precision) & (rows["n"] == n) & (rows["l2"] == asked["l2"])]
            known = {row.kernel: row for row in own.drop_duplicates("kernel").itertuples()}
            try:
                advice = select(about, n, precision, device, asked["l2"], model, holds=holds)
            except SelectionError:
                choices = {}
            else:
                choices = {choice.kernel: choice for choice in advice.choices}
            kernels = load(model, device).for_width(n).kernels if choices else {}
            choices = {name: choice for name, choice in choices.items() if kernels[name].reaches(n)}
            for kernel in {**choices, **known}:
                yield {
                    **case,
                    "kernel": kernel,
                    **_measured(known.get(kernel)),
                    **(_predicted(choices[kernel]) if kernel in choices else {}),
                    **(_computed(about, n, kernels[kernel].work, ceiling.get(kernel)) if kernel in choices else {}),
                }


def _measured(row: Any) -> dict[str, Any]:
    if row is None:
        return {}
    about = {"study": row.study, "format": row.format, "sums": row.dtype_accumulator}
    return about | {"measured_ms": row.time_ms, "origin": row.origin}


def _predicted(choice: Choice) -> dict[str, Any]:
    said = dataclasses.asdict(choice)
    kept = ("study", "format", "format_bytes", "preprocess_ms", "pays_back_calls")
    interval = {} if choice.extrapolated_from else {"low_ms": choice.low_ms, "high_ms": choice.high_ms}
    of_time = {
        "sums": choice.dtype["accumulator"],
        "predicted_ms": choice.time_ms,
        "spent_on": choice.bound,
        "extrapolated_from": choice.extrapolated_from,
    }
    return {name: said[name] for name in kept} | of_time | interval


def _computed(about: Mapping[str, Any], n: int, work: Work, ceiling: float | None) -> dict[str, Any]:
    """Time of the stored slots at the ceiling of the unit in GFLOP/s; without one, only that of no slots is known."""
    slots = float((counts(about) @ work.slots)[0])
    if not slots:
        return {"compute_ms": 0.0}
    return {"compute_ms": 2 * slots * n / (ceiling * 1e6)} if ceiling else {}


def _with_errors(rows: pd.DataFrame, selector: pd.DataFrame) -> pd.DataFrame:
    """The rows with the error and the regret of the selector on matrices that were held out."""
    judged = selector[selector["held_out"] == "matrix"]
    off = np.abs(np.log(judged["predicted_ms"].astype("float64") / judged["time_ms"].astype("float64")))
    lost = np.log1p(judged["regret"].astype("float64"))
    groups = [judged["device"], judged["precision"]]
    error, regret = np.expm1(off.groupby(groups).median()), np.expm1(lost.groupby(groups).mean())
    keys = list(zip(rows["device"], rows["precision"], strict=True))
    return rows.assign(
        error_fraction=[error.get(key, np.nan) for key in keys],
        regret_fraction=[regret.get(key, np.nan) for key in keys],
    )


def _with_limits(
    rows: pd.DataFrame,
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    l2_gb_per_s: Mapping[str, float],
    l2_bytes: Mapping[str, int],
) -> pd.DataFrame:
    """The rows with the times of the limits of memory and launch, and with the longest limit."""
    import pandas as pd

    features = matrices.drop_duplicates("matrix").set_index("matrix")
    about = {name: features.loc[name].to_dict() for name in rows["matrix"].unique()}
    asked = pd.DataFrame(
        {
            **{name: rows[name] for name in ("device", "n", "l2", "format_bytes")},
            "m": [about[matrix]["m"] for matrix in rows["matrix"]],
            # Without entries there is no rate, but C is written all the same: one entry stands in.
            "nnz": [max(1, about[matrix]["nnz"]) for matrix in rows["matrix"]],
            "steps": 1,
            "format": "csr",  # which is among the bytes below, whatever the format is
            "dtype_a": rows["precision"],
            "dtype_c": rows["precision"],
            "compulsory_bytes": [
                compulsory_bytes(about[matrix] | {"n": n}, precision)
                for matrix, n, precision in zip(rows["matrix"], rows["n"], rows["precision"], strict=True)
            ],
        }
    )
    flops = 2.0 * asked["nnz"].astype("float64") * asked["n"].astype("float64")
    allowed = memory_limits(asked, dram_gb_per_s, l2_gb_per_s, l2_bytes).min(axis=1)
    # Kinds of host differ by microseconds: only the replay of the fastest is a limit on all of them.
    replays = cases.loc[cases["replay_ms"] > 0].groupby(["device", "host"])["replay_ms"].median()
    launch = rows["device"].map(replays.groupby("device").min()).astype("float64")
    limits = pd.DataFrame(
        {"memory": flops * 1e-6 / allowed, "compute": rows["compute_ms"].astype("float64"), "launch": launch}
    )[list(LIMITS)]
    known = limits.notna().all(axis=1)
    longest = limits.fillna(0.0).to_numpy().argmax(axis=1)
    return rows.assign(
        memory_ms=limits["memory"],
        launch_ms=limits["launch"],
        bound=pd.array(np.where(known, np.array(LIMITS)[longest], ""), dtype="string"),
    )


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with their place in each case: measured kernels by their times, then the others by predicted times."""
    case = ["device", "matrix", "precision", "n", "l2"]
    order = rows.assign(
        later=rows["measured_ms"].isna(), time=rows["measured_ms"].fillna(rows["predicted_ms"]).astype("float64")
    ).sort_values([*case, "later", "time", "kernel"])
    return rows.assign(rank=order.groupby(case).cumcount() + 1)
