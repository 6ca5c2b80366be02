"""Pruned weights: what their names say, and rates of kernels on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Model, method and sparsity in the name of a pruned matrix; the sparsity is that of the whole model.
NAME = r"^[^-]+-(?P<method>[^-]+)-(?P<sparsity>[0-9.]+)(?:-|$)"


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` on matrices with such a name, with its ``method`` and its ``sparsity``, 0…1."""
    parts = rows["matrix"].str.extract(NAME)
    found = rows.assign(method=parts["method"], sparsity=parts["sparsity"].astype(float))
    return found.dropna(subset=["method", "sparsity"])


def means(rows: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Geometric means of ``value`` over the layers and whatever else ``by`` does not name."""
    import numpy as np

    logs = rows.assign(log=np.log(rows[value].astype(float))).groupby(by, as_index=False)["log"].mean()
    return logs.assign(**{value: np.exp(logs["log"])}).drop(columns="log")


def spoken(method: str) -> str:
    """A method of pruning as people write it."""
    return re.sub(r"^l(?=\d)", "L", method.replace("_", " "))
