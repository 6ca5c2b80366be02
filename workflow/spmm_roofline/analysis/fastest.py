"""The fastest kernel of each case within a precision class, and the one behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .cases import is_derived, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def fastest(cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_fastest`` from ``analysis_cases``.

    Every kernel that was launched takes part, the cuSPARSE variants included; equal times go to the first name.
    """
    contract = contracts.table("analysis_fastest")
    ran = timed(cases)
    ran = ran[~is_derived(ran["kernel"])]
    ran = ran.sort_values([*contract.key, "time_ms", "kernel"])
    rank = ran.groupby(list(contract.key)).cumcount()
    second = ran[rank == 1][[*contract.key, "kernel", "time_ms"]]
    second = second.rename(columns={"kernel": "runner_up", "time_ms": "runner_up_ms"})
    rows = ran[rank == 0].merge(second, on=list(contract.key), how="left")
    rows["runner_up"] = rows["runner_up"].fillna("")
    return contracts.check(rows[contract.names], "analysis_fastest")
