"""Kernels on tensor cores that cuTeSpMM's figures compare: the fastest kernel of each study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .style import LIBRARIES

if TYPE_CHECKING:
    import pandas as pd

STUDY = "cutespmm"

#: The smallest number of matrices that is shown as a distribution.
LEAST_MATRICES = 20


def shown(tables) -> pd.DataFrame:
    """Rows of ``synergy`` of the leading kernel of each study; none if the study ran on too few matrices."""
    rows = tables["synergy"]
    rows = rows[~rows["study"].isin(LIBRARIES)]
    if rows.loc[rows["study"] == STUDY, "matrix"].nunique() < LEAST_MATRICES:
        return rows.head(0)
    return rows[rows["kernel"].isin(leading(rows))]


def leading(rows: pd.DataFrame) -> list[str]:
    """The kernel of each study with the highest geometric mean speed-up, :data:`STUDY` first.

    Only the kernels with the most cases in their study are compared, so that the means are over the same matrices.
    """
    import numpy as np

    rated = rows.dropna(subset="speedup")
    logs = rated.assign(log=np.log(rated["speedup"].astype(float)))
    ranked = logs.groupby(["study", "kernel"])["log"].agg(["size", "mean"]).reset_index()
    best = ranked.sort_values(["size", "mean", "kernel"]).drop_duplicates("study", keep="last")
    return list(best.sort_values("study", key=lambda names: names.ne(STUDY))["kernel"])
