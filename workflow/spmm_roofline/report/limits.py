"""What limits each kernel: the rules of the analysis as sentences, a kernel at a time, and its counters beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..figures.numbers import PRECISIONS, counted, listed, percent, significant, size, times
from .tables import Cell, Table

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn

CASE = list(contracts.table("analysis_limiters").key)

#: What limits → its name in a sentence, and the column of its share for a unit that is busy.
LIMITERS = {
    "no_single_limit": "no single unit",
    "dram_bandwidth": "the bandwidth of DRAM",
    "l2_bandwidth": "the bandwidth of L2",
    "l1_bandwidth": "L1 and shared memory",
    "tensor_cores": "the tensor cores",
    "issue": "the number of its instructions",
    "memory_latency": "the latency of memory",
    "memory_queue": "the queue of accesses to global memory",
    "shared_memory": "waiting for shared memory",
    "math_pipes": "the pipes that multiply",
    "barriers": "waiting for other warps",
    "fences": "waiting for its writes",
    "dependences": "waiting for its own results",
    "instruction_supply": "waiting for instructions",
    "wgmma": "waiting for wgmma",
    "other_waits": "other waits",
    "unknown": "something that was not counted",
}
BUSY = {
    "dram_bandwidth": ("dram_share_fraction", "DRAM moves {} of the highest measured rate"),
    "l2_bandwidth": ("l2_share_fraction", "L2 moves {} of the highest measured rate"),
    "l1_bandwidth": ("l1_share_fraction", "the busiest part of L1 and shared memory runs at {} of its peak"),
    "tensor_cores": ("tensor_share_fraction", "the tensor cores work in {} of the cycles"),
    "issue": ("issue_share_fraction", "a scheduler issues in {} of the cycles"),
}

#: From here on a busy unit is named, and a remark is made, whatever limits: occupancy below, threads of an instruction
#: below, excess and bank conflicts above.
HALF_BUSY = 0.5
LOW_OCCUPANCY, FEW_THREADS, MUCH_EXCESS, MANY_CONFLICTS = 0.5, 24.0, 0.2, 0.1


def limits(data: dict[str, pd.DataFrame], drawn: Iterable[Drawn]) -> Iterable[dict[str, Any]]:
    """A device, a state of L2 and a study at a time: figure, a sentence a kernel, and a table of its counters."""
    rows = data["limiters"].merge(data["counters"].drop(columns=["study", "as_timed"]), on=CASE, how="left")
    drawn = [figure for figure in drawn if figure.kind.section == "counters"]
    for (device, l2, study), own in rows.groupby(["device", "l2", "study"], sort=True):
        of = {"device": device, "l2": l2, "study": study}
        kernels = [(kernel, part) for kernel, part in own.groupby("kernel", sort=True)]
        yield of | {
            "figures": [figure for figure in drawn if figure.of == of],
            "kernels": [{"name": kernel, "says": sentence(part)} for kernel, part in kernels],
            "table": table(kernels, data["stalls"]),
            "matrices": own["matrix"].nunique(),
        }


def sentence(rows: pd.DataFrame) -> str:
    """What limits one kernel on most of its profiled cases, because of what, and what on the others."""
    counts = rows["limiter"].value_counts()
    order = [name for name in LIMITERS if name in counts]
    order.sort(key=lambda name: -counts[name])  # equal counts stay in the order above
    first, others = order[0], order[1:]
    own = rows[rows["limiter"] == first]
    on = f" on {counts[first]} of {counted(len(rows), 'profiled case')}" if len(rows) > 1 else ""
    says = f"{_because(first, own)}{''.join(_remarks(own))}."
    text = f"Limited by {LIMITERS[first]}{on}, because {says}"
    if first == "no_single_limit":
        text = f"No single limit{on}: {says}"
    if first == "unknown":
        text = f"What limits it{on or ' here'} is not known: {says}"
    if others:
        text += f" On the rest it is {listed([f'{LIMITERS[name]} ({counts[name]})' for name in others])}."
    return text


def _because(limiter: str, rows: pd.DataFrame) -> str:
    if limiter in BUSY:
        column, words = BUSY[limiter]
        return words.format(percent(rows[column].median()))
    if limiter == "no_single_limit":
        medians = {words: rows[column].median() for column, words in BUSY.values() if rows[column].notna().any()}
        least = min(HALF_BUSY, max(medians.values()))
        return listed([words.format(percent(median)) for words, median in medians.items() if median >= least])
    rates = f"DRAM moves {percent(rows['dram_share_fraction'].median())}"
    if rows["l2_share_fraction"].notna().any():
        rates += f" and L2 {percent(rows['l2_share_fraction'].median())}"
    rates += " of the highest measured rate"
    if limiter == "unknown":
        return f"{rates}, and too few states of the warps were counted to say what they wait for"
    state = rows["state"].value_counts().sort_index().sort_values(ascending=False, kind="stable").index[0]
    share, warps = rows["state_fraction"].median(), rows["state_warps"].median()
    return (
        f"{percent(share)} of the waiting warps stand in {state.replace('_', ' ')}, "
        f"{significant(warps)} for each instruction issued, while {rates}"
    )


def _remarks(rows: pd.DataFrame) -> Iterable[str]:
    occupancy, fits = rows["occupancy_fraction"].median(), rows["occupancy_limit_fraction"].median()
    if occupancy < LOW_OCCUPANCY:
        most = f" of at most {percent(fits)}" if fits == fits else ""
        yield f"; occupancy is {percent(occupancy)}{most}"
    if rows["threads_per_instruction"].median() < FEW_THREADS:
        yield f"; {significant(rows['threads_per_instruction'].median())} of 32 threads take part in an instruction"
    if rows["excess_sectors_fraction"].median() > MUCH_EXCESS:
        yield f"; {percent(rows['excess_sectors_fraction'].median())} of the sectors asked of L2 are excess"
    if rows["conflicts_per_instruction"].median() > MANY_CONFLICTS:
        yield f"; {significant(rows['conflicts_per_instruction'].median())} bank conflicts for each instruction"
    if rows["local_bytes"].median() > 0:
        yield f"; {size(rows['local_bytes'].median())} go to and from local memory"


#: Heading → column of the counters, and how it is shown.
COLUMNS = {
    "time": ("profiled_ms", significant),
    "DRAM": ("dram_bytes", size),
    "L2": ("cache_bytes", size),
    "L1": ("first_bytes", size),
    "DRAM / compulsory": ("dram_over_compulsory", times),
    "L2 / compulsory": ("cache_over_compulsory", times),
    "DRAM of its ceiling": ("dram_share_fraction", percent),
    "L2 of its ceiling": ("l2_share_fraction", percent),
    "L1 busy": ("l1_busy_fraction", percent),
    "L2 hits": ("l2_hit_fraction", percent),
    "L1 hits": ("l1_hit_fraction", percent),
    "excess sectors": ("excess_sectors_fraction", percent),
    "bank conflicts / instruction": ("conflicts_per_instruction", significant),
    "occupancy": ("occupancy_fraction", percent),
    "at most": ("occupancy_limit_fraction", percent),
    "registers": ("registers", significant),
    "local memory": ("local_bytes", size),
    "tensor cores busy": ("tensor_pipe_fraction", percent),
    "of it 2:4": ("tensor_sparse24_fraction", percent),
    "issuing": ("issue_fraction", percent),
    "threads / instruction": ("threads_per_instruction", significant),
    "instructions / non-zero": ("instructions_per_nonzero", significant),
}


def table(kernels: list[tuple[str, pd.DataFrame]], stalls: pd.DataFrame) -> Table:
    """Medians over the profiled cases, a line a kernel; columns that no kernel fills are left out."""
    shown = {
        heading: what for heading, what in COLUMNS.items() if any(part[what[0]].notna().any() for _, part in kernels)
    }
    result = Table(
        "Counters, medians over the profiled cases",
        (
            "kernel",
            "precision",
            "cases",
            "limited by",
            *(f"{h} (ms)" if h == "time" else h for h in shown),
            "waits most",
        ),
    )
    for kernel, part in kernels:
        first = part["limiter"].value_counts().sort_index().sort_values(ascending=False, kind="stable").index[0]
        own = stalls[(stalls["kernel"] == kernel) & (stalls["device"] == part["device"].iloc[0])]
        own = own[(own["l2"] == part["l2"].iloc[0]) & own["waits"].astype(bool)]
        waits = own.groupby("state")["warps"].mean().sort_values(ascending=False, kind="stable").head(3)
        cells = [_median(part[column], show) for column, show in shown.values()]
        result.rows.append(
            [
                Cell(kernel, code=True),
                Cell(PRECISIONS.get(part["precision"].iloc[0], "–")),
                Cell(f"{len(part):,}", float(len(part))),
                Cell(LIMITERS[first]),
                *cells,
                Cell(
                    ", ".join(f"{state.replace('_', ' ')} {significant(warps)}" for state, warps in waits.items())
                    or "–"
                ),
            ]
        )
    return result


def _median(values: pd.Series, show) -> Cell:
    value = values.median()
    return Cell(show(value), None if value != value else float(value))
