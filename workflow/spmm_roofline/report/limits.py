"""The limit of each kernel: the verdicts of the analysis as one sentence per kernel, with its counters beside them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..figures import limits as lines
from ..figures.numbers import PRECISIONS, bandwidth, counted, listed, percent, rate, significant, size, times
from .tables.cells import Cell, Column, Table, code, count, number, text_or_dash
from .tables.cells import table as made_of

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn

CASE = list(contracts.table("analysis_limiters").key)

#: Limiter → its name in a sentence.
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
#: Limiter that is a busy unit → the column of its load, and the words for it.
BUSY = {
    "dram_bandwidth": ("dram_share_fraction", "DRAM moves {} of the highest measured rate"),
    "l2_bandwidth": ("l2_share_fraction", "L2 moves {} of the highest measured rate"),
    "l1_bandwidth": ("l1_share_fraction", "the busiest unit of L1 and shared memory runs at {} of its peak"),
    "tensor_cores": ("tensor_share_fraction", "the tensor cores work in {} of the cycles"),
    "issue": ("issue_share_fraction", "a scheduler issues in {} of the cycles"),
}

#: Without a single limit, units at least this busy are named.
HALF_BUSY = 0.5
#: A remark is made below the first two of these values and above the others.
LOW_OCCUPANCY, FEW_THREADS, MUCH_EXCESS, MANY_CONFLICTS = 0.5, 24.0, 0.2, 0.1


def roofs(ceilings: pd.DataFrame, devices: Iterable[str]) -> dict[str, Any]:
    """Device → the lines of its roofline for the page's script: slopes of memory, and levels by precision."""
    found = {}
    for device in devices:
        own = ceilings[ceilings["device"] == device]
        slopes = [
            {"label": f"{lines.SLOPES[level][0]} {bandwidth(value)}", "gb_per_s": value}
            for level, value in lines.slopes(own).items()
        ]
        levels = {
            precision: [
                {"label": f"{level.label}: {rate(level.value)}", "value": level.value, "measured": level.measured}
                for level in lines.levels(own, precision)
            ]
            for precision in lines.UNITS
        }
        found[device] = {"slopes": slopes, "levels": levels}
    return found


def limits(data: dict[str, pd.DataFrame], drawn: Iterable[Drawn]) -> Iterable[dict[str, Any]]:
    """For each device, state of L2 and study: the figure, a sentence per kernel, and a table of counters."""
    rows = data["limiters"].merge(data["counters"].drop(columns=["study", "as_timed"]), on=CASE, how="left")
    drawn = [figure for figure in drawn if figure.kind.section == "counters"]
    for (device, l2, study), own in rows.groupby(["device", "l2", "study"], sort=True):
        of = {"device": device, "l2": l2, "study": study}
        kernels = [(kernel, subset) for kernel, subset in own.groupby("kernel", sort=True)]
        yield of | {
            "figures": [figure for figure in drawn if figure.of == of],
            "kernels": [{"name": kernel, "says": sentence(subset)} for kernel, subset in kernels],
            "table": table(kernels, data["stalls"]),
            "matrices": own["matrix"].nunique(),
        }


def sentence(rows: pd.DataFrame) -> str:
    """The limit of one kernel on most of its profiled cases with its reason, and the limits on the other cases."""
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
    state = _most(rows["state"])
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
        yield f"; {significant(rows['threads_per_instruction'].median())} of 32 threads are active in an instruction"
    if rows["excess_sectors_fraction"].median() > MUCH_EXCESS:
        yield f"; {percent(rows['excess_sectors_fraction'].median())} of the sectors asked of L2 are excess"
    if rows["conflicts_per_instruction"].median() > MANY_CONFLICTS:
        yield f"; {significant(rows['conflicts_per_instruction'].median())} bank conflicts for each instruction"
    if rows["local_bytes"].median() > 0:
        yield f"; {size(rows['local_bytes'].median())} go to and from local memory"


#: Medians of a kernel's counters.
MEDIANS = (
    Column("time (ms)", "profiled_ms", number(significant)),
    Column("DRAM", "dram_bytes", number(size)),
    Column("L2", "cache_bytes", number(size)),
    Column("L1", "first_bytes", number(size)),
    Column("DRAM / compulsory", "dram_over_compulsory", number(times)),
    Column("L2 / compulsory", "cache_over_compulsory", number(times)),
    Column("DRAM of its ceiling", "dram_share_fraction", number(percent)),
    Column("L2 of its ceiling", "l2_share_fraction", number(percent)),
    Column("L1 busy", "l1_busy_fraction", number(percent)),
    Column("L2 hits", "l2_hit_fraction", number(percent)),
    Column("L1 hits", "l1_hit_fraction", number(percent)),
    Column("excess sectors", "excess_sectors_fraction", number(percent)),
    Column("bank conflicts / instruction", "conflicts_per_instruction", number(significant)),
    Column("occupancy", "occupancy_fraction", number(percent)),
    Column("at most", "occupancy_limit_fraction", number(percent)),
    Column("registers", "registers", number(significant)),
    Column("local memory", "local_bytes", number(size)),
    Column("tensor cores busy", "tensor_pipe_fraction", number(percent)),
    Column("of it 2:4", "tensor_sparse24_fraction", number(percent)),
    Column("issuing", "issue_fraction", number(percent)),
    Column("threads / instruction", "threads_per_instruction", number(significant)),
    Column("instructions / non-zero", "instructions_per_nonzero", number(significant)),
)


def table(kernels: list[tuple[str, pd.DataFrame]], stalls: pd.DataFrame) -> Table:
    """Medians over the profiled cases, a line per kernel; columns that no kernel fills are left out."""
    filled = [column for column in MEDIANS if any(subset[column.field].notna().any() for _, subset in kernels)]
    columns = (
        Column("kernel", "kernel", code),
        Column("precision", "precision", lambda dtype: Cell(PRECISIONS.get(dtype, "–"))),
        Column("cases", "cases", count),
        Column("limited by", "limiter", lambda name: Cell(LIMITERS[name])),
        *filled,
        Column("waits most", "waits", text_or_dash),
    )
    lines = (
        _line(kernel, rows, stalls, [column.field for column in filled if column.field]) for kernel, rows in kernels
    )
    return made_of("Counters, medians over the profiled cases", columns, lines)


def _line(kernel: str, rows: pd.DataFrame, stalls: pd.DataFrame, fields: list[str]) -> SimpleNamespace:
    own = stalls[(stalls["kernel"] == kernel) & (stalls["device"] == rows["device"].iloc[0])]
    own = own[(own["l2"] == rows["l2"].iloc[0]) & own["waits"].astype(bool)]
    waits = own.groupby("state")["warps"].mean().sort_values(ascending=False, kind="stable").head(3)
    return SimpleNamespace(
        kernel=kernel,
        precision=rows["precision"].iloc[0],
        cases=len(rows),
        limiter=_most(rows["limiter"]),
        waits=", ".join(f"{state.replace('_', ' ')} {significant(warps)}" for state, warps in waits.items()),
        **rows[fields].astype(float).median(),
    )


def _most(names: pd.Series) -> str:
    """The most frequent name; of equally frequent names the alphabetically first."""
    return names.value_counts().sort_index().sort_values(ascending=False, kind="stable").index[0]
