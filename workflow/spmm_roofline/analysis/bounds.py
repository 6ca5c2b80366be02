"""How much tensor cores can gain where memory is the limit: the model of a paper, and what it says of SpMM.

Zhang et al. 2025, "Can Tensor Cores Benefit Memory-Bound Kernels? (No!)": equations (1) to (24), each as a function
here or in :mod:`roofline`, which has (1) and (3). W counts FLOP, Q bytes, I = W / Q is an intensity in FLOP/B, B a
machine balance in FLOP/B, D the bytes of a value, and α the peak of tensor cores over that of CUDA cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from . import roofline
from .cases import COMPARABLE, is_derived

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: Bytes of a value and of an index in the examples of section 3.
DOUBLE, INDEX = 8, 4

#: Share of the multiplications counted by the peak of 2:4 tensor cores that can be of non-zeros: two of four.
SPARSE24_FILL = 0.5


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, not {value}")


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} must not be negative, and is {value}")


# --- section 2: the roofline ----------------------------------------------------------------------------------------


def intensity(flops: float, nbytes: float) -> float:
    """I = W / Q in FLOP/B: equation (2), section 2.3. Raises ``ValueError`` unless bytes are moved."""
    _not_negative(flops=flops)
    _positive(nbytes=nbytes)
    return flops / nbytes


def bound(intensity_flop_per_byte: float, balance_flop_per_byte: float) -> str:
    """``"compute"`` where I > B, ``"memory"`` where I < B: equation (4), section 2.5.

    Both in FLOP/B. The paper leaves I = B open; it is ``"memory"`` here as in the table of cases. Raises
    ``ValueError`` for a negative intensity or a balance that is not above 0.
    """
    _not_negative(intensity=intensity_flop_per_byte)
    _positive(balance=balance_flop_per_byte)
    return "compute" if intensity_flop_per_byte > balance_flop_per_byte else "memory"


# --- section 3: intensities of kernels ------------------------------------------------------------------------------


def scale(q: float, b: np.ndarray) -> np.ndarray:
    """SCALE of STREAM, a_i = q b_i: equation (5), section 3.1."""
    return q * b


def scale_intensity(value_bytes: float = DOUBLE) -> float:
    """One FLOP over a load and a store, 1 / 2D in FLOP/B: section 3.1, below equation (5).

    Raises ``ValueError`` unless a value has bytes.
    """
    return intensity(1, 2 * value_bytes)


def gemv(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y = A x with A dense: equation (6), section 3.2. Raises ``ValueError`` where the sizes do not fit."""
    return a @ x


def gemv_intensity(m: float = math.inf, n: float = math.inf, value_bytes: float = DOUBLE) -> float:
    """2 m n / ((m n + m + n) D) in FLOP/B for A of ``m`` rows and ``n`` columns: equation (7), section 3.2.

    Without sizes the limit of the equation, 2 / D. Raises ``ValueError`` unless all are above 0.
    """
    _positive(m=m, n=n, value_bytes=value_bytes)
    return 2 / ((1 + 1 / n + 1 / m) * value_bytes)


def spmv(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y = A x with A sparse, here in CSR: equation (8), section 3.2. Raises ``ValueError`` where sizes do not fit."""
    from scipy.sparse import csr_array

    return csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(x))) @ x


def spmv_intensity(
    nnz: float, m: float, n: float, coordinate_bytes: float = 0, packed_bytes: float = 0, value_bytes: float = DOUBLE
) -> float:
    """2 nnz / ((nnz + m + n) D + coordinates + packed values) in FLOP/B: equation (9), section 3.2.

    ``coordinate_bytes`` and ``packed_bytes`` are the terms α I and β Z of a format (not the α and I of elsewhere).
    Raises ``ValueError`` for sizes that are negative, and where nothing is moved.
    """
    _not_negative(nnz=nnz, m=m, n=n, coordinate_bytes=coordinate_bytes, packed_bytes=packed_bytes)
    return intensity(2 * nnz, (nnz + m + n) * value_bytes + coordinate_bytes + packed_bytes)


def csr_spmv_intensity(
    nnz: float, m: float, n: float, value_bytes: float = DOUBLE, index_bytes: float = INDEX
) -> float:
    """Equation (9) for CSR, with nnz + m + 1 indices, in FLOP/B: equation (10), section 3.2.

    Raises ``ValueError`` for sizes that are negative.
    """
    _not_negative(nnz=nnz, m=m, n=n, index_bytes=index_bytes)
    return spmv_intensity(nnz, m, n, (nnz + m + 1) * index_bytes, value_bytes=value_bytes)


def csr_spmv_limit(value_bytes: float = DOUBLE, index_bytes: float = INDEX) -> float:
    """2 / (D + I) in FLOP/B, which equation (10) approaches from below: section 3.2.

    Raises ``ValueError`` unless both together have bytes.
    """
    return intensity(2, value_bytes + index_bytes)


def stencil(weights: Mapping[tuple[int, int], float], u: np.ndarray) -> np.ndarray:
    """v(i, j) = Σ w(p, q) u(i+p, j+q) in two dimensions: equation (11), section 3.3.

    ``weights``: offset → weight. Only points with all their neighbours are computed, so v is smaller than ``u`` by
    the reach of the offsets. Raises ``ValueError`` where no point has all its neighbours, or without offsets.
    """
    if not weights:
        raise ValueError("a stencil needs at least one offset")
    low = [max(0, *(-offset[axis] for offset in weights)) for axis in (0, 1)]
    high = [max(0, *(offset[axis] for offset in weights)) for axis in (0, 1)]
    rows, columns = (u.shape[axis] - low[axis] - high[axis] for axis in (0, 1))
    if rows < 1 or columns < 1:
        raise ValueError(f"no point of a grid of {u.shape[0]} by {u.shape[1]} has all the neighbours of this stencil")
    parts = (
        weight * u[low[0] + p : low[0] + p + rows, low[1] + q : low[1] + q + columns]
        for (p, q), weight in weights.items()
    )
    return sum(parts)


def stencil_intensity(points: int, value_bytes: float = DOUBLE) -> float:
    """|S| / D in FLOP/B: 2 |S| FLOP over one load and one store: equation (12), section 3.3.

    Raises ``ValueError`` unless both are above 0.
    """
    return blocked_stencil_intensity(points, 1, value_bytes)


def blocked_stencil_intensity(points: int, steps: float, value_bytes: float = DOUBLE) -> float:
    """t |S| / D in FLOP/B, with t time steps between a load and a store: equation (13), section 3.3.

    Raises ``ValueError`` unless all are above 0.
    """
    _positive(points=points, steps=steps, value_bytes=value_bytes)
    return intensity(steps * 2 * points, 2 * value_bytes)


def steps_to_compute_bound(points: int, balance_flop_per_byte: float, value_bytes: float = DOUBLE) -> float:
    """The number of steps beyond which a stencil is compute-bound, B / I: equation (14), section 3.3.

    Raises ``ValueError`` unless all are above 0.
    """
    _positive(balance=balance_flop_per_byte)
    return balance_flop_per_byte / stencil_intensity(points, value_bytes)


# --- section 4: times and gains -------------------------------------------------------------------------------------


def compute_ms(flops: float, peak_gflops: float) -> float:
    """T_cmp = W / P in ms: section 4, above equation (15). Raises ``ValueError`` unless the peak is above 0."""
    _not_negative(flops=flops)
    _positive(peak=peak_gflops)
    return 1e-6 * flops / peak_gflops


def memory_ms(nbytes: float, bandwidth_gb_per_s: float) -> float:
    """T_mem = Q / bandwidth in ms: section 4, above equation (15). Raises ``ValueError`` unless there is bandwidth."""
    _not_negative(nbytes=nbytes)
    _positive(bandwidth=bandwidth_gb_per_s)
    return 1e-6 * nbytes / bandwidth_gb_per_s


def memory_over_compute(balance_flop_per_byte: float, intensity_flop_per_byte: float) -> float:
    """T_mem / T_cmp = B / I: equation (15), section 4. Raises ``ValueError`` unless both are above 0."""
    _positive(balance=balance_flop_per_byte, intensity=intensity_flop_per_byte)
    return balance_flop_per_byte / intensity_flop_per_byte


def memory_takes_longer(balance_flop_per_byte: float, intensity_flop_per_byte: float) -> bool:
    """T_mem > T_cmp, which is what memory-bound means: equation (16), section 4.

    Raises ``ValueError`` unless both are above 0.
    """
    return memory_over_compute(balance_flop_per_byte, intensity_flop_per_byte) > 1


def overlapped(compute: float, memory: float, others: float = 0.0) -> float:
    """The longest of the three times, all in one unit: equation (17), section 4.1.

    Raises ``ValueError`` for a negative time.
    """
    _not_negative(compute=compute, memory=memory, others=others)
    return max(compute, memory, others)


def serial(compute: float, memory: float, others: float = 0.0) -> float:
    """The sum of the three times, all in one unit: equation (18), section 4.2.

    Raises ``ValueError`` for a negative time.
    """
    _not_negative(compute=compute, memory=memory, others=others)
    return compute + memory + others


def serial_gain(alpha: float, compute: float, memory: float, others: float = 0.0) -> float:
    """T(CC) / T(TC) where tensor cores divide ``compute`` by ``alpha`` and nothing overlaps.

    Equation (19), section 4.2. The times, on CUDA cores, are in one unit. Raises ``ValueError`` for a negative time,
    where there is nothing to do, and unless ``alpha`` is above 0.
    """
    _positive(alpha=alpha, time=serial(compute, memory, others))
    if alpha == math.inf and not memory + others:
        return math.inf
    return serial(compute, memory, others) / serial(compute / alpha, memory, others)


def _gain(alpha: float, rest: float) -> float:
    """1 + (α - 1) / (1 + α rest), the form that equations (20) to (24) share, and its limit for an infinite α."""
    _positive(alpha=alpha)
    _not_negative(rest=rest)
    if alpha == math.inf:
        return 1 + 1 / rest if rest else math.inf
    return 1 + (alpha - 1) / (1 + alpha * rest)


def serial_gain_by_times(alpha: float, compute: float, memory: float, others: float = 0.0) -> float:
    """Equation (19) rewritten with (T_mem + T_others) / T_cmp(CC): equation (20), section 4.2.

    Raises ``ValueError`` for a negative time and unless ``alpha`` and ``compute`` are above 0.
    """
    _positive(compute=compute)
    _not_negative(memory=memory, others=others)
    return _gain(alpha, (memory + others) / compute)


def serial_gain_by_intensity(
    alpha: float,
    balance_flop_per_byte: float,
    intensity_flop_per_byte: float,
    compute: float = 1.0,
    others: float = 0.0,
) -> float:
    """Equation (20) with T_mem = T_cmp(CC) B / I: equation (21), section 4.2. B is the balance of CUDA cores.

    Raises ``ValueError`` for a negative time and unless all but ``others`` are above 0.
    """
    memory = compute * memory_over_compute(balance_flop_per_byte, intensity_flop_per_byte)
    return serial_gain_by_times(alpha, compute, memory, others)


def serial_gain_limit(alpha: float, balance_flop_per_byte: float, intensity_flop_per_byte: float) -> float:
    """1 + (α - 1) / (1 + α B / I): equation (22), section 4.2.

    The paper writes that a gain is less than this; it is equal to it where nothing but memory and computation takes
    time. Raises ``ValueError`` unless all are above 0.
    """
    return _gain(alpha, memory_over_compute(balance_flop_per_byte, intensity_flop_per_byte))


def tensor_core_limit(alpha: float) -> float:
    """2 - 2 / (1 + α), what no memory-bound kernel exceeds: equation (23), section 4.2.

    It is equation (22) at I = B, and 2 for an infinite ``alpha``. Raises ``ValueError`` unless α is above 0.
    """
    _positive(alpha=alpha)
    return 2 - 2 / (1 + alpha)


def workload_limit(intensity_flop_per_byte: float, balance_flop_per_byte: float) -> float:
    """1 + I / B, what infinitely fast tensor cores gain: equation (24), section 4.2.

    Raises ``ValueError`` unless both are above 0.
    """
    return serial_gain_limit(math.inf, balance_flop_per_byte, intensity_flop_per_byte)


def scale_tensor_gflops(tensor_gflops: float, m: int = 8, n: int = 4) -> float:
    """What is left of the tensor cores' peak, in GFLOP/s, for SCALE as a product with q I: section 5.1.

    Of an m by n instruction 1 / max(m, n) is of use. Raises ``ValueError`` unless all are above 0.
    """
    _positive(tensor_gflops=tensor_gflops, m=m, n=n)
    return tensor_gflops / max(m, n)


# --- the same for SpMM ----------------------------------------------------------------------------------------------


def spmm_bytes(
    nnz: float,
    m: float,
    k: float,
    n: float,
    value_bytes: float = DOUBLE,
    index_bytes: float = INDEX,
    c_bytes: float | None = None,
) -> float:
    """Compulsory bytes of C = A B: CSR of A, ``k`` rows of B that A touches and C, each once.

    ``c_bytes``: bytes of a value of C, those of a value of A and B unless given. At n = 1 it is the denominator of
    equation (10). Raises ``ValueError`` for sizes that are negative.
    """
    c_bytes = value_bytes if c_bytes is None else c_bytes
    _not_negative(nnz=nnz, m=m, k=k, n=n, value_bytes=value_bytes, index_bytes=index_bytes, c_bytes=c_bytes)
    return nnz * value_bytes + (nnz + m + 1) * index_bytes + n * (k * value_bytes + m * c_bytes)


def spmm_intensity(
    nnz: float, m: float, k: float, n: float, value_bytes: float = DOUBLE, index_bytes: float = INDEX
) -> float:
    """2 nnz n over the compulsory bytes of C = A B, in FLOP/B: equation (10) for ``n`` columns.

    Raises ``ValueError`` for sizes that are negative.
    """
    _not_negative(nnz=nnz, n=n)
    return intensity(2 * nnz * n, spmm_bytes(nnz, m, k, n, value_bytes, index_bytes))


def spmm_intensity_limit(nnz: float, m: float, k: float, value_bytes: float = DOUBLE) -> float:
    """2 nnz / ((m + k) D) in FLOP/B, what the intensity of SpMM approaches from below as B and C grow wider.

    Raises ``ValueError`` for a negative number of non-zeros and unless B and C have bytes.
    """
    return intensity(2 * nnz, (m + k) * value_bytes)


def useful_gflops(peak_gflops: float, fill: float = 1.0) -> float:
    """The part of a peak, in GFLOP/s, that non-zeros can make use of.

    ``fill``: share of the multiplications counted by the peak that are of non-zeros. It is at most 1 in dense tiles
    and at most :data:`SPARSE24_FILL` of a 2:4 peak, which counts the zeros that it skips. Raises ``ValueError`` for a
    peak that is not above 0 and for a fill outside of (0, 1].
    """
    _positive(peak=peak_gflops)
    if not 0 < fill <= 1:
        raise ValueError(f"a fill lies above 0 and is at most 1, not {fill}")
    return peak_gflops * fill


def overlapped_gain_limit(alpha: float, balance_flop_per_byte: float, intensity_flop_per_byte: float) -> float:
    """Ratio of both rooflines, min(α, B / I scaled to CUDA cores): equation (17) for kernels of any intensity.

    It is 1 where CUDA cores are memory-bound already. Raises ``ValueError`` unless all are above 0.
    """
    _positive(alpha=alpha)
    memory = memory_over_compute(balance_flop_per_byte, intensity_flop_per_byte)
    return overlapped(1.0, memory) / overlapped(1.0 / alpha, memory)


def gain_limit(alpha: float, balance_flop_per_byte: float, intensity_flop_per_byte: float) -> float:
    """The most that units ``alpha`` times as fast can gain at equal traffic and equal overlap.

    The larger of full overlap and none. In between, the time is a weighted mean of both extremes for either unit, and
    a ratio of such means lies between the ratios. Raises ``ValueError`` unless all are above 0.
    """
    return max(
        overlapped_gain_limit(alpha, balance_flop_per_byte, intensity_flop_per_byte),
        serial_gain_limit(alpha, balance_flop_per_byte, intensity_flop_per_byte),
    )


def tensor_gain_limit(
    intensity_flop_per_byte: float,
    bandwidth_gb_per_s: float,
    cuda_gflops: float,
    tensor_gflops: float,
    fill: float = 1.0,
) -> float:
    """Limit of the gain of tensor cores over CUDA cores at an intensity, from peaks and bandwidth.

    ``fill``: filled share of the tiles that are multiplied, for which the limit is tighter. Raises ``ValueError``
    unless all are above 0, and for a fill beyond 1.
    """
    _positive(cuda=cuda_gflops, bandwidth=bandwidth_gb_per_s)
    balance = roofline.machine_balance(cuda_gflops, bandwidth_gb_per_s)
    return gain_limit(useful_gflops(tensor_gflops, fill) / cuda_gflops, balance, intensity_flop_per_byte)


def sparse24_gain_limit(
    intensity_flop_per_byte: float,
    bandwidth_gb_per_s: float,
    cuda_gflops: float,
    sparse24_gflops: float,
    fill: float = SPARSE24_FILL,
) -> float:
    """Limit of the gain of 2:4 tensor cores over CUDA cores at an intensity, from peaks and bandwidth.

    ``fill``: filled share of the 2:4 tiles, zeros that are skipped included. Raises ``ValueError`` unless all are
    above 0, and for a fill beyond one half: such a tile is not 2:4.
    """
    if not fill <= SPARSE24_FILL:
        raise ValueError(f"a 2:4 tile is filled to one half at most, not to {fill}")
    return tensor_gain_limit(intensity_flop_per_byte, bandwidth_gb_per_s, cuda_gflops, sparse24_gflops, fill)


def sparse24_over_tensor_limit(
    intensity_flop_per_byte: float,
    bandwidth_gb_per_s: float,
    tensor_gflops: float,
    sparse24_gflops: float,
    fill: float = SPARSE24_FILL,
) -> float:
    """Limit of the gain of 2:4 tensor cores over dense ones on the same 2:4 tiles, filled to ``fill``.

    At equal traffic: that 2:4 tiles are half as large in memory is a gain of the format. Raises ``ValueError`` unless
    all are above 0, and for a fill beyond one half.
    """
    dense = useful_gflops(tensor_gflops, fill)
    return sparse24_gain_limit(intensity_flop_per_byte, bandwidth_gb_per_s, dense, sparse24_gflops, fill)


# --- beside what was measured ---------------------------------------------------------------------------------------


def rivals(cases: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """The fastest verified row without tensor cores of each comparable case and class of precision.

    Columns: those that make cases comparable, ``against`` (the class), and ``rival…``. A kernel whose head is unknown
    is no rival, because it might use tensor cores; the cuSPARSE rows need none.
    """
    scalar = {name for name, head in heads.items() if not uses_tensor_cores(head["features"])}
    known = cases["kernel"].isin(scalar) | (cases["study"] == "cusparse")
    candidates = cases[(cases["status"] == "ok") & known & ~is_derived(cases["kernel"])]
    columns = {
        "precision": "against",
        "kernel": "rival",
        "time_ms": "rival_ms",
        "compulsory_bytes": "rival_compulsory_bytes",
        "dtype_accumulator": "rival_accumulator",
    }
    fastest = candidates.sort_values(["time_ms", "kernel"]).drop_duplicates([*COMPARABLE, "precision"])
    return fastest[[*COMPARABLE, *columns]].rename(columns=columns)


def uses_tensor_cores(features: Iterable[str]) -> bool:
    """Whether a kernel with these ``features`` of its head multiplies on tensor cores."""
    return not set(features).isdisjoint(roofline.TENSOR_FEATURES)


def bounds(
    cases: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], peaks: Mapping[str, Mapping[str, float]]
) -> pd.DataFrame:
    """Table ``analysis_bounds``: every verified row of a tensor-core kernel beside the limit of its gain.

    ``cases``: table ``analysis_cases``; ``heads``: kernel → head with ``features``; ``peaks``: device → unit →
    GFLOP/s. The rival is the fastest kernel without tensor cores of the same class of precision, FP32 for TF32; the
    peak of CUDA cores is that of the unit it multiplies on, or of the row's own sums where there is no rival. The
    limit takes every tile as filled, so that it holds for any format. Rows of units without a peak, of devices without
    a measured bandwidth and of empty matrices have no limit.
    """
    tensor = {name for name, head in heads.items() if uses_tensor_cores(head["features"])}
    rows = cases[(cases["status"] == "ok") & cases["kernel"].isin(tensor)].copy()
    rows["against"] = rows["precision"].replace({"tf32": "float32"})
    rows = rows.merge(rivals(cases, heads), on=[*COMPARABLE, "against"], how="left")
    names = contracts.table("analysis_bounds").names
    result = []
    for row in rows.to_dict("records"):
        line = {name: row[name] for name in names if name in row}
        has_rival = isinstance(row["rival"], str)
        sums = row["rival_accumulator"] if has_rival else row["dtype_accumulator"]
        line |= _limits(row, heads[row["kernel"]]["features"], sums, peaks.get(row["device"], {}))
        if has_rival:
            line["gain"] = row["rival_ms"] / row["time_ms"]
        else:
            line |= dict.fromkeys(("rival", "rival_ms", "rival_compulsory_bytes"))
        if "gain_limit" not in line:
            line["verdict"] = "no_limit"
        elif not has_rival:
            line["verdict"] = "no_rival"
        else:
            line["verdict"] = "within_limit" if line["gain"] <= line["gain_limit"] else "beyond_limit"
        result.append(line)
    return contracts.frame(result, "analysis_bounds")


def _limits(
    row: Mapping[str, Any], features: Iterable[str], cuda_sums: str, peaks: Mapping[str, float]
) -> dict[str, Any]:
    """The columns of a row that follow from peaks, intensity and bandwidth; none but the units where one is missing.

    ``cuda_sums``: dtype in which CUDA cores would add.
    """
    unit = roofline.unit(features, row["dtype_a"], row["dtype_accumulator"])
    cuda_unit = roofline.unit((), row["dtype_a"], cuda_sums)
    line: dict[str, Any] = {"unit": unit, "cuda_unit": cuda_unit}
    peak, cuda = roofline.peak_gflops(peaks, unit), roofline.peak_gflops(peaks, cuda_unit)
    intensity_here, memory_limit = row["intensity_flop_per_byte"], row["bandwidth_limit_gflops"]
    if not peak or not cuda or not intensity_here > 0 or not memory_limit > 0:
        return line
    useful = useful_gflops(peak, SPARSE24_FILL if "sparse24" in unit else 1.0)
    alpha, balance = useful / cuda, roofline.machine_balance(cuda, memory_limit / intensity_here)
    return line | {
        "tensor_gflops": useful,
        "cuda_gflops": cuda,
        "peak_ratio": alpha,
        "balance_flop_per_byte": balance,
        "cuda_bound": bound(intensity_here, balance),
        "overlapped_limit": overlapped_gain_limit(alpha, balance, intensity_here),
        "serial_limit": serial_gain_limit(alpha, balance, intensity_here),
        "gain_limit": gain_limit(alpha, balance, intensity_here),
        "workload_limit": workload_limit(intensity_here, balance),
    }
