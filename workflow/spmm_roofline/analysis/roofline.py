"""The roofline of one case: which limit binds it, from intensity, bandwidth and the unit that multiplies.

Williams et al. 2009; with tensor cores as a second ceiling over the same memory: Zhang et al., "Can Tensor Cores
Benefit Memory-Bound Kernels? (No!)", sections 2.2 to 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..formats import FORMATS
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

KEY = ["device", "suite", "kernel", "matrix", "n", "l2"]

#: Instruction families (``features`` of a kernel's head) → ending of the name of the peak that limits them.
TENSOR_FEATURES = {
    "wgmma_sp": "tensor_sparse24",
    "wgmma_sp_columns": "tensor_sparse24",
    "wgmma_sp_f8": "tensor_sparse24",
    "mma_sp": "tensor_sparse24",
    "mma_sp_tf32": "tensor_sparse24",
    "mma_sp_f8": "tensor_sparse24",
    "wgmma_f8": "tensor",
    "wgmma": "tensor",
    "mma": "tensor",
    "mma_bf16": "tensor",
    "mma_f8": "tensor",
    "mma_f64": "tensor",
    "mma_f64_wide": "tensor",
    "mma_tf32": "tensor",
}


#: Bytes of a value.
VALUE_BYTES = {"float8_e4m3": 1, "float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}


def machine_balance(peak_gflops: float, bandwidth_gb_per_s: float) -> float:
    """FLOP/B at which both limits are equal: B = P / B of Zhang et al., equation (1)."""
    return peak_gflops / bandwidth_gb_per_s


def unit(head: Mapping[str, Any]) -> str | None:
    """Name of the unit that multiplies, as in ``peak_gflops`` of a device; None for a library that does not say.

    ``head``: ``features`` and ``dtype`` of a kernel, or ``unit`` and ``dtype`` of a library. Tensor cores multiply in
    the dtype of A. CUDA cores multiply in the dtype of the sums: a kernel that reads FP16 and adds in FP32 (cuSPARSE
    does) converts first.
    """
    kind = _kind(head)
    if kind in (None, "cuda"):
        return kind and f"{head['dtype']['accumulator']}_cuda"
    sums = "_float16_sums" if head["dtype"]["accumulator"] == "float16" else ""
    return f"{head['dtype']['a']}_{kind}{sums}"


def instructions(head: Mapping[str, Any]) -> str | None:
    """How a kernel reaches the tensor cores, ``mma`` or ``wgmma``; empty for one that does not, None for a library.

    Where there are both, as on Hopper, only ``wgmma`` reaches the peak of the datasheet.
    """
    if head.get("vendor"):
        return None if on_tensor_cores(head) else ""
    return (_family(head["features"]) or "").partition("_")[0]


def on_tensor_cores(head: Mapping[str, Any]) -> bool:
    """Whether a kernel or a library multiplies on tensor cores."""
    return (_kind(head) or "").startswith("tensor")


def skips_zeros(head: Mapping[str, Any]) -> bool:
    """Whether a kernel or a library multiplies on 2:4 tensor cores, whose peak counts the zeros that they skip."""
    return _kind(head) == "tensor_sparse24"


def _kind(head: Mapping[str, Any]) -> str | None:
    """``cuda``, ``tensor`` or ``tensor_sparse24``."""
    if head.get("vendor"):
        return head.get("unit")
    family = _family(head["features"])
    return TENSOR_FEATURES[family] if family else "cuda"


def _family(features: Iterable[str]) -> str | None:
    features = set(features)
    return next((family for family in TENSOR_FEATURES if family in features), None)


def peak_gflops(peaks: Mapping[str, float], unit: str) -> float | None:
    """The datasheet's peak of a unit in GFLOP/s, or None if the datasheet has none.

    Where sums in FP16 are no faster (data centre devices) only the plain entry exists.
    """
    return peaks.get(unit, peaks.get(unit.removesuffix("_float16_sums")))


def limit_gflops(
    unit: str, through: str | None, measured: Mapping[tuple[str, str], float], peaks: Mapping[str, float]
) -> tuple[float, str] | None:
    """The ceiling of a unit reached ``through`` these instructions in GFLOP/s, and its basis; None if it is unknown.

    ``through`` is None for a library, whose instructions are unknown: it has the highest ceiling of the unit.
    ``measured``: (unit, instructions) → GFLOP/s; ``peaks``: the datasheet's, which hold where nothing was measured.
    """
    for name in (unit, unit.removesuffix("_float16_sums")):
        rates = [rate for (of, by), rate in measured.items() if of == name and through in (None, by)]
        if rates:
            return max(rates), "measured"
    peak = peak_gflops(peaks, unit)
    return None if peak is None else (peak, "datasheet")


def memory_limits(
    rows: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    l2_gb_per_s: Mapping[str, float],
    l2_bytes: Mapping[str, int],
) -> pd.DataFrame:
    """What memory allows a row of ``analysis_cases`` in GFLOP/s: columns ``dram`` and ``l2``.

    Compulsory bytes (A, the touched rows of B, and C) pass through L2 once a call; of A those of CSR, or those of the
    kernel's format if it is smaller, as 2:4 and bit masks are. Only the bytes that a cache of
    the size of L2 cannot keep must pass through DRAM: consecutive calls (``warm``) find L2 filled with data of the
    call before; a call after a flush (``cold``) finds nothing, but may leave C in L2. A limit is
    infinite where nothing must move and missing where the rate or the size of L2 is unknown.
    """
    import numpy as np
    import pandas as pd

    device, steps = rows["device"], rows["steps"].astype("float64")
    flops = 2.0 * rows["nnz"].astype("float64") * rows["n"].astype("float64")
    written = rows["m"].astype("float64") * rows["n"].astype("float64") * rows["dtype_c"].map(VALUE_BYTES)
    compulsory = rows["compulsory_bytes"].astype("float64")
    csr = rows["nnz"].astype("float64") * (rows["dtype_a"].map(VALUE_BYTES) + 4) + (rows["m"].astype("float64") + 1) * 4
    # Where A has no structure to store, its CSR is not among the compulsory bytes. Nor is all of it where one entry
    # stands in for none.
    stores = rows["format"].isin([name for name, form in FORMATS.items() if form.stores_structure])
    saved = (csr - rows["format_bytes"].astype("float64")).where(stores & (compulsory - written >= csr)).fillna(0.0)
    compulsory -= saved.clip(lower=0.0)
    cache = device.map(dict(l2_bytes)).astype("float64")
    kept = np.minimum(cache, compulsory.where(rows["l2"] == "warm", written))
    must = {"dram": compulsory - kept, "l2": compulsory}
    limits = {}
    for level, rates in (("dram", dram_gb_per_s), ("l2", l2_gb_per_s)):
        seconds = must[level] / steps / (device.map(dict(rates)).astype("float64") * 1e9)
        limits[level] = (flops * 1e-9 / seconds).where(seconds != 0, np.inf)
    return pd.DataFrame(limits, index=rows.index)


def launch_limit(rows: pd.DataFrame) -> pd.Series:
    """GFLOP/s at which a row of ``analysis_cases`` would take no longer than the replay of an empty graph.

    A host submits replays now faster, now slower, by a microsecond. A call of the same matrix that took less time than
    its empty replay shows what the host could do, and takes the place of the replay.
    """
    flops = 2.0 * rows["nnz"].astype("float64") * rows["n"].astype("float64")
    steps = rows["steps"].astype("float64")
    replay = rows["replay_ms"].astype("float64").where(lambda ms: ms > 0)
    call = (rows["time_ms"].astype("float64") * steps).where(rows["status"] == "ok")
    least = call.groupby([rows[name] for name in ("device", "origin", "suite", "matrix", "l2")]).transform("min")
    return flops * 1e-6 * steps / replay.where(~(least < replay), least)


@table()
def roofline(
    cases: pd.DataFrame,
    counters: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    l2_gb_per_s: Mapping[str, float],
    l2_bytes: Mapping[str, int],
) -> pd.DataFrame:
    """Table ``analysis_roofline`` from the tables ``analysis_cases`` and ``analysis_counters``, a row a verified case.

    ``dram_gb_per_s`` and ``l2_gb_per_s``: device → highest measured rate; ``l2_bytes``: device → size of L2. A launched
    kernel is held against what it did: bytes that Nsight Compute counted (the roofline of each level of memory: Ilic et
    al. 2014; Yang et al. 2020), and products with stored zeros. Bytes of DRAM count only for calls that were timed as
    they were profiled, with a cold L2: profiling passes leave L2 in another state than consecutive calls do. To run in
    half its time, a case must save what it moves or computes beyond what the ceilings allow in that time; where that is
    nothing, the ceilings leave room for twice the rate.
    """
    import numpy as np
    import pandas as pd

    moved = ["dram_bytes", "cache_bytes", "dram_flop_per_byte", "cache_flop_per_byte"]
    rows = cases[(cases["status"] == "ok") & (cases["intensity_flop_per_byte"] > 0) & (cases["time_ms"] > 0)]
    rows = rows[~rows["kernel"].str.startswith("cusparse_best_")]
    rows = rows.merge(counters[[*KEY, *moved]], on=KEY, how="left")
    rows["counted"] = (rows["dram_bytes"].notna() | rows["cache_bytes"].notna()).astype("boolean")

    flops = 2.0 * rows["nnz"].astype("float64") * rows["n"].astype("float64")
    seconds = rows["time_ms"] * 1e-3
    multiplied = rows["padded_gflops"] * seconds * 1e9
    peak = rows["compute_limit_gflops"]
    dram, l2 = (rows["device"].map(dict(rates)).astype("float64") for rates in (dram_gb_per_s, l2_gb_per_s))
    least = memory_limits(rows, dram_gb_per_s, l2_gb_per_s, l2_bytes)
    as_timed = rows["dram_bytes"].where(rows["l2"] == "cold")

    # Where less was counted than must move, as for a result that stays in L2, the count holds.
    rows["dram_limit_gflops"] = (dram * flops / as_timed.where(as_timed > 0)).fillna(least["dram"])
    rows["l2_limit_gflops"] = (l2 * flops / rows["cache_bytes"].where(rows["cache_bytes"] > 0)).fillna(least["l2"])
    rows["compute_limit_gflops"] = peak * flops / multiplied.where(multiplied > 0)
    rows["launch_limit_gflops"] = launch_limit(rows)
    names = ["dram", "l2", "compute", "launch"]
    limits = rows[[f"{name}_limit_gflops" for name in names]].astype("float64")
    known = limits[["dram_limit_gflops", "compute_limit_gflops", "launch_limit_gflops"]].notna().all(axis=1)
    lowest = limits.min(axis=1).where(known)
    found = np.array(names)[limits.fillna(np.inf).to_numpy().argmin(axis=1)]
    rows["bound"] = pd.array(np.where(known, found, ""), dtype="string")
    rows["bound_fraction"] = rows["useful_gflops"] / lowest
    rows["distance"] = lowest / rows["useful_gflops"]
    half = seconds / 2 * 1e9
    rows["save_dram_bytes"] = (flops * dram / rows["dram_limit_gflops"] - dram * half).clip(lower=0)
    rows["save_l2_bytes"] = (rows["cache_bytes"] - l2 * half).clip(lower=0)
    rows["save_flops"] = (multiplied - peak * half).clip(lower=0)
    for name in limits:
        rows[name] = rows[name].replace(np.inf, np.nan)
    columns = contracts.table("analysis_roofline").names
    return contracts.check(rows[columns].sort_values(KEY, ignore_index=True), "analysis_roofline")
