"""Two devices on the same work: how much faster one is, how near each is to its own limit, and whose kernel wins."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import HOST_TOLERANCE, is_derived, replay_us, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

#: What makes rows of two devices the same work of a kernel.
WORK = ["kernel", "matrix_sha256", "n", "l2", "protocol"]
#: Columns of ``analysis_cases`` that are read.
READ = [
    *(*WORK, "device", "host", "suite", "study", "precision"),
    *("matrix", "time_ms", "useful_gflops", "bound_fraction", "stale"),
]


@table()
def between(cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_between`` from ``analysis_cases``; empty where no kernel ran on two devices.

    A line for each pair of devices, state of L2, suite and kernel. An empty suite stands for all suites, where a case
    of several suites counts once with its fastest row; an empty kernel for all kernels. Every mean is over the cases
    that both devices measured.
    """
    rows = _ran(cases)
    result: list[dict[str, Any]] = []
    for device, other in pairs(rows):
        of_suite = _both(rows, device, other, [*WORK, "suite"])
        anywhere = _both(rows, device, other, WORK).assign(suite="")
        for both in (of_suite, anywhere):
            for own in (both, both.assign(kernel="")):
                for (suite, kernel, l2), subset in own.groupby(["suite", "kernel", "l2"], sort=True):
                    about = {"device": device, "other": other, "suite": suite, "kernel": kernel, "l2": l2}
                    result.append(about | _means(subset))
    key = list(contracts.table("analysis_between").key)
    result.sort(key=lambda row: [row[name] for name in key])
    return contracts.frame(result, "analysis_between")


@table()
def swapped(cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_swapped`` from ``analysis_cases``: what it costs to take the other device's fastest kernel.

    A line for each pair of devices and case. Kernels that both devices timed on the case take part, in one precision;
    a case has a line where these are two or more.
    """
    rows = _ran(cases)
    result: list[dict[str, Any]] = []
    case = ["precision", "matrix_sha256", "n", "l2", "protocol"]
    for device, other in pairs(rows):
        both = _both(rows, device, other, WORK).sort_values("kernel", kind="stable")
        counts = both.groupby(case)["kernel"].transform("size")
        both = both[counts > 1]
        here = both.loc[both.groupby(case)["time_ms"].idxmin()].set_index(case)
        there = both.loc[both.groupby(case)["other_ms"].idxmin()].set_index(case)
        found = here[["matrix", "kernel"]].assign(
            device=device,
            other=other,
            kernels=both.groupby(case).size(),
            other_kernel=there["kernel"],
            loss=there["time_ms"] / here["time_ms"] - 1,
            other_loss=here["other_ms"] / there["other_ms"] - 1,
        )
        result += found.reset_index().drop(columns=["matrix_sha256", "protocol"]).to_dict("records")
    contract = contracts.table("analysis_swapped")
    result.sort(key=lambda row: [row[name] for name in contract.key])
    return contracts.frame(result, "analysis_swapped")


def pairs(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Every two devices of ``rows``, in the order of their names."""
    return itertools.combinations(sorted(rows["device"].unique()), 2)


def _ran(cases: pd.DataFrame) -> pd.DataFrame:
    """Verified rows; cuSPARSE takes part as the derived cusparse_best."""
    return timed(cases[(cases["study"] != "cusparse") | is_derived(cases["kernel"])])[READ]


def _both(rows: pd.DataFrame, device: str, other: str, work: list[str]) -> pd.DataFrame:
    """Rows of ``device`` whose work the other device did too on a host that launches as fast, with the columns of the
    other as ``other_*``.

    The fastest row of each work counts; ``work`` says in which columns both agree.
    """
    fastest = rows.sort_values(["time_ms", "suite"], kind="stable").drop_duplicates(["device", "host", *work])
    columns = {
        "host": "other_host",
        "time_ms": "other_ms",
        "useful_gflops": "other_gflops",
        "bound_fraction": "other_bound_fraction",
        "stale": "other_stale",
    }
    theirs = fastest.loc[fastest["device"] == other, [*work, *columns]].rename(columns=columns)
    both = fastest[fastest["device"] == device].merge(theirs, on=work)
    both = both[alike(both["host"], both["other_host"])]
    return both.sort_values(["time_ms", "other_ms"], kind="stable").drop_duplicates(work).sort_index()


def alike(one: pd.Series, other: pd.Series) -> pd.Series:
    """Whether two kinds of host, as :func:`.cases.hosts` names them, launch in the same time, as far as is known."""
    import pandas as pd

    replays = pd.concat([replay_us(one), replay_us(other)], axis=1)
    return ~(replays.max(axis=1) > (1 + HOST_TOLERANCE) * replays.min(axis=1))


def _means(both: pd.DataFrame) -> dict[str, Any]:
    """The numbers of one line over the cases of :func:`_both`."""
    import numpy as np

    ratios = (both["time_ms"] / both["other_ms"]).to_numpy(dtype=float)
    low, high = np.quantile(ratios, [0.25, 0.75])
    fractions = both[["bound_fraction", "other_bound_fraction"]].astype("float64")
    known = fractions[(fractions > 0).all(axis=1)]
    of_limits = both.loc[known.index]
    rates = np.log(of_limits["other_gflops"].to_numpy(dtype=float) / of_limits["useful_gflops"].to_numpy(dtype=float))
    logs = np.log(known.to_numpy(dtype=float))
    mine, theirs = np.exp(logs.mean(axis=0)) if len(logs) else (None, None)
    return {
        "cases": len(both),
        "matrices": both["matrix_sha256"].nunique(),
        "speedup": float(np.exp(np.log(ratios).mean())),
        "speedup_lower_quartile": float(low),
        "speedup_upper_quartile": float(high),
        "bound_fraction": mine,
        "other_bound_fraction": theirs,
        "limit_ratio": float(np.exp((rates - logs[:, 1] + logs[:, 0]).mean())) if len(logs) else None,
        "stale": bool((both["stale"] | both["other_stale"]).any()),
    }
