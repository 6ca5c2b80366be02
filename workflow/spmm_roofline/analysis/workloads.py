"""What tensor cores can gain on the workloads of Zhang et al. 2025, "Can Tensor Cores Benefit Memory-Bound Kernels?
(No!)", sections 3 and 4, on the devices measured here, and what they gained.

Intensity I in FLOP/B counts every operand once, as in the paper, in float64 with int32 indices unless told otherwise;
balance B in FLOP/B is that of CUDA cores over DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .bounds import gain_of_balance
from .cases import KEY
from .registry import table
from .roofline import limit_gflops, machine_balance

if TYPE_CHECKING:
    import pandas as pd

#: Study whose rows are the measured side of the table.
STUDY = "memory_bound"
#: Bytes of the values and the indices that the paper counts with: float64 and int32.
VALUE_BYTES, INDEX_BYTES = 8, 4
#: Stencil → blocked time steps: one, and the number in table 3 of the paper.
STENCILS = {"2d5pt": (1, 3), "2d9pt": (1, 3), "2d13pt": (1,), "2d49pt": (1,), "3d7pt": (1, 3), "3d27pt": (1, 3)}


def scale_intensity() -> float:
    """SCALE, a = q b: one operation for one load and one store. 1/16 in float64, section 3.1."""
    return 1 / (2 * VALUE_BYTES)


def gemv_intensity() -> float:
    """A dense matrix times a vector, equation (7), for a matrix much larger than the vectors: 2 / D."""
    return 2 / VALUE_BYTES


def spmv_csr_intensity() -> float:
    """SpMV in CSR, equation (10), for long rows: 2 / (D + I)."""
    return 2 / (VALUE_BYTES + INDEX_BYTES)


def stencil_intensity(points: int, steps: int = 1) -> float:
    """Each value loaded and stored once, 2 |S| operations a step: equation (12), and (13) for blocked time steps."""
    return steps * 2 * points / (2 * VALUE_BYTES)


def binding(intensity: float, balance: float) -> str:
    """``compute`` above the machine balance, ``memory`` below: equation (4). On it, neither waits: ``memory``."""
    return "compute" if intensity > balance else "memory"


def steps_to_compute_bound(points: int, balance: float) -> float:
    """Blocked time steps above which a stencil is bound by computation: equation (14)."""
    return balance / stencil_intensity(points)


def unit_limit(alpha: float) -> float:
    """Limit of the gain over all memory-bound workloads, as T_cmp approaches T_mem: 2 − 2 / (1 + α), equation (23)."""
    return 2 - 2 / (1 + alpha)


def workload_limit(intensity: float, balance: float) -> float:
    """Limit of the gain over all units, as α grows without end: 1 + I / B, equation (24)."""
    return 1 + intensity / balance


@table()
def workloads(
    cases: pd.DataFrame,
    bounds: pd.DataFrame,
    dram_gb_per_s: Mapping[str, float],
    measured_peaks: Mapping[str, Mapping[tuple[str, str], float]],
    peaks: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """Table ``analysis_workloads``: a row for each workload on each device that measured the study.

    Gains are those of ``analysis_bounds``: the fastest kernel on CUDA cores over the one on tensor cores, in double
    precision on one column, of kernels that compute the ``steps`` of the row. A device without a ceiling of its FP64
    units or of DRAM is left out.
    """
    rows = cases[(cases["study"] == STUDY) & (cases["precision"] == "float64") & (cases["n"] == 1)]
    gained = bounds.dropna(subset="gain").merge(rows[[*KEY, "kind", "steps"]], on=KEY)
    gained = gained.assign(workload=_names(gained))
    result = []
    for device in sorted(set(rows["device"]) & dram_gb_per_s.keys()):
        cuda, tensor = (
            limit_gflops(unit, None, measured_peaks.get(device, {}), peaks.get(device, {}))
            for unit in ("float64_cuda", "float64_tensor")
        )
        if cuda is None or tensor is None:
            continue
        alpha, balance = tensor[0] / cuda[0], machine_balance(cuda[0], dram_gb_per_s[device])
        own = gained[gained["device"] == device]
        for workload, steps, intensity in _paper():
            mine = own[(own["workload"] == workload) & (own["steps"] == steps)]
            result.append(
                {"device": device, "workload": workload, "steps": steps, "intensity_flop_per_byte": intensity}
                | {"balance_flop_per_byte": balance, "alpha": alpha, "memory_over_compute": balance / intensity}
                | {"binding": binding(intensity, balance), "gain_limit": gain_of_balance(alpha, intensity, balance)}
                | {"unit_limit": unit_limit(alpha), "workload_limit": workload_limit(intensity, balance)}
                | {"steps_to_compute_bound": _steps(workload, balance)}
                | _gains(mine["gain"])
            )
    return contracts.frame(result, "analysis_workloads")


def _paper() -> list[tuple[str, int, float]]:
    """Workload, steps and intensity of each line."""
    plain = [("SCALE", scale_intensity()), ("GEMV", gemv_intensity()), ("SpMV", spmv_csr_intensity())]
    found = [(name, 1, intensity) for name, intensity in plain]
    return found + [
        (name, count, stencil_intensity(_points(name), count)) for name, steps in STENCILS.items() for count in steps
    ]


def _points(stencil: str) -> int:
    """The 27 of ``3d27pt``."""
    return int(stencil.partition("d")[2].removesuffix("pt"))


def _steps(workload: str, balance: float) -> float | None:
    return steps_to_compute_bound(_points(workload), balance) if workload in STENCILS else None


def _names(rows: pd.DataFrame) -> pd.Series:
    """Workload of each row: what the kind of its matrix stands for, the stencil of a grid by the grid's name."""
    stencil = rows["matrix"].str.extract(r"^(\dd\d+pt)", expand=False)
    return stencil.where(rows["kind"] == "grid", "SpMV").where(rows["kind"] != "diagonal", "SCALE")


def _gains(ratios: pd.Series) -> dict[str, Any]:
    import numpy as np

    if ratios.empty:
        return {"cases": 0}
    values = ratios.to_numpy(dtype=float)
    return {"cases": len(values), "geomean": float(np.exp(np.log(values).mean())), "best": float(values.max())}
