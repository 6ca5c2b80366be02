"""The kernel to choose for a kind of matrix: the answer that opens the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .bootstrap import geomean_interval
from .cases import is_derived

if TYPE_CHECKING:
    import pandas as pd


def kinds(cases: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Table ``analysis_kinds`` from ``analysis_cases``.

    cuSPARSE takes part as the derived cusparse_best: whoever takes the library can take the best of its algorithms. A
    matrix that several suites measure counts once, with its newest row. Among the kernels that ran on the most
    matrices of a kind the highest geometric mean of ``useful_gflops`` wins; on equal matrices that is also the highest
    geometric mean of the speed-up. A kernel that refuses some matrices is no choice for the kind. The interval of that
    mean resamples matrices ``resamples`` times.
    """
    import numpy as np

    contract = contracts.table("analysis_kinds")
    key = list(contract.key)
    ran = cases[(cases["status"] == "ok") & ((cases["study"] != "cusparse") | is_derived(cases["kernel"]))]
    ran = ran.sort_values(["protocol", "measured_at", "suite"])
    ran = ran.drop_duplicates(["device", "kernel", "matrix", "n", "l2"], keep="last")
    ran = ran.assign(
        log_rate=np.log(ran["useful_gflops"].clip(lower=1e-12)),
        win=ran["speedup"] > 1,
        memory=ran["bound"].map({"memory": 1.0, "compute": 0.0}),
    )
    groups = ran.groupby([*key, "kernel", "study"], as_index=False).agg(
        matrices=("matrix", "size"),
        log_rate=("log_rate", "mean"),
        wins=("win", "sum"),
        memory=("memory", "mean"),
        bound_fraction=("bound_fraction", "median"),
        stale=("stale", "any"),
    )
    chosen = groups.sort_values(
        [*key, "matrices", "log_rate", "kernel"], ascending=[True] * len(key) + [False, False, True]
    )
    chosen = chosen.drop_duplicates(key)
    ratios = ran[ran["speedup"].notna()].groupby([*key, "kernel"])["speedup"]
    known = {group: part.to_numpy() for group, part in ratios}
    rows = []
    for row in chosen.to_dict("records"):
        group = tuple(row[name] for name in (*key, "kernel"))
        interval = geomean_interval(known[group], group, resamples) if group in known else (None, None, None)
        rows.append(
            {name: row[name] for name in contract.names if name in row}
            | {"useful_gflops": np.exp(row["log_rate"])}
            | dict(zip(("speedup", "speedup_low", "speedup_high"), interval, strict=True))
            | {"bound": "" if np.isnan(row["memory"]) else "memory" if row["memory"] >= 0.5 else "compute"}
        )
    return contracts.frame(rows, "analysis_kinds")
