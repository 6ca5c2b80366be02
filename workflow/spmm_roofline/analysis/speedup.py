"""Speed-up of each kernel over cusparse_best, losses as plainly as wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .bootstrap import summary
from .cases import is_derived
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def speedup(cases: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Table ``analysis_speedup`` from ``analysis_cases``: geometric mean over matrices with its 95 % interval.

    Matrices are what is resampled (``resamples`` times): the question is how the mean would differ on other matrices
    of this kind. Rows without a time or without a baseline do not enter; the status table counts them.
    """
    keys = ["device", "suite", "study", "kernel", "precision", "n", "l2"]
    rows = cases.loc[cases["speedup"].notna() & ~is_derived(cases["kernel"]), [*keys, "speedup", "stale"]]
    speedups, stale = rows["speedup"].to_numpy(dtype=float), rows["stale"].fillna(False).to_numpy(dtype=bool)
    result = []
    for key, own in sorted(rows.groupby(keys).indices.items()):
        about = summary(speedups[own], key, resamples) | {"stale": bool(stale[own].any())}
        result.append(dict(zip(keys, key, strict=True)) | about)
    return contracts.frame(result, "analysis_speedup")
