"""Blocks of transformers: their times beside that of the usual implementation, and the bound of masked attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .registry import table
from .roofline import limit_gflops

if TYPE_CHECKING:
    import pandas as pd

#: Block → the implementation that the others are compared with, which gives the same result.
BASELINES = {"pruned": "dense", "masked": "sdpa_mask"}
#: What a block and its baseline have in common.
SAME = ["device", "suite", "block", "precision_class", "mask", "batch", "sequence", "head_width"]
#: Bytes of a value, for the dtypes of masked attention.
ITEMSIZE = {"float16": 2, "bfloat16": 2}


def mask_bytes(nnz: int, length: int) -> float:
    """Least bytes of a mask of ``length``² pairs: CSR without values and with 32-bit indices, or one bit a pair."""
    return min(4 * nnz + 4 * (length + 1), length * length / 8)


def masked_bound(row: Mapping[str, Any], gb_per_s: float, gflops: float | None) -> tuple[float, str]:
    """Least time of masked attention in ms, and what limits it, ``memory`` or ``compute``.

    time ≥ max(bytes / bandwidth, flops / ceiling) with

        bytes = 4 · batch · heads · sequence · width · itemsize + mask    (Q, K, V and O once, the mask once)
        flops = 4 · batch · heads · nnz · width                           (2 for each multiply-add of Q·Kᵀ and of P·V)

    ``row``: of table ``measure_blocks``, with its ``nnz``; ``gb_per_s``: highest measured rate of DRAM; ``gflops``: the
    ceiling of mma.sync in the dtype, or None if it is unknown. The work of softmax, and scores outside of the mask that
    share a block with one inside, are not counted: the bound is that of the question, not of an implementation. On
    Hopper, one that multiplies by wgmma may pass it, because the ceiling of these instructions is higher.
    """
    each = row["batch"] * row["heads"] * row["head_width"]
    moved = 4 * each * row["sequence"] * ITEMSIZE[row["dtype"]] + mask_bytes(row["nnz"], row["sequence"])
    memory_ms = moved / gb_per_s / 1e6
    compute_ms = 4 * each * row["nnz"] / gflops / 1e6 if gflops else 0.0
    return (compute_ms, "compute") if compute_ms > memory_ms else (memory_ms, "memory")


@table()
def blocks(
    block_rows: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]],
    peaks: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """Table ``analysis_blocks`` from the table ``measure_blocks`` and the ceilings of the devices.

    A noisy row keeps its time and its ratio, and says that it is noisy.
    """
    rows = block_rows.assign(precision_class=block_rows["dtype"].replace({"float32": "tf32"}))
    rows["mask"] = rows["pattern"].where(rows["block"] == "masked", "")  # a dense layer stands for all weights
    usual = rows[(rows["implementation"] == rows["block"].map(BASELINES)) & (rows["status"] == "ok")]
    usual = usual[[*SAME, "time_ms"]].rename(columns={"time_ms": "baseline_ms"}).drop_duplicates(SAME)
    rows = rows.merge(usual, on=SAME, how="left")
    rows["over_baseline"] = rows["time_ms"] / rows["baseline_ms"]
    rows["padding"] = rows["scores"].astype("float64") / rows["nnz"].where(rows["nnz"] > 0)
    names = contracts.table("analysis_blocks").names
    found = []
    for row in contracts.records(rows.astype(object).where(rows.notna(), None)):
        device = row["device"]
        if row["block"] == "masked" and row["nnz"] and device in dram_gb_per_s:
            unit = f"{row['dtype']}_tensor"
            limit = limit_gflops(unit, "mma", measured_peaks.get(device, {}), peaks.get(device, {}))
            row["bound_ms"], row["bound"] = masked_bound(row, dram_gb_per_s[device], limit and limit[0])
            if row["time_ms"]:
                row["bound_fraction"] = row["bound_ms"] / row["time_ms"]
        found.append({name: row.get(name) for name in names})
    found.sort(key=lambda row: [row[name] or "" for name in contracts.table("analysis_blocks").key])
    return contracts.frame(found, "analysis_blocks")
