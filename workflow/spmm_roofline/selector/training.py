"""Training: coefficients and corrections of every kernel from its measured rows.

Every kernel is trained alike; a new one needs rows and nothing else. Kernels that agree in :data:`ALIKE` share their
coefficients, so that a case that one of them was not measured on does not separate their predictions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .correction import Correction, coordinates
from .model import Kernel
from .terms import FEATURES, Array, Rates, Work, counts, log_sum, terms

if TYPE_CHECKING:
    import pandas as pd

#: Kernels whose rows agree in these columns share their coefficients.
ALIKE = ("study", "format", "precision")
#: What of the arrays of a kernel's rows :func:`work_of` reads.
WORK_COLUMNS = ("compute_limit_gflops", "strip_columns", "format_bytes", "slots")
#: Matrices that a kernel must have been measured on to be a candidate: fewer say nothing about another matrix.
LEAST_MATRICES = 5

# Ridge on the normalised terms, and rounds of Gauss and Newton.
_RIDGE, _ROUNDS = 1e-2, 5
# Ridge on each of COUNTS.
_COUNT_RIDGE = (1e-2, 1e-2, 1e-4, 1e-5, 1e-3, 1e-6)


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
            residuals = cases[name]["log_ms"] - log_sum(times_ms[name], coefficients, floor_ms)
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


def work_of(
    case: Mapping[str, Array], precision: str, counted: Array | None = None, known: dict[bytes, Array] | None = None
) -> Work:
    """How much a kernel reads and multiplies, fitted to its measured cases (:func:`arrays`).

    Non-negative least squares on the relative error of ``format_bytes`` and of ``slots``. ``counted``: what
    :func:`.terms.counts` gives for the cases, where that is known already; ``case`` then needs no features. ``known``
    keeps the fits that were made: kernels of one format often store the same for the same cases.
    """
    limit, counted = float(case["compute_limit_gflops"][0]), counts(case) if counted is None else counted
    return Work(
        precision=precision,
        strip_columns=slab(case),
        compute_limit_gflops=limit if limit > 0 else 1e3,  # an unknown ceiling: the coefficient makes up for it
        bytes=_once(counted, case["format_bytes"], known),
        slots=_once(counted, case["slots"], known),
    )


def slab(case: Mapping[str, Array]) -> int:
    """Width of the column slab of the kernel whose cases these are; 0 where it has no slabs."""
    return int(np.nan_to_num(case["strip_columns"][0]))


def _once(counted: Array, wanted: Array, known: dict[bytes, Array] | None) -> Array:
    """:func:`_multiples`, or what ``known`` has of the same numbers."""
    if known is None:
        return _multiples(counted, wanted)
    key = hashlib.blake2b(np.ascontiguousarray(counted).tobytes() + wanted.tobytes()).digest()
    if key not in known:
        known[key] = _multiples(counted, wanted)
    return known[key]


def _multiples(counted: Array, wanted: Array) -> Array:
    """Multiples of the columns of ``counted`` [cases, counts] that sum to ``wanted`` [cases] where that is positive."""
    from scipy.optimize import nnls

    known = wanted > 0
    if not known.any():
        return np.zeros(counted.shape[1])
    relative = counted[known] / wanted[known, None]
    scale = relative.max(axis=0) + 1e-12
    # Where every tile was full, the bytes of tiles and of a dense A look alike. The ridge attributes them to the larger
    # count, which is the safe guess for a sparser matrix, and leaves a trace of the other counts.
    ridge = np.diag(np.sqrt(len(relative)) * np.array(_COUNT_RIDGE))
    found, _ = nnls(
        np.vstack([relative / scale, ridge]), np.concatenate([np.ones(len(relative)), np.zeros(len(scale))])
    )
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
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    relative = times_ms / measured_ms[:, None]
    scale = np.median(relative, axis=0) + relative.mean(axis=0) + 1e-12
    ridge = _RIDGE**2 * len(measured_ms) * np.eye(len(scale))
    scaled = times_ms / scale
    now, found = measured_ms, np.zeros(len(scale))
    for turn in range(_ROUNDS):
        wanted = 1 + np.log(measured_ms / now)
        design = scaled / now[:, None]
        # The solution of R x = R⁻ᵀ Aᵀ b is that of A x = b, with terms rows instead of cases; the ridge keeps AᵀA + r I
        # far from singular.
        root = np.linalg.cholesky(design.T @ design + ridge)
        found, _ = nnls(root.T, solve_triangular(root, design.T @ wanted, lower=True, check_finite=False))
        now = np.maximum(scaled @ found, 1e-3 * measured_ms)
        now = np.sqrt(now * measured_ms) if turn == 0 else now  # half the first step, which may overshoot
    return np.asarray(found / scale, dtype=np.float64)


def _rounded(values: Array, digits: int = 4) -> Array:
    """``values`` rounded to ``digits`` significant digits, as they are stored."""
    return np.array([float(f"{value:.{digits}g}") for value in values])
