"""Pruned weights: their names, and means of kernels on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Model, method and sparsity of the whole model in the name of a pruned matrix.
NAME = r"^[^-]+-(?P<method>[^-]+)-(?P<sparsity>[0-9.]+)(?:-|$)"


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` on matrices whose name matches :data:`NAME`, with the columns ``method`` and ``sparsity``, 0…1."""
    found_in_name = rows["matrix"].str.extract(NAME)
    found = rows.assign(method=found_in_name["method"], sparsity=found_in_name["sparsity"].astype(float))
    return found.dropna(subset=["method", "sparsity"])


def means(rows: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Geometric means of ``value`` over the layers and all other columns that ``by`` does not name."""
    import numpy as np

    logs = rows.assign(log=np.log(rows[value].astype(float))).groupby(by, as_index=False)["log"].mean()
    return logs.assign(**{value: np.exp(logs["log"])}).drop(columns="log")


def spoken(method: str) -> str:
    """A method of pruning as running text."""
    return re.sub(r"^l(?=\d)", "L", method.replace("_", " ").replace("regularization", "regularisation"))
