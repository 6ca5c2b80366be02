"""Limits of kernels: ceilings of the devices, gains beside their limits, and counters of Nsight Compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...figures.numbers import bandwidth, percent, rate, significant, size, times
from .cells import Cell, Column, Table, code, count, number, precision, table, text, text_or_dash

if TYPE_CHECKING:
    import pandas as pd


def _rate(field: str) -> Callable[[Any], Cell]:
    """A rate of memory or of computation in its own unit."""
    return lambda row: number(bandwidth if row.unit == "GB/s" else rate)(getattr(row, field))


def _ceiling(row: Any) -> Cell:
    name = row.ceiling.replace("_", " ").replace("sparse24", "2:4").replace("float16 sums", "(FP16 sums)")
    return Cell(name, marks=tuple(word for word in ("stale", "noisy") if getattr(row, word) is True))


CEILINGS = (
    Column("device", "device", text),
    Column("ceiling", None, _ceiling),
    Column("through", "through", text_or_dash),
    Column("measured", None, _rate("measured")),
    Column("datasheet", None, _rate("datasheet")),
    Column("share", "share_fraction", number(percent)),
    Column("source", "source", text),
)


def ceilings(rows: pd.DataFrame, devices: list[str]) -> Table:
    """Ceilings of the devices that have rows, a line per ceiling."""
    return table("Ceilings", CEILINGS, rows[rows["device"].isin(devices)].itertuples())


COUNTERS = (
    Column("kernel", "kernel", code),
    Column("matrix", "matrix", code),
    Column("N", "n", count),
    Column("precision", "precision", precision),
    Column("DRAM / compulsory", "dram_over_compulsory", number(times)),
    Column("L2 / compulsory", "cache_over_compulsory", number(times)),
    Column("DRAM rate", "dram_gb_per_s", number(bandwidth)),
    Column("L2 rate", "cache_gb_per_s", number(bandwidth)),
    Column("L2 hits", "l2_hit_fraction", number(percent)),
    Column("L1 hits", "l1_hit_fraction", number(percent)),
    Column("excess sectors", "excess_sectors_fraction", number(percent)),
    Column("occupancy", "occupancy_fraction", number(percent)),
    Column("waiting warps", "waiting_warps", number(significant)),
    Column("bank conflicts / instruction", "conflicts_per_instruction", number(significant)),
    Column("tensor instructions", "tensor_instructions_fraction", number(percent)),
    Column("instructions / non-zero", "instructions_per_nonzero", number(significant)),
)


def counters(rows: pd.DataFrame) -> Table:
    """Counters of Nsight Compute, a line per profiled case."""
    return table("Counters of Nsight Compute: traffic, hits and waits of one call", COUNTERS, rows.itertuples())


SHARED_MEMORY = (
    Column("kernel", "kernel", code),
    Column("matrix", "matrix", code),
    Column("N", "n", count),
    Column("α", "alpha_fraction", number(percent)),
    Column("β", "beta", number(times)),
    Column("modelled for A", "modelled_a", number(significant)),
    Column("for B", "modelled_b", number(significant)),
    Column("counted", "counted", number(significant)),
    Column("counted / modelled", "counted_over_modelled", number(times)),
)


def shared_memory(rows: pd.DataFrame) -> Table:
    """The transaction model beside the counters."""
    caption = "Shared-memory transactions: the model of cuTeSpMM (equations 1 to 5) and what Nsight Compute counts"
    return table(caption, SHARED_MEMORY, rows.itertuples())


def _verdict(name: str) -> Callable[[Any], Cell]:
    """The number of cases of a kernel with a verdict."""
    return lambda row: count(int(row.verdicts.get(name, 0)))


def _largest(row: Any) -> Cell:
    return Cell(times(row.top["gain"]), float(row.top["gain"]), note=f"{row.top['matrix']}, N = {row.top['n']}")


BOUNDS = (
    Column("kernel", "kernel", code),
    Column("cases", "cases", count),
    Column("limit, median", "limit", number(times)),
    Column("gain, median", "gain", number(times)),
    Column("largest gain", None, _largest),
    Column("its limit", None, lambda row: number(times)(row.top["gain_limit"])),
    Column("within the limit", None, _verdict("within_limit")),
    Column("beyond it: explained by traffic", None, _verdict("explained_by_traffic")),
    Column("unexplained", None, _verdict("beyond_limit")),
    Column("not profiled", None, _verdict("not_profiled")),
)


def bounds(rows: pd.DataFrame) -> Table:
    """Gains of the kernels on tensor cores beside their limits, a line per kernel."""
    lines = (
        SimpleNamespace(
            kernel=kernel,
            cases=len(own),
            limit=own["gain_limit"].median(),
            gain=own["gain"].median(),
            top=own.loc[own["gain"].idxmax()],
            verdicts=own["verdict"].value_counts(),
        )
        for kernel, own in rows[rows["gain"].notna()].groupby("kernel", sort=True)
    )
    return table("What tensor cores gain over CUDA cores, and the limit at equal traffic", BOUNDS, lines)


def _gain(row: Any) -> Cell:
    """The mean and the largest gain of the cases of a workload."""
    return Cell(f"{times(row.geomean)}, {times(row.best)}", float(row.geomean)) if row.cases else Cell("–")


WORKLOADS = (
    Column("workload", "workload", text),
    Column("steps", "steps", count),
    Column("FLOP/B", "intensity_flop_per_byte", number(significant)),
    Column("memory / computation", "memory_over_compute", number(times)),
    Column("bound by", "binding", text),
    Column("limit of the gain (22)", "gain_limit", number(times)),
    Column("of any unit (24)", "workload_limit", number(times)),
    Column("compute-bound above steps (14)", "steps_to_compute_bound", number(significant)),
    Column("cases", "cases", count),
    Column("gain: mean, largest", None, _gain),
)


def workloads(rows: pd.DataFrame) -> list[Table]:
    """The workloads of Zhang et al. with the limits of their equations beside the gains, a table per device."""
    found = []
    for device, own in rows.groupby("device", sort=True):
        one = own.iloc[0]
        caption = (
            f"Equations of Zhang et al. on {device}: α = {significant(one['alpha'])}, machine balance "
            f"{significant(one['balance_flop_per_byte'])} FLOP/B, limit of every memory-bound workload (23) "
            f"{times(one['unit_limit'])}"
        )
        found.append(table(caption, WORKLOADS, own.itertuples()))
    return found


def _saved(shown: Callable[[float], str]) -> Callable[[pd.Series], Cell]:
    """The number of cases that must save something, with the median to save; a dash if it is unknown."""

    def cell(values: pd.Series) -> Cell:
        if values.isna().all():
            return Cell("–")
        some = values[values > 0]
        note = shown(some.median()) if len(some) else ""
        return Cell(f"{len(some)} of {len(values)}", float(len(some)), note=note)

    return cell


def _bound_by(name: str) -> Callable[[pd.Series], Cell]:
    return lambda bound: count(int((bound == name).sum()))


LIMITS = (
    Column("kernel", "kernel", code),
    Column("cases", "cases", count),
    Column("bound by DRAM", "bound", _bound_by("dram")),
    Column("by L2", "bound", _bound_by("l2")),
    Column("by computation", "bound", _bound_by("compute")),
    Column("by an empty replay", "bound", _bound_by("launch")),
    Column("share of the limit, median", "reached", number(percent)),
    Column("the limits allow, median", "distance", number(times)),
    Column("must save: DRAM traffic", "save_dram_bytes", _saved(size)),
    Column("L2 traffic", "save_l2_bytes", _saved(size)),
    Column("computation", "save_flops", _saved(lambda operations: size(operations, "FLOP"))),
)


def limits(rows: pd.DataFrame) -> Table:
    """Limits of the profiled kernels and what they must save to be twice as fast, a line per kernel."""
    caption = "What limits a kernel at the bytes that were counted, and what it must save to be twice as fast"
    return table(caption, LIMITS, _limited(rows[rows["counted"] & (rows["bound"] != "")]))


def _limited(rows: pd.DataFrame) -> Iterator[SimpleNamespace]:
    for kernel, own in rows.groupby("kernel", sort=True):
        yield SimpleNamespace(
            kernel=kernel,
            cases=len(own),
            bound=own["bound"],
            reached=own["bound_fraction"].median(),
            distance=own["distance"].median(),
            **{name: own[name] for name in ("save_dram_bytes", "save_l2_bytes", "save_flops")},
        )
