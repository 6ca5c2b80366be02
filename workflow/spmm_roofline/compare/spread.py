"""What two runs of one code differ by, estimated from the kernels that did not change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import minimize

#: Degrees of freedom of the t-distribution of a case, log ratio over scale. Of the cases of an H200 that two suites
#: measured, 5, 1 and 0.1 % are expected beyond its quantiles, and 6.5, 2.4 and 0.15 % are.
FREEDOM = 2.5
#: The same cases (2,722 of 68 kernels, recorded at commit 52880880): floor, jitter of the replay in ms, and scale over
#: the error of the medians.
FLOOR, JITTER_MS, OF_ERROR = 0.0011, 1.6e-4, 3.4
#: Standard deviation of the logarithms of these three from one machine to another.
OTHER_MACHINE = 1.0
#: Scatter of the means of their kernels, over that of independent cases; how many control kernels it is worth.
SCATTER, SCATTER_WORTH = 3.0, 4
#: Standard error of the shift where no kernel tells it, an assumption: the suites of one evening differ by 0.001.
UNKNOWN_SHIFT = 0.005


@dataclass(frozen=True)
class Spread:
    """``shift``: log of the common ratio, and its standard error ``shift_error``; ``floor``, ``jitter_ms``,
    ``of_error``: parameters of :meth:`scale`; ``scatter``: what the standard error of a kernel's mean is multiplied by;
    ``freedom``: degrees of freedom of that mean; ``controls`` and ``cases``: unchanged kernels and their cases."""

    shift: float
    shift_error: float
    floor: float
    jitter_ms: float
    of_error: float
    scatter: float
    freedom: float
    controls: int
    cases: int

    def scale(self, cases: pd.DataFrame) -> np.ndarray:
        """Scale of the t-distribution of the log ratio of each case, shape (cases,)."""
        return np.hypot(
            _scale(np.array([self.floor, self.jitter_ms, self.of_error]), _time(cases), _error(cases)),
            cases["host"].to_numpy(dtype=float),
        )


def estimate(controls: pd.DataFrame, common: bool) -> Spread:
    """The spread that ``controls`` show, cases of :class:`.pairs.Paired` that ran the same code on both sides.

    ``common``: both sides may differ by a common shift. Otherwise shift and its error are zero.
    """
    medians = controls.groupby("kernel")["log"].median()
    shift = float(medians.median()) if common and len(medians) else 0.0
    logs = controls["log"].to_numpy(dtype=float)
    parameters = _fit(logs - (np.median(logs) if len(logs) else 0.0), controls)
    means = of_kernels(controls, logs - shift, _scale(parameters, _time(controls), _error(controls)))
    ratios = (means["mean"] / means["error"]).to_numpy()
    scatter = float(np.sqrt((SCATTER_WORTH * SCATTER**2 + (ratios**2).sum()) / (SCATTER_WORTH + len(ratios))))
    scatter = max(scatter, 1.0)
    error = 0.0
    if common:
        error = _shift_error(medians, scatter * means["error"]) if len(medians) else UNKNOWN_SHIFT
    floor, jitter, of_error = map(float, parameters)
    return Spread(
        shift=shift,
        shift_error=error,
        floor=floor,
        jitter_ms=jitter,
        of_error=of_error,
        scatter=scatter,
        freedom=SCATTER_WORTH + len(medians),
        controls=len(medians),
        cases=len(controls),
    )


def of_kernels(cases: pd.DataFrame, logs: np.ndarray, scales: np.ndarray) -> pd.DataFrame:
    """By kernel: the ``mean`` of its logs, and its standard ``error`` if cases were independent."""
    table = pd.DataFrame({"kernel": cases["kernel"].to_numpy(), "log": logs, "square": scales**2})
    grouped = table.groupby("kernel")
    return pd.DataFrame(
        {"mean": grouped["log"].mean(), "error": np.sqrt(grouped["square"].sum()) / grouped["log"].size()}
    )


def without(controls: pd.DataFrame, spread: Spread) -> pd.Series:
    """Control kernel → shift that the other controls show; zero for the only one."""
    medians = controls.groupby("kernel")["log"].median()
    values = medians.to_numpy()
    others = [float(np.median(np.delete(values, at))) if len(values) > 1 else 0.0 for at in range(len(values))]
    shifts = pd.Series(others, index=medians.index, dtype=float)
    return shifts if spread.shift_error else shifts * 0


def _fit(logs: np.ndarray, controls: pd.DataFrame) -> np.ndarray:
    """Floor, jitter and factor of the error with the highest posterior density; the prior where there is no control."""
    prior = np.log([FLOOR, JITTER_MS, OF_ERROR])
    if not len(logs):
        return np.exp(prior)
    time, error = _time(controls), _error(controls)

    def loss(parameters: np.ndarray) -> float:
        scale = _scale(np.exp(parameters), time, error)
        density = np.log(scale) + (FREEDOM + 1) / 2 * np.log1p((logs / scale) ** 2 / FREEDOM)
        return float(density.sum() + (((parameters - prior) / OTHER_MACHINE) ** 2).sum() / 2)

    # From the scale of these logs, because the simplex is small.
    typical = np.log(max(float(np.median(np.abs(logs))), 1e-5) / float(np.median(_scale(np.exp(prior), time, error))))
    starts = (prior, prior + np.array([max(typical, 0.0), 0.0, 0.0]))
    found = [minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400}) for start in starts]
    return np.exp(min(found, key=lambda result: result.fun).x)


def _scale(parameters: np.ndarray, time: np.ndarray, error: np.ndarray) -> np.ndarray:
    floor, jitter, of_error = parameters
    return np.sqrt(floor**2 + (jitter / time) ** 2 + (of_error * error) ** 2)


def _shift_error(medians: pd.Series, errors: pd.Series) -> float:
    """Standard error of the median of the control kernels: from their deviations, or from the errors of their means
    where these are larger, since a few kernels may be close by chance."""
    values = medians.to_numpy()
    deviation = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return float(1.2533 * max(deviation, float(np.median(errors))) / np.sqrt(len(values)))


def _time(cases: pd.DataFrame) -> np.ndarray:
    return np.sqrt(cases["time_a_ms"].to_numpy(dtype=float) * cases["time_b_ms"].to_numpy(dtype=float))


def _error(cases: pd.DataFrame) -> np.ndarray:
    return cases["error"].to_numpy(dtype=float)
