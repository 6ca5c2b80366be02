"""Counters of a kernel beside those of the rungs below it: what an idea changed in the work and in the waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import KEY, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

#: Columns of ``analysis_counters`` that are compared as they are.
COUNTED = ("instructions", "global_loads", "shared_loads", "shared_load_wavefronts", "cycles_per_instruction")
#: Column → the state of ``analysis_stalls`` that it holds.
STATES = {"branch_warps": "branch_resolving", "memory_warps": "long_scoreboard"}
COMPARED = (*COUNTED, *STATES)
#: A case without its kernel.
CASE = [name for name in KEY if name != "kernel"]
#: Features that say how a kernel multiplies and not how it loads.
PRODUCTS = ("mma", "wgmma")
#: Rows and columns of the product of one mma.m16n8k16, and its depth.
TILE_N = 8


@table()
def rungs(
    counters: pd.DataFrame,
    stalls: pd.DataFrame,
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Table ``analysis_rungs``: a row for each profiled case of a kernel and each rung below it profiled there too.

    ``counters``, ``stalls`` and ``cases`` are the tables ``analysis_*``; ``heads``: kernel → head with ``after``. Times
    are those without the profiler; a pair of which one has no valid time has no ``speedup``.
    """
    import pandas as pd

    own = counters[[*KEY, "study", *COUNTED]].astype(dict.fromkeys(COUNTED, "float64"))
    for column, state in STATES.items():
        warps = stalls.loc[stalls["state"] == state, [*KEY, "warps"]].rename(columns={"warps": column})
        own = own.merge(warps.astype({column: "float64"}), on=KEY, how="left")
    times = timed(cases).drop_duplicates(KEY)[[*KEY, "time_ms"]]
    own = own.merge(times, on=KEY, how="left")
    pairs = pd.DataFrame(list(_pairs(set(own["kernel"]), heads)), columns=["kernel", "below", "rungs", "loads_alike"])
    values = [*COMPARED, "time_ms"]
    lower = own[[*KEY, *values]].rename(columns={"kernel": "below"} | {name: f"below_{name}" for name in values})
    rows = own.merge(pairs, on="kernel").merge(lower, on=[*CASE, "below"])
    known = matrices.drop_duplicates("matrix").set_index("matrix")
    rows = rows.assign(
        tile_k=rows["kernel"].map(lambda kernel: heads[kernel]["tile"].get("k")).astype("Int64"),
        below_tile_k=rows["below"].map(lambda kernel: heads[kernel]["tile"].get("k")).astype("Int64"),
        products=rows["matrix"].map(known["tiles_16x16"]).astype("float64") * rows["n"].astype("float64") / TILE_N,
        all_dense=rows["matrix"].map(known["tile_24_16x16_fraction"]).astype("float64").eq(0),
        speedup=rows["below_time_ms"].astype("float64") / rows["time_ms"].astype("float64"),
    )
    contract = contracts.table("analysis_rungs")
    return contracts.check(
        rows[list(contract.names)].sort_values(list(contract.key), ignore_index=True), "analysis_rungs"
    )


def _pairs(kernels: set[str], heads: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, int, bool]]:
    """Kernel, a rung below it, the number of rungs between, and whether both load with the same instructions."""
    for kernel in sorted(kernels & heads.keys()):
        below, height = heads[kernel].get("after") or "", 1
        while below in heads:
            if below in kernels:
                yield kernel, below, height, _loads(heads[kernel]) == _loads(heads[below])
            below, height = heads[below].get("after") or "", height + 1


def _loads(head: Mapping[str, Any]) -> set[str]:
    return {feature for feature in head["features"] if not feature.startswith(PRODUCTS)}
