"""The best of a family of algorithms, case by case: what its authors, who choose among them, would report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import COMPARABLE, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def families(cases: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Table ``analysis_families`` from ``analysis_cases`` and the heads: the fastest verified member of each family.

    Members of another precision are a family of their own.
    """
    family = {name: head["family"] for name, head in heads.items() if head.get("family")}
    rows = timed(cases)
    rows = rows[rows["kernel"].isin(family)]
    rows = rows.assign(family=rows["kernel"].map(family))
    case = [*COMPARABLE, "family", "precision"]
    ran = rows.groupby(case)["kernel"].transform("size")
    best = rows.assign(members=ran).sort_values(["time_ms", "kernel"]).drop_duplicates(case)
    names = list(contracts.table("analysis_families").names)
    return contracts.check(
        best[names].sort_values(list(contracts.table("analysis_families").key), ignore_index=True), "analysis_families"
    )
