"""What tensor cores can gain where memory binds: Zhang et al. 2025, "Can Tensor Cores Benefit Memory-Bound Kernels?
(No!)", equations (1) to (24), extended to SpMM.

Equations (1) and (3) are :func:`~.roofline.machine_balance` and :func:`~.roofline.attainable_gflops`. Work W is in
FLOP, traffic Q in bytes, intensity I in FLOP/B, machine balance B in FLOP/B, times in any one unit. The paper counts
in float64; every function takes the bytes of a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import COMPARABLE, is_derived, timed
from .roofline import limit_gflops, machine_balance, on_tensor_cores, skips_zeros

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: Bytes of the values and the indices that the paper counts with: float64 and int32.
VALUE_BYTES, INDEX_BYTES = 8, 4


# --- the roofline and the workloads, sections 2 and 3 -----------------------------------------------------------------


def intensity(work: float, traffic: float) -> float:
    """I = W / Q, equation (2)."""
    return work / traffic


def binding(intensity: float, balance: float) -> str:
    """``compute`` above the machine balance, ``memory`` below: equation (4). On it, neither waits: ``memory``."""
    return "compute" if intensity > balance else "memory"


def scale(b: np.ndarray, q: float) -> np.ndarray:
    """a = q b, equation (5): STREAM's SCALE."""
    return q * b


def scale_intensity(value_bytes: int = VALUE_BYTES) -> float:
    """One operation for one load and one store: 1/16 in float64, section 3.1."""
    return intensity(1, 2 * value_bytes)


def gemv_intensity(m: int, n: int, value_bytes: int = VALUE_BYTES) -> float:
    """y = A x (equation 6) with a dense m×n matrix, every operand moved once: equation (7); 2 / D in the limit."""
    return intensity(2 * m * n, (m * n + m + n) * value_bytes)


def spmv_intensity(
    nnz: int, m: int, n: int, coordinate_bytes: float, padding_bytes: float = 0, value_bytes: int = VALUE_BYTES
) -> float:
    """y = A x with ``nnz`` non-zeros (equation 8), whose format adds coordinates and stored zeros: equation (9)."""
    return intensity(2 * nnz, (nnz + m + n) * value_bytes + coordinate_bytes + padding_bytes)


def spmv_csr_intensity(
    nnz: int, m: int, n: int, value_bytes: int = VALUE_BYTES, index_bytes: int = INDEX_BYTES
) -> float:
    """SpMV in CSR: equation (10); 2 / (D + I) = 1/6 in the limit of long rows."""
    return spmv_intensity(nnz, m, n, (nnz + m + 1) * index_bytes, value_bytes=value_bytes)


def stencil(u: np.ndarray, weights: Mapping[tuple[int, ...], float]) -> np.ndarray:
    """One step of a stencil on the points whose neighbours all exist: equation (11).

    ``u``: array of any dimension; ``weights``: offset → weight, such as ``{(0, 0): 0.5, (1, 0): 0.125, …}``. The
    result has the shape of ``u`` less the reach of the offsets on both sides of each dimension.
    """
    reach = [max(abs(offset[d]) for offset in weights) for d in range(u.ndim)]
    total = 0.0
    for offset, weight in weights.items():
        window = tuple(slice(r + step, size - r + step) for r, step, size in zip(reach, offset, u.shape, strict=True))
        total = total + weight * u[window]
    return total


def stencil_intensity(points: int, steps: int = 1, value_bytes: int = VALUE_BYTES) -> float:
    """Each value loaded and stored once, 2 |S| operations a step: equation (12), and (13) for blocked time steps."""
    return intensity(steps * 2 * points, 2 * value_bytes)


def steps_to_compute_bound(points: int, balance: float, value_bytes: int = VALUE_BYTES) -> float:
    """Blocked time steps above which a stencil is bound by computation: equation (14)."""
    return balance / stencil_intensity(points, 1, value_bytes)


# --- the limits, section 4 --------------------------------------------------------------------------------------------


def memory_over_compute(intensity: float, balance: float) -> float:
    """T_mem / T_cmp = B / I, equation (15); above 1 where memory binds, equation (16)."""
    return balance / intensity


def overlapped_time(compute: float, memory: float, others: float = 0.0) -> float:
    """The longest of all, where everything overlaps: equation (17)."""
    return max(compute, memory, others)


def serial_time(compute: float, memory: float, others: float = 0.0) -> float:
    """The sum of all, where nothing overlaps: equation (18)."""
    return compute + memory + others


def serial_gain(alpha: float, compute: float, memory: float, others: float = 0.0) -> float:
    """Gain of units that compute ``alpha`` times as fast where nothing overlaps: equations (19) and (20)."""
    return serial_time(compute, memory, others) / serial_time(compute / alpha, memory, others)


def gain_of_balance(alpha: float, intensity: float, balance: float, others_over_compute: float = 0.0) -> float:
    """The same from intensity and balance: equation (21); without other operations the limit of equation (22)."""
    rest = memory_over_compute(intensity, balance) + others_over_compute
    return 1 + (alpha - 1) / (1 + alpha * rest)


def unit_limit(alpha: float) -> float:
    """Limit over all memory-bound workloads, as T_cmp approaches T_mem: 2 − 2 / (1 + α), equation (23)."""
    return 2 - 2 / (1 + alpha)


def workload_limit(intensity: float, balance: float) -> float:
    """Limit over all units, as α grows without end: 1 + I / B, equation (24)."""
    return 1 + intensity / balance


def identity_product_peak(peak: float, m: int, n: int) -> float:
    """What SCALE as a product with q·I (section 5.1) leaves of a tensor core's peak: one of max(m, n) columns."""
    return peak / max(m, n)


# --- SpMM -------------------------------------------------------------------------------------------------------------


def spmm_intensity(
    nnz: int, m: int, k: int, n: int, value_bytes: int = VALUE_BYTES, index_bytes: int = INDEX_BYTES
) -> float:
    """Equation (10) for ``n`` columns: CSR of A, ``k`` touched rows of B and C, each moved once."""
    traffic = nnz * value_bytes + (nnz + m + 1) * index_bytes + (m + k) * n * value_bytes
    return intensity(2 * nnz * n, traffic)


def spmm_intensity_limit(nnz: int, m: int, k: int, value_bytes: int = VALUE_BYTES) -> float:
    """What the intensity of SpMM tends to from below as B and C grow wider: 2 nnz / ((m + k) D)."""
    return intensity(2 * nnz, (m + k) * value_bytes)


def overlapped_gain(alpha: float, intensity: float, balance: float) -> float:
    """Gain where computation and memory overlap: 1 for memory-bound kernels, α at most where computation binds."""
    memory = memory_over_compute(intensity, balance)
    return overlapped_time(1.0, memory) / overlapped_time(1 / alpha, memory)


def spmm_gain_limit(intensity: float, cuda_gflops: float, tensor_gflops: float, bandwidth_gb_per_s: float) -> float:
    """The most that tensor cores can gain over CUDA cores on equal traffic, whether or not work overlaps.

    ``intensity``: FLOP/B of the SpMM; peaks in GFLOP/s. With C = A·B of N columns the intensity grows with N, and
    beyond the balance of the CUDA cores the limit leaves the 2 of equation (23) for α itself.
    """
    alpha = tensor_gflops / cuda_gflops
    balance = machine_balance(cuda_gflops, bandwidth_gb_per_s)
    return max(gain_of_balance(alpha, intensity, balance), overlapped_gain(alpha, intensity, balance))


def bounds(
    cases: pd.DataFrame,
    counters: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    peaks: Mapping[str, Mapping[str, float]],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]] | None = None,
) -> pd.DataFrame:
    """Table ``analysis_bounds``: the limit of the gain of every verified tensor-core row, and what was gained.

    The rival is the fastest verified kernel or library without tensor cores on the same case in the same class of
    precision (a TF32 kernel is compared with FP32). α is over the FP32 peak of CUDA cores, in double precision over the
    FP64 one. Where both were profiled, a gain beyond the limit is explained if the rival moved so many times the bytes,
    through DRAM or through L2. Peaks, from datasheets or measured where the row's is (``measured_peaks``: device →
    (unit, instructions) → GFLOP/s), count the zeros that 2:4 tensor cores skip; of non-zeros they multiply half of
    their peak at most.
    """
    skips = {name for name, head in heads.items() if skips_zeros(head)}
    tensor = {name for name, head in heads.items() if on_tensor_cores(head)}
    ok = timed(cases)
    ok = ok[~is_derived(ok["kernel"]) & ok["compute_limit_gflops"].notna() & ok["memory_limit_gflops"].notna()]
    ok = ok[ok["intensity_flop_per_byte"] > 0]
    ok = ok.assign(against=ok["precision"].replace({"tf32": "float32"}))
    rivals = ok[~ok["kernel"].isin(tensor)].sort_values(["time_ms", "kernel"])
    rivals = rivals.drop_duplicates([*COMPARABLE, "against"])[[*COMPARABLE, "against", "kernel", "time_ms"]]
    rivals = rivals.rename(columns={"kernel": "rival", "time_ms": "rival_ms"})
    rows = ok[ok["kernel"].isin(tensor)].merge(rivals, on=[*COMPARABLE, "against"], how="left")
    moved = {
        tuple(row[name] for name in ("device", "suite", "kernel", "matrix", "n", "l2")): (
            row["dram_bytes"],
            row["cache_bytes"],
        )
        for row in counters.to_dict("records")
    }
    result = []
    for row in rows.to_dict("records"):
        known = (measured_peaks or {}).get(row["device"], {}) if row["compute_basis"] == "measured" else {}
        unit = "float64_cuda" if row["precision"] == "float64" else "float32_cuda"
        cuda, _ = limit_gflops(unit, "", known, peaks.get(row["device"], {})) or (0.0, "")
        # What memory allows over the intensity: of a warm case inside L2 that is the rate of L2.
        bandwidth = row["memory_limit_gflops"] / row["intensity_flop_per_byte"]
        if not cuda or not bandwidth > 0:
            continue
        peak = row["compute_limit_gflops"] / (2 if row["kernel"] in skips else 1)
        limit = spmm_gain_limit(row["intensity_flop_per_byte"], cuda, peak, bandwidth)
        line = {name: row[name] for name in contracts.table("analysis_bounds").names if name in row}
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
