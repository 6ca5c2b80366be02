"""TCU synergy: how full bricks of active columns are, and what that says of tensor cores on a matrix.

Xiang et al. 2024 (cuTeSpMM), sections 4, 6.3 and 6.4, tables 1 and 2, figures 7, 9 and 10. The paper's operational
intensity counts transactions between shared memory and registers, the traffic that its kernel cannot avoid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .bootstrap import geomean_interval
from .cases import COMPARABLE, is_derived, timed
from .registry import table
from .rivals import matching
from .roofline import on_tensor_cores

if TYPE_CHECKING:
    import pandas as pd

#: Rows and columns of a brick, and columns of C that a warp makes: what m16n8k4 and section 4 fix.
BRICK_M, BRICK_K, TN = 16, 4, 32

#: Class → α from which on it holds (table 1).
CLASSES = {"low": 0.0, "medium": 0.125, "high": 0.25}

#: Words of a transaction: 128 bytes.
WORDS = 32

#: Nsight's counter of passes through shared memory by loads.
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"

#: Rows of A from which on a bin begins (figure 10), and the bins' names.
ROW_BINS = {
    0: "below 20k",
    20_000: "20k to 50k",
    50_000: "50k to 100k",
    100_000: "100k to 500k",
    500_000: "500k and more",
}

#: Columns of the five numbers of a box.
QUARTILES = ("least_gflops", "lower_quartile_gflops", "median_gflops", "upper_quartile_gflops", "most_gflops")


def synergy_class(alpha: float) -> str:
    """Class of a brick density, 0…1 (table 1). Raises ``ValueError`` outside of that range."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"a brick density lies between 0 and 1, not at {alpha}")
    return next(name for name, least in reversed(CLASSES.items()) if alpha >= least)


def row_bins(rows: pd.Series) -> pd.Series:
    """Name of the bin of each number of rows, of :data:`ROW_BINS`."""
    import pandas as pd

    bins = pd.cut(rows.astype("float64"), [*ROW_BINS, math.inf], right=False, labels=list(ROW_BINS.values()))
    return bins.astype("string")


def bricks(nnz: float, alpha: float) -> float:
    """Bricks of a matrix of ``nnz`` non-zeros: nnz / (α brick_m brick_k), section 4."""
    return nnz / (alpha * BRICK_M * BRICK_K)


def transactions_of_a(n: int, nnz: float, alpha: float, tn: int = TN) -> float:
    """Shared-memory transactions that read A: two for the pattern and one for each 32 values of a brick, N/TN times.

    Section 4, the line above equation (1).
    """
    return (math.ceil(alpha * BRICK_M * BRICK_K / WORDS) + 2) * n / tn * bricks(nnz, alpha)


def approximate_transactions_of_a(n: int, nnz: float, alpha: float, tn: int = TN) -> float:
    """Equation (1): four transactions a brick, which holds where a brick has more than 32 values."""
    return 4 * n / tn * bricks(nnz, alpha)


def transactions_of_b(n: int, nnz: float, alpha: float, beta: float = 1.0) -> float:
    """Equation (2), with the reuse by ``beta`` bricks of a brick column in equation (5): N nnz / (32 α brick_m β)."""
    return n * nnz / (WORDS * alpha * BRICK_M * beta)


def intensity(alpha: float) -> float:
    """Equation (4): FLOP for each transaction where TN = 32 makes the transactions of A and B equal: 512 α."""
    return 2 / (approximate_transactions_of_a(1, 1, alpha) + transactions_of_b(1, 1, alpha))


@table()
def synergy(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    formats: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    rivals: Mapping[str, Iterable[str]],
) -> pd.DataFrame:
    """Table ``analysis_synergy``: every verified TF32 row beside the model and the best on scalar cores, best_sc.

    ``best_sc`` is the fastest verified row of the same case among the kernels that the paper names (the set of that
    name in :mod:`.rivals`); ``best_today`` that of all FP32 kernels without tensor cores, those of this project and of
    later work included. A matrix whose α is unknown is left out.
    """
    alphas = dict(zip(matrices["matrix"], matrices["alpha_fraction"], strict=True))
    known = formats.dropna(subset="beta").drop_duplicates("matrix")
    betas = dict(zip(known["matrix"], known["beta"], strict=True))
    ok = timed(cases)
    ok = ok[~is_derived(ok["kernel"]) & (ok["study"] != "cublas")]
    tensor = {name for name, head in heads.items() if on_tensor_cores(head)}
    scalar = ok[(ok["precision"] == "float32") & ~ok["kernel"].isin(tensor)]
    named = {name for pattern in rivals.get("best_sc", ()) for name in matching(pattern, heads)}
    best = _fastest(scalar[scalar["kernel"].isin(named)], "best_sc")
    today = _fastest(scalar, "best_today").drop(columns="best_today_preprocess_ms")
    rows = ok[(ok["precision"] == "tf32") & (ok["nnz"] > 0)].merge(best, on=COMPARABLE, how="left")
    rows = rows.merge(today, on=COMPARABLE, how="left")
    rows = rows.assign(row_bin=row_bins(rows["m"]))
    names = contracts.table("analysis_synergy").names
    kept = rows.columns.intersection([*names, "best_sc_preprocess_ms"])
    result = []
    for row in contracts.records(rows[kept]):
        alpha = alphas.get(row["matrix"])
        if not alpha or alpha != alpha:
            continue
        line = {name: row[name] for name in names if name in row}
        line |= {
            "alpha_fraction": alpha,
            "beta": betas.get(row["matrix"]),
            "synergy": synergy_class(alpha),
            "oi_shmem": intensity(alpha),
            "preprocess_products": row["preprocess_ms"] / row["time_ms"],
            # That of the table of cases is over cuSPARSE.
            "speedup": None,
        }
        if row["best_sc_ms"] == row["best_sc_ms"]:
            saved = row["best_sc_ms"] - row["time_ms"]
            more = max(row["preprocess_ms"] - row["best_sc_preprocess_ms"], 0.0)
            line["speedup"] = row["best_sc_ms"] / row["time_ms"]
            line["best_sc_gflops"] = row["useful_gflops"] * row["time_ms"] / row["best_sc_ms"]
            line["break_even"] = math.ceil(more / saved) if saved > 0 else None
        if row["best_today_ms"] == row["best_today_ms"]:
            line["speedup_today"] = row["best_today_ms"] / row["time_ms"]
            line["best_today_gflops"] = row["useful_gflops"] * row["time_ms"] / row["best_today_ms"]
        result.append(line)
    return contracts.frame(result, "analysis_synergy")


def _fastest(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The fastest row of each case: its kernel as ``name``, its time and its preprocessing."""
    best = rows.sort_values(["time_ms", "kernel"]).drop_duplicates([*COMPARABLE])
    columns = {"kernel": name, "time_ms": f"{name}_ms", "preprocess_ms": f"{name}_preprocess_ms"}
    return best[[*COMPARABLE, *columns]].rename(columns=columns)


@table("synergy_classes")
def classes(synergy: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Table ``analysis_synergy_classes`` from ``analysis_synergy``: distributions by class, and over all classes.

    The kernels ``best_sc`` and ``best_today`` have the rates of the best on scalar cores, once a case, and speed-ups
    over best_sc like all others. ``spearman`` is the rank correlation of modelled intensity and rate (figure 7); it is
    empty below five matrices and where one of both is the same everywhere.
    """
    import numpy as np
    import pandas as pd

    keys = ["device", "suite", "l2", "kernel", "n", "synergy"]
    own = synergy[["device", "suite", "l2", "kernel", "n", "matrix", "synergy", "oi_shmem", "useful_gflops", "speedup"]]
    once = synergy.drop_duplicates(["device", "suite", "l2", "n", "matrix"])
    rates = {"best_sc": once["best_sc_gflops"], "best_today": once["best_today_gflops"]}
    best = [
        once.assign(kernel=name, useful_gflops=rate, speedup=rate / once["best_sc_gflops"]).dropna(
            subset="useful_gflops"
        )
        for name, rate in rates.items()
    ]
    every = pd.concat([own, *(rows[own.columns] for rows in best)], ignore_index=True)
    every = pd.concat([every, every.assign(synergy="all")], ignore_index=True)
    every = every[[*keys, "oi_shmem", "useful_gflops", "speedup"]]
    intensities, every_rate, speedups = (
        every[name].to_numpy(dtype=float) for name in ("oi_shmem", "useful_gflops", "speedup")
    )
    groups = every.groupby(keys)
    ranks = groups[["oi_shmem", "useful_gflops"]].rank().to_numpy()
    result = []
    for key, own in sorted(groups.indices.items()):
        own_rates, own_intensities = every_rate[own], intensities[own]
        line = dict(zip(keys, key, strict=True)) | {"matrices": len(own)}
        quartiles = np.quantile(own_rates, [0, 0.25, 0.5, 0.75, 1])
        line |= dict(zip(QUARTILES, quartiles, strict=True))
        ratios = speedups[own]
        ratios = ratios[~np.isnan(ratios)]
        if len(ratios):
            mean, low, high = geomean_interval(ratios, key, resamples)
            line |= {"geomean": mean, "geomean_low": low, "geomean_high": high, "wins": int((ratios > 1).sum())}
        if len(own) >= 5 and np.ptp(own_intensities) > 0 and np.ptp(own_rates) > 0:
            line["spearman"] = float(np.corrcoef(ranks[own], rowvar=False)[0, 1])
        result.append(line)
    return contracts.frame(result, "analysis_synergy_classes")


@table()
def shared_memory(
    profiled: pd.DataFrame, matrices: pd.DataFrame, formats: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Table ``analysis_shared_memory``: the transaction model beside what Nsight Compute counted, case by case.

    ``profiled``: table ``profile``. Only kernels whose format has bricks are modelled. The counter gives wavefronts,
    the passes through the banks that a warp's loads from shared memory take.
    """
    bricked = set(formats.dropna(subset="alpha")["format"])
    modelled = {name for name, head in heads.items() if head["format"] in bricked}
    alphas = formats.dropna(subset="alpha").drop_duplicates("matrix").set_index("matrix")
    sizes = dict(zip(matrices["matrix"], matrices["nnz"], strict=True))
    rows = profiled[(profiled["metric"] == WAVEFRONTS) & (profiled["status"] == "ok")]
    result = []
    for row in contracts.records(rows[rows["kernel"].isin(modelled)]):
        if row["matrix"] not in alphas.index or row["matrix"] not in sizes:
            continue
        alpha, beta = (float(alphas.loc[row["matrix"], name]) for name in ("alpha", "beta"))
        nnz, n = int(sizes[row["matrix"]]), int(row["n"])
        if not alpha:
            continue
        of_a, of_b = transactions_of_a(n, nnz, alpha), transactions_of_b(n, nnz, alpha, beta)
        result.append(
            {name: row[name] for name in ("device", "suite", "kernel", "matrix", "n", "l2")}
            | {"nnz": nnz, "alpha_fraction": alpha, "beta": beta}
            | {"modelled_a": of_a, "modelled_b": of_b, "modelled": of_a + of_b}
            | {"counted": row["value"], "counted_over_modelled": row["value"] / (of_a + of_b)}
        )
    return contracts.frame(result, "analysis_shared_memory")
