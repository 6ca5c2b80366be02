"""What limits a profiled call: rules on its counters, the first that holds.

After NVIDIA's guide to Nsight Compute ("Kernel Profiling Guide"), in our words. Section "Sections and Rules", Speed Of
Light: a unit that runs above :data:`BUSY` of what it can do is what the kernel runs into; where none does, latency is
the matter. Busy is not limited: only a unit above :data:`LIMITING` that is ahead of every other by :data:`MARGIN`, the
issue slots among them, is called the limit. Of busy units that are not, none is: ``no_single_limit``. Section
"Statistical Sampler / Warp Scheduler States" and Warp State Statistics: states of warps explain a time only where
schedulers do not issue in most cycles anyhow, and then the state in which most warps wait names what they wait for.
Which unit is busy:

- ``dram_bandwidth``, ``l2_bandwidth``: bytes a second over the highest rate that was measured on the device.
- ``l1_bandwidth``: the busiest part of L1 and shared memory, as Nsight sees it.
- ``tensor_cores``: cycles in which their pipe works.
- ``issue``: cycles in which a scheduler issues. More instructions than it can issue is what is left to save.

Else the state of most waiting warps (:data:`STATES`): a warp waits in ``long_scoreboard`` for data of global or local
memory, while neither DRAM nor L2 is busy, so that more of it must be asked for at once; in ``lg_throttle`` for room in
the queue of such accesses; in ``short_scoreboard`` and ``mio_throttle`` for shared memory and what shares its queue; in
``math_pipe_throttle`` for a pipe that multiplies; in ``gmma`` for wgmma; in ``barrier`` for other warps of its CTA; in
``membar`` and ``drain`` for memory to have taken what was written; in ``wait`` for the fixed time that the instruction
before takes; in ``no_instruction``, ``branch_resolving``, ``imc_miss`` and ``dispatch_stall`` for instructions or
constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import contracts
from .counters import KEY, LEAST_STATES
from .counters import STATE_PREFIX as PREFIX
from .counters import STATE_SUFFIX as SUFFIX
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

#: Fraction of its peak above which a unit counts as busy: the guide's rule of thumb of 60 %.
BUSY = 0.6

#: Fraction above which a busy unit is the limit of a kernel, if it is ahead of all others by the margin.
LIMITING, MARGIN = 0.8, 0.05

#: A warp that issues, and one that could but was not chosen, do not wait.
RUNNING = ("selected", "not_selected")

#: State of a warp → what limits where most wait in it and no unit is busy.
STATES = {
    "long_scoreboard": "memory_latency",
    "lg_throttle": "memory_queue",
    "tex_throttle": "memory_queue",
    "short_scoreboard": "shared_memory",
    "mio_throttle": "shared_memory",
    "math_pipe_throttle": "math_pipes",
    "gmma": "wgmma",
    "barrier": "barriers",
    "membar": "fences",
    "drain": "fences",
    "wait": "dependences",
    "no_instruction": "instruction_supply",
    "branch_resolving": "instruction_supply",
    "imc_miss": "instruction_supply",
    "dispatch_stall": "instruction_supply",
}

#: Column → limiter where the column is the highest by the margin.
UNITS = {
    "dram_share_fraction": "dram_bandwidth",
    "l2_share_fraction": "l2_bandwidth",
    "l1_share_fraction": "l1_bandwidth",
    "tensor_share_fraction": "tensor_cores",
    "issue_share_fraction": "issue",
}


@table()
def stalls(profiled: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_stalls`` from the tables ``profile`` and ``analysis_cases``; unmeasured cases are left out."""
    rows = profiled[(profiled["status"] == "ok") & profiled["metric"].str.startswith(PREFIX)]
    rows = rows.assign(
        state=rows["metric"].str.removeprefix(PREFIX).str.removesuffix(SUFFIX), warps=rows["value"].astype(float)
    )
    rows = rows.merge(cases[[*KEY, "study"]].drop_duplicates(KEY), on=KEY, how="inner")
    rows = rows.assign(waits=~rows["state"].isin(RUNNING))
    names = list(contracts.table("analysis_stalls").names)
    return contracts.check(rows[names].sort_values([*KEY, "state"], ignore_index=True), "analysis_stalls")


def limiter(shares: Mapping[str, float], waiting: Mapping[str, float]) -> str:
    """What limits a call: ``shares`` are those of :data:`UNITS`, 0…1, NaN where unknown; ``waiting``: state → warps for
    each instruction issued, without :data:`RUNNING`."""
    busy = sorted(((share, column) for column, share in shares.items() if share >= BUSY), reverse=True)
    if busy:
        most, column = busy[0]
        alone = len(busy) == 1 or most - busy[1][0] > MARGIN
        return UNITS[column] if most >= LIMITING and alone else "no_single_limit"
    if len(waiting) < LEAST_STATES:
        return "unknown"
    return STATES.get(max(waiting, key=lambda state: waiting[state]), "other_waits")


@table()
def limiters(
    counters: pd.DataFrame,
    stalls: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    l2_gb_per_s: Mapping[str, float],
) -> pd.DataFrame:
    """Table ``analysis_limiters`` from ``analysis_counters`` and ``analysis_stalls``, a row a profiled case.

    ``dram_gb_per_s`` and ``l2_gb_per_s``: device → highest measured rate.
    """
    rows = counters.assign(
        dram_share_fraction=counters["dram_gb_per_s"] / counters["device"].map(dict(dram_gb_per_s)).astype(float),
        l2_share_fraction=counters["cache_gb_per_s"] / counters["device"].map(dict(l2_gb_per_s)).astype(float),
        l1_share_fraction=counters["l1_busy_fraction"],
        tensor_share_fraction=counters["tensor_pipe_fraction"],
        issue_share_fraction=counters["issue_fraction"],
    )
    waiting: dict[tuple, dict[str, float]] = {}
    of_those = stalls.loc[stalls["waits"].astype(bool), [*KEY, "state", "warps"]]
    for *key, state, warps in of_those.itertuples(index=False, name=None):
        waiting.setdefault(tuple(key), {})[state] = warps
    result = []
    for row in rows.to_dict("records"):
        line = {name: row[name] for name in contracts.table("analysis_limiters").names if name in row}
        own = waiting.get(tuple(row[name] for name in KEY), {})
        line["limiter"] = limiter({name: row[name] for name in UNITS}, own)
        if len(own) >= LEAST_STATES and sum(own.values()) > 0:
            line["state"] = max(own, key=lambda state: own[state])
            line["state_warps"] = own[line["state"]]
            line["state_fraction"] = line["state_warps"] / sum(own.values())
        result.append(line)
    return contracts.frame(result, "analysis_limiters")
