"""Profiler's counters that a paper prints, beside ours on the same case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import BEST, KEY
from .published import CUSPARSE, PRUNED
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

#: Threads of a warp, and schedulers of a multiprocessor, each with a quarter of it.
WARP, SCHEDULERS = 32, 4


@dataclass(frozen=True)
class Printed:
    """One quantity of a paper: ``column`` is ours, of ``analysis_counters`` or a state of ``analysis_stalls``.

    ``comparable``: the number follows from the code and its operands, not from the GPU that runs it.
    """

    column: str
    unit: str
    comparable: bool = False


#: Quantity of ``analysis_papers`` → ours.
QUANTITIES = {
    "excess sectors": Printed("excess_sectors_fraction", "1", comparable=True),
    "executed instructions": Printed("instructions", "instructions", comparable=True),
    "grid size": Printed("ctas", "CTAs", comparable=True),
    "not-predicated-off threads per warp": Printed("working_threads_per_instruction", "threads", comparable=True),
    "predicated-off threads per warp": Printed("working_threads_per_instruction", "threads", comparable=True),
    "average divergent branches": Printed("divergent_branches", "branches", comparable=True),
    "warp cycles per issued instruction": Printed("cycles_per_instruction", "cycles"),
    "cycles in LG throttle": Printed("lg_throttle", "cycles"),
    "cycles in MIO throttle": Printed("mio_throttle", "cycles"),
    "achieved occupancy": Printed("occupancy_fraction", "1"),
    "theoretical occupancy": Printed("occupancy_limit_fraction", "1"),
    "L1 hit rate": Printed("l1_hit_fraction", "1"),
    "L2 hit rate": Printed("l2_hit_fraction", "1"),
    "registers per thread": Printed("registers", "registers"),
}

UNPROFILED, UNCOUNTED = "this case was not profiled", "the profile has no usable number for this counter"


@table()
def paper_counters(
    papers: pd.DataFrame,
    cases: pd.DataFrame,
    counters: pd.DataFrame,
    stalls: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Table ``analysis_paper_counters``: a row for each printed counter and each case of ours that it speaks of.

    ``papers``, ``cases``, ``counters`` and ``stalls`` are the tables ``analysis_*``. The library of a paper is the
    kernel whose head names the study as its ``baseline``. A paper that names a pruned matrix without its layer is
    compared with each layer that we timed. ``described``: device → its datasheet or record, which has the
    ``multiprocessors`` that turn an average over their schedulers into a total.
    """
    told = papers[papers["quantity"].isin(QUANTITIES)]
    if told.empty:
        return contracts.frame([], "analysis_paper_counters")
    calls = {head["baseline"]: name for name, head in heads.items() if head.get("baseline") not in (None, BEST)}
    ours_is = told["kernel"].where(told["kernel"] != CUSPARSE, told["study"].map(calls))
    printed = told["quantity"].map(QUANTITIES)
    told = told.assign(
        kernel=ours_is,
        published=[_as_ours(row, described) for row in told.itertuples()],
        quantity=[found.column for found in printed],
        unit=[found.unit for found in printed],
        comparable=[found.comparable for found in printed],
    )
    timed = cases.loc[cases["status"] == "ok", KEY].drop_duplicates()
    timed = timed.assign(named=timed["matrix"].str.extract(PRUNED, expand=False).fillna(timed["matrix"]))
    rows = told.rename(columns={"matrix": "named"}).merge(timed, on=["named", "n", "kernel"])
    rows = rows.merge(_counted(counters, stalls), on=[*KEY, "quantity"], how="left")
    profiled = rows.merge(counters[KEY].assign(profiled=True), on=KEY, how="left")["profiled"].notna().to_numpy()
    missing = rows["ours"].isna()
    rows = rows.assign(
        ratio=rows["ours"] / rows["published"],
        reason=missing.map({True: UNCOUNTED, False: None}).mask(missing & ~profiled, UNPROFILED),
    )
    contract = contracts.table("analysis_paper_counters")
    ordered = rows[list(contract.names)].sort_values(list(contract.key), ignore_index=True)
    return contracts.check(ordered, "analysis_paper_counters")


def _as_ours(row: Any, described: Mapping[str, Mapping[str, Any]]) -> float:
    """A printed number as the quantity that we count."""
    if row.quantity.startswith("predicated-off"):
        return WARP - row.value
    if row.quantity.startswith("average"):
        return row.value * SCHEDULERS * described[row.paper_device]["multiprocessors"]
    return row.value


def _counted(counters: pd.DataFrame, stalls: pd.DataFrame) -> pd.DataFrame:
    """:data:`KEY`, ``quantity`` and ``ours`` of everything that was counted."""
    import pandas as pd

    wanted = {printed.column for printed in QUANTITIES.values()}
    columns = [name for name in counters if name in wanted]
    wide = counters[[*KEY, *columns]].astype(dict.fromkeys(columns, "float64"))
    long = wide.melt(KEY, var_name="quantity", value_name="ours")
    states = stalls.loc[stalls["state"].isin(wanted), [*KEY, "state", "warps"]]
    states = states.rename(columns={"state": "quantity", "warps": "ours"}).astype({"ours": "float64"})
    return pd.concat([long, states], ignore_index=True).dropna(subset="ours")
