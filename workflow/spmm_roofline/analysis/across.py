"""Kernels on several devices, compared on the cases that all these devices measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .cases import HOST_TOLERANCE, once, replay_us, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def across(cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_across`` from ``analysis_cases``; empty where no kernel ran on two devices.

    A case is a matrix at a width in a state of L2. Only the cases of a kernel count that every device with rows of this
    kernel measured on hosts that launch equally fast, so that devices are compared on the same work; a case of several
    suites counts once, with its fastest row.
    """
    import numpy as np

    ran = once(timed(cases)).drop_duplicates(["device", "kernel", "matrix_sha256", "n", "l2"])
    group = ["kernel", "l2"]
    devices = ran.groupby(group)["device"].transform("nunique")
    case = [*group, "matrix_sha256", "n"]
    shared = ran.groupby(case)["device"].transform("size")
    replays = replay_us(ran["host"]).groupby([ran[name] for name in case])
    unequal = replays.transform("max") > (1 + HOST_TOLERANCE) * replays.transform("min")
    ran = ran[(devices > 1) & (shared == devices) & ~unequal].assign(
        log_rate=lambda rows: np.log(rows["useful_gflops"].clip(lower=1e-12)),
        log_speedup=lambda rows: np.log(rows["speedup"]),
    )
    found = ran.groupby(["device", "study", "precision", *group], as_index=False).agg(
        cases=("n", "size"),
        useful_gflops=("log_rate", lambda logs: np.exp(logs.mean())),
        speedup=("log_speedup", lambda logs: np.exp(logs.mean())),
        bound_fraction=("bound_fraction", "median"),
        stale=("stale", "any"),
    )
    return contracts.frame(found.to_dict("records"), "analysis_across")
