"""What a kernel costs before its first product, and after how many products it has paid that back.

The time to look at A and to pack it is, like that of a product, a sum of terms with coefficients that are not negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .terms import Array, Work, columns, counts

#: Term of the time before the first product → what multiplies it, scaled to the order of a millisecond.
PARTS = {"call": 0.1, "non-zeros": 1e-6, "rows": 1e-6, "bytes": 1e-6}
#: Fraction of the measured times that lie within ``factor`` of the prediction.
INTERVAL = 0.8


@dataclass(frozen=True)
class Preprocessing:
    """The time before the first product of one kernel."""

    coefficients: Array
    """float64[len(PARTS)]"""
    factor: float
    """four of five measured times lie between prediction / factor and prediction · factor"""

    def predict(self, case: Mapping[str, Any], work: Work) -> Array:
        """Milliseconds, float64[cases]; ``case`` as of :func:`.terms.terms`."""
        found: Array = parts(case, work) @ self.coefficients
        return found


def parts(case: Mapping[str, Any], work: Work) -> Array:
    """The terms :data:`PARTS` of each case, float64[cases, 4]."""
    get = columns(case)
    nnz = get("nnz")
    found = {"call": np.ones_like(nnz), "non-zeros": nnz, "rows": get("m"), "bytes": counts(case) @ work.bytes}
    return np.column_stack([scale * found[name] for name, scale in PARTS.items()])


def learnt(case: Mapping[str, Array], work: Work, measured_ms: Array) -> Preprocessing | None:
    """What the times ``measured_ms`` [cases] before the first product teach; None where none was measured."""
    from .training import fit

    known = np.isfinite(measured_ms) & (measured_ms > 0)
    if not known.any():
        return None
    times_ms = parts(case, work)[known]
    coefficients = np.array([float(f"{value:.4g}") for value in fit(times_ms, measured_ms[known])])
    off = np.abs(np.log(measured_ms[known] / (times_ms @ coefficients)))
    return Preprocessing(coefficients, round(float(np.exp(np.quantile(off, INTERVAL))), 3))


def calls_to_pay_back(time_ms: float, before_ms: float, other_ms: float, other_before_ms: float) -> int | None:
    """Products after which a kernel has taken no longer than another one, what comes before the first included.

    0 if it takes no longer from the start, None if it never catches up.
    """
    behind_ms, gained_ms = before_ms - other_before_ms, other_ms - time_ms
    if behind_ms <= 0 and gained_ms >= 0:
        return 0
    return math.ceil(behind_ms / gained_ms) if gained_ms > 0 else None
