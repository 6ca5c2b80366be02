"""Training: coefficients and corrections of every kernel from its measured rows.

Every kernel is trained alike; a new one needs rows and nothing else. Kernels that agree in :data:`ALIKE` share their
coefficients, so that a case that one of them was not measured on does not separate their predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .correction import Correction, coordinates
from .model import Kernel
from .terms import FEATURES, Array, Rates, Work, counts, log_sum, terms

if TYPE_CHECKING:
    import pandas as pd

#: Kernels whose rows agree in these columns share their coefficients.
ALIKE = ("study", "format", "precision")
#: Matrices that a kernel must have been measured on to be a candidate: fewer say nothing about another matrix.
LEAST_MATRICES = 5

# Ridge on the normalised terms, and rounds of Gauss and Newton.
_RIDGE, _ROUNDS = 1e-2, 5
# Ridge on each of COUNTS.
_COUNT_RIDGE = np.diag([1e-2, 1e-2, 1e-4, 1e-5, 1e-3, 1e-6])


def train(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], rates: Rates) -> dict[str, Kernel]:
    """Kernel → what its rows teach, for kernels with at least :data:`LEAST_MATRICES` matrices.

    ``rows``: verified times with columns ``log_ms``, ``kernel``, ``matrix``, ``kind``, ``n``, ``warm``, ``slots``,
    ``format_bytes``, ``strip_columns``, ``compute_limit_gflops``, :data:`ALIKE` and :data:`.terms.FEATURES`;
    ``heads``: kernel → head as plain values.
    """
    floor_ms = fastest_ms(rows)
    found = {}
    for _, alike in rows[rows["kernel"].isin(list(heads))].groupby(list(ALIKE), sort=True):
        enough = alike.groupby("kernel")["matrix"].transform("nunique") >= LEAST_MATRICES
        owned = {name: own for name, own in alike[enough].groupby("kernel", sort=True)}
        if not owned:
            continue
        cases = {name: arrays(own) for name, own in owned.items()}
        work = {name: work_of(case, heads[name]["dtype"]["a"]) for name, case in cases.items()}
        times_ms = {name: terms(case, work[name], rates) for name, case in cases.items()}
        coefficients = _rounded(shared_coefficients(times_ms, cases))
        for name, own in owned.items():
            head = heads[name]
            residuals = cases[name]["log_ms"] - log_sum(times_ms[name], coefficients, floor_ms, rates)
            found[name] = Kernel(
                name=name,
                study=head["study"],
                format=head["format"],
                dtype={role: head["dtype"][role] for role in ("a", "accumulator", "c")},
                layout=dict(head["layout"]),
                requires=dict(head["requires"]),
                kinds=int(own["kind"].nunique()),
                work=work[name],
                coefficients=coefficients,
                widths=tuple(sorted(map(int, own["n"].unique()))),
                l2=tuple(sorted({"warm" if warm else "cold" for warm in own["warm"]})),
                most={size: int(own[size].max()) for size in ("m", "nnz")},
                correction=Correction(coordinates(cases[name], rates), np.round(residuals, 4)),
            )
    return dict(sorted(found.items()))


def fastest_ms(rows: pd.DataFrame) -> float:
    """The fastest of the calls ``rows``; 0 if there is none."""
    return float(np.exp(rows["log_ms"].min())) if len(rows) else 0.0


def arrays(rows: pd.DataFrame) -> dict[str, Array]:
    """The numbers of one kernel's rows, float64 each, NaN where a value is missing."""
    columns = (*FEATURES, "n", "warm", "log_ms", "format_bytes", "slots", "strip_columns", "compute_limit_gflops")
    return {name: rows[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns}


def work_of(case: Mapping[str, Array], precision: str) -> Work:
    """How much a kernel reads and multiplies, fitted to its measured cases (:func:`arrays`)."""
    counted = counts(case)
    return Work(
        precision=precision,
        strip_columns=slab(case),
        compute_limit_gflops=limit_gflops(case),
        bytes=Stored(counted, case["format_bytes"]).multiples(),
        slots=Stored(counted, case["slots"]).multiples(),
    )


def slab(case: Mapping[str, Array]) -> int:
    """Width of the column slab of the kernel whose cases these are; 0 where it has no slabs."""
    return int(np.nan_to_num(case["strip_columns"][0]))


def limit_gflops(case: Mapping[str, Array]) -> float:
    """Ceiling of the unit on which the kernel multiplies whose cases these are."""
    limit = float(case["compute_limit_gflops"][0])
    return limit if limit > 0 else 1e3  # an unknown ceiling: the coefficient makes up for it


class Stored:
    """What a format stores in some cases, bytes or slots, as a sum of multiples of :data:`.terms.COUNTS`.

    Non-negative least squares on the relative error of ``stored``, float64[cases], whose counts are ``counted``,
    float64[cases, 6]; a case of which it is not known does not count. ``matrices`` numbers the matrix of each case.
    Cases of one matrix have the same counts, so that their equations are multiples of one: that one alone, as long as
    they are together, has the same solution.
    """

    def __init__(self, counted: Array, stored: Array, matrices: NDArray[np.int64] | None = None) -> None:
        known = stored > 0
        of = (np.arange(len(stored)) if matrices is None else matrices)[known]
        each = 1 / stored[known]
        self._cases = np.bincount(of)
        total, length, largest = np.bincount(of, each), np.sqrt(np.bincount(of, each**2)), np.zeros(len(self._cases))
        np.maximum.at(largest, of, each)
        found = np.zeros((len(self._cases), counted.shape[1]))
        found[of] = counted[known]
        self._largest = found * largest[:, None]
        self._equations = found * length[:, None]
        self._wanted = np.divide(total, length, out=np.zeros_like(total), where=length > 0)

    def multiples(self, without: NDArray[np.int64] | None = None) -> Array:
        """Multiples of the counts, float64[6], from all matrices but those of these numbers."""
        from scipy.optimize import nnls

        seen = self._cases > 0
        if without is not None:
            seen[without[without < len(seen)]] = False
        if not seen.any():
            return np.zeros(self._equations.shape[1])
        scale = self._largest[seen].max(axis=0) + 1e-12
        # Where every tile was full, the bytes of tiles and of a dense A look alike. The ridge attributes them to the
        # larger count, which is the safe guess for a sparser matrix, and leaves a trace of the other counts.
        ridge = np.sqrt(self._cases[seen].sum()) * _COUNT_RIDGE
        equations = np.concatenate([self._equations[seen] / scale, ridge])
        found, _ = nnls(equations, np.concatenate([self._wanted[seen], np.zeros(len(scale))]))
        return _rounded(np.where(found > 1e-3, found / scale, 0.0))


def shared_coefficients(times_ms: Mapping[str, Array], cases: Mapping[str, Mapping[str, Array]]) -> Array:
    """Coefficients of the kernels of ``times_ms`` together: kernel → terms; ``cases``: kernel → :func:`arrays`."""
    measured_ms = np.exp(np.concatenate([cases[name]["log_ms"] for name in times_ms]))
    return fit(np.vstack(list(times_ms.values())), measured_ms)


def fit(times_ms: Array, measured_ms: Array) -> Array:
    """Coefficients ≥ 0, float64[terms], of the terms ``times_ms`` [cases, terms] for ``measured_ms`` [cases].

    Least squares on the logarithm of the times, by Gauss and Newton with a non-negative solution in each round (Lawson
    & Hanson 1974). A small ridge on the normalised terms separates terms that are nearly proportional.
    """
    from scipy.linalg.lapack import dtrtrs
    from scipy.optimize import nnls

    # Terms are rows and memory is reused, which halves the time of the thousands of fits of a validation.
    relative = np.divide(times_ms.T, measured_ms, order="C")
    scale = relative.mean(axis=1) + _medians(relative) + 1e-12
    ridge = _RIDGE**2 * len(measured_ms) * np.eye(len(scale))
    scaled = np.divide(times_ms.T, scale[:, None], out=relative)
    design = np.empty_like(scaled)
    now, found = measured_ms, np.zeros(len(scale))
    for turn in range(_ROUNDS):
        wanted = 1 + np.log(measured_ms / now)
        np.divide(scaled, now, out=design)
        # The solution of R x = R⁻ᵀ Aᵀ b is that of A x = b, with terms rows instead of cases; the ridge keeps AᵀA + r I
        # far from singular.
        root = np.linalg.cholesky(design @ design.T + ridge)
        found, _ = nnls(root.T, dtrtrs(root, design @ wanted, lower=1)[0])
        now = np.maximum(found @ scaled, 1e-3 * measured_ms)
        now = np.sqrt(now * measured_ms) if turn == 0 else now  # half the first step, which may overshoot
    return np.asarray(found / scale, dtype=np.float64)


def _medians(rows: Array) -> Array:
    """Median of each row, which NumPy's own takes five times as long to find."""
    half = rows.shape[1] // 2
    parted = np.partition(rows, half, axis=1)
    upper = parted[:, half]
    return upper if rows.shape[1] % 2 else (parted[:, :half].max(axis=1) + upper) / 2


def _rounded(values: Array, digits: int = 4) -> Array:
    """``values`` rounded to ``digits`` significant digits, as they are stored."""
    return np.array([float(f"{value:.{digits}g}") for value in values])
