"""Kernels on tensor cores that cuTeSpMM's figures compare: of each study the one that is fastest over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .style import LIBRARIES

if TYPE_CHECKING:
    import pandas as pd

STUDY = "cutespmm"

#: Fewer matrices than this are no distribution.
LEAST_MATRICES = 20


def shown(tables) -> pd.DataFrame:
    """Rows of ``synergy`` where the study ran on enough matrices, of the leading kernel of each study alone."""
    rows = tables["synergy"]
    rows = rows[~rows["study"].isin(LIBRARIES)]
    if rows.loc[rows["study"] == STUDY, "matrix"].nunique() < LEAST_MATRICES:
        return rows.head(0)
    return rows[rows["kernel"].isin(leading(rows))]


def leading(rows: pd.DataFrame) -> list[str]:
    """Of each study the kernel with the highest geometric mean of its speed-up, that of :data:`STUDY` first.

    Only kernels that ran on the most cases of their study take part, so that the means are over the same matrices.
    """
    import numpy as np

    rated = rows.dropna(subset="speedup")
    logs = rated.assign(log=np.log(rated["speedup"].astype(float)))
    ranked = logs.groupby(["study", "kernel"])["log"].agg(["size", "mean"]).reset_index()
    best = ranked.sort_values(["size", "mean", "kernel"]).drop_duplicates("study", keep="last")
    return list(best.sort_values("study", key=lambda names: names.ne(STUDY))["kernel"])
