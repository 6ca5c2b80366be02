"""The best of a family of algorithms, case by case: what its authors, who choose among them, would report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import timed
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
    contract = contracts.table("analysis_families")
    # As for the fastest kernel, rows of all hosts take part.
    case = list(contract.key)
    ran = rows.groupby(case)["kernel"].transform("nunique")
    best = rows.assign(members=ran).sort_values(["time_ms", "kernel"]).drop_duplicates(case)
    return contracts.check(best[list(contract.names)].sort_values(case, ignore_index=True), "analysis_families")
