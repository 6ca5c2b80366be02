"""How many rows ended how: nothing that failed is left out of sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .cases import is_derived
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def status(cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_status`` from ``analysis_cases``: counts by outcome and message, with one example each."""
    contract = contracts.table("analysis_status")
    rows = cases[~is_derived(cases["kernel"])].sort_values(["matrix", "n"])
    rows = rows.assign(example=rows["matrix"] + ", n = " + rows["n"].astype("string"))
    counts = rows.groupby(list(contract.key), as_index=False, sort=True).agg(
        rows=("matrix", "size"), example=("example", "first")
    )
    return contracts.frame(counts.to_dict("records"), "analysis_status")
