"""What tensor cores can gain over CUDA cores on a case at equal traffic, and what they gained.

Zhang et al. 2025, "Can Tensor Cores Benefit Memory-Bound Kernels? (No!)", section 4, extended to SpMM; the paper's own
workloads are those of :mod:`.workloads`. Intensity I and machine balance B are in FLOP/B.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import COMPARABLE, KEY, is_derived, timed
from .registry import table
from .roofline import limit_gflops, machine_balance, on_tensor_cores, skips_zeros

if TYPE_CHECKING:
    import pandas as pd


def gain_of_balance(alpha: float, intensity: float, balance: float) -> float:
    """Gain of units that compute ``alpha`` times as fast where nothing overlaps: equation (22).

    T_mem / T_cmp = B / I is equation (15).
    """
    return 1 + (alpha - 1) / (1 + alpha * (balance / intensity))


def overlapped_gain(alpha: float, intensity: float, balance: float) -> float:
    """Gain where computation and memory overlap, equation (17): 1 for memory-bound kernels, at most ``alpha``."""
    memory = balance / intensity
    return max(1.0, memory) / max(1 / alpha, memory)


def spmm_gain_limit(intensity: float, cuda_gflops: float, tensor_gflops: float, bandwidth_gb_per_s: float) -> float:
    """The most that tensor cores can gain over CUDA cores on equal traffic, whether or not work overlaps.

    ``intensity``: FLOP/B of the SpMM; peaks in GFLOP/s. With C = A·B of N columns the intensity grows with N, and
    beyond the balance of the CUDA cores the limit is not the 2 of equation (23) but α.
    """
    alpha = tensor_gflops / cuda_gflops
    balance = machine_balance(cuda_gflops, bandwidth_gb_per_s)
    return max(gain_of_balance(alpha, intensity, balance), overlapped_gain(alpha, intensity, balance))


@table()
def bounds(
    cases: pd.DataFrame,
    counters: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    peaks: Mapping[str, Mapping[str, float]],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
) -> pd.DataFrame:
    """Table ``analysis_bounds``: the limit of the gain of every verified tensor-core row, and what was gained.

    The rival is the fastest verified kernel or library without tensor cores on the same case, with as many steps, in
    the same class of precision (a TF32 kernel is compared with FP32). α is over the FP32 peak of CUDA cores, in double
    precision over the FP64 one. Where both were profiled, a gain beyond the limit is explained if the rival moved that
    many times the bytes, through DRAM or through L2. Peaks, from datasheets or measured where the row's is
    (``measured_peaks``: device → (unit, instructions) → GFLOP/s), count the zeros that 2:4 tensor cores skip; they
    multiply non-zeros at half of their peak at most.
    """
    skips = {name for name, head in heads.items() if skips_zeros(head)}
    tensor = {name for name, head in heads.items() if on_tensor_cores(head)}
    ok = timed(cases)
    ok = ok[~is_derived(ok["kernel"]) & ok["compute_limit_gflops"].notna() & ok["memory_limit_gflops"].notna()]
    ok = ok[ok["intensity_flop_per_byte"] > 0]
    ok = ok.assign(against=ok["precision"].replace({"tf32": "float32"}))
    rivals = ok[~ok["kernel"].isin(tensor)].sort_values(["time_ms", "kernel"])
    # A kernel that takes three steps in a pass moves a third of the bytes of one that takes one at a time.
    alike = [*COMPARABLE, "against", "steps"]
    rivals = rivals.drop_duplicates(alike)[[*alike, "kernel", "time_ms"]]
    rivals = rivals.rename(columns={"kernel": "rival", "time_ms": "rival_ms"})
    rows = ok[ok["kernel"].isin(tensor)].merge(rivals, on=alike, how="left")
    moved = {
        tuple(row[name] for name in KEY): (row["dram_bytes"], row["cache_bytes"])
        for row in contracts.records(counters[[*KEY, "dram_bytes", "cache_bytes"]])
    }
    names = contracts.table("analysis_bounds").names
    kept = rows.columns.intersection([*names, "compute_basis", "memory_limit_gflops", "compute_limit_gflops"])
    result = []
    for row in contracts.records(rows[kept]):
        known = (measured_peaks or {}).get(row["device"], {}) if row["compute_basis"] == "measured" else {}
        unit = "float64_cuda" if row["precision"] == "float64" else "float32_cuda"
        cuda, _ = limit_gflops(unit, "", known, peaks.get(row["device"], {})) or (0.0, "")
        # What memory allows over the intensity: of a warm case inside L2 that is the rate of L2.
        bandwidth = row["memory_limit_gflops"] / row["intensity_flop_per_byte"]
        if not cuda or not bandwidth > 0:
            continue
        peak = row["compute_limit_gflops"] / (2 if row["kernel"] in skips else 1)
        limit = spmm_gain_limit(row["intensity_flop_per_byte"], cuda, peak, bandwidth)
        line = {name: row[name] for name in names if name in row}
        line |= {
            "alpha": peak / cuda,
            "balance_flop_per_byte": machine_balance(cuda, bandwidth),
            "gain_limit": limit,
            "verdict": "no_rival",
        }
        if row["rival_ms"] == row["rival_ms"]:
            case = (row["matrix"], row["n"], row["l2"])
            own, other = (moved.get((row["device"], row["suite"], row[name], *case)) for name in ("kernel", "rival"))
            line["gain"] = row["rival_ms"] / row["time_ms"]
            line["traffic_ratio"] = _most(other, own)
            line["verdict"] = _verdict(line["gain"], limit, line["traffic_ratio"])
        result.append(line)
    return contracts.frame(result, "analysis_bounds")


def _most(above: tuple[float, ...] | None, below: tuple[float, ...] | None) -> float | None:
    """The largest of the ratios of two calls' bytes, if both were counted."""
    if above is None or below is None:
        return None
    ratios = [x / y for x, y in zip(above, below, strict=True) if x == x and y == y and y > 0]
    return max(ratios, default=None)


def _verdict(gain: float, limit: float, traffic_ratio: float | None) -> str:
    if gain <= limit:
        return "within_limit"
    if traffic_ratio is None:
        return "not_profiled"
    return "explained_by_traffic" if gain <= limit * traffic_ratio else "beyond_limit"
