"""Validation: what the selector predicts for rows that its training did not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .correction import HeldOut, coordinates
from .devices import extrapolated
from .model import Model
from .terms import Array, Rates, Terms, Work, log_sum, terms
from .training import ALIKE, LEAST_MATRICES, WORK_COLUMNS, arrays, fastest_ms, fit, slab, train, work_of

if TYPE_CHECKING:
    import pandas as pd

#: Fraction of the held-out times that lie within the interval of a prediction.
INTERVAL = 0.8


def held_out(rows: pd.DataFrame, rates: Rates, by: str) -> pd.DataFrame:
    """``rows`` with ``predicted`` and ``spread``, each from the rows of all other values of column ``by`` alone.

    Both are logarithms, NaN where fewer than :data:`~.training.LEAST_MATRICES` matrices are left to learn from.
    ``rows`` as in :func:`.training.train`. Coefficients are fitted anew for each value of ``by``.
    """
    floor_ms = fastest_ms(rows)
    known: dict[bytes, Array] = {}
    predicted, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    positions = rows.assign(position=np.arange(len(rows)), group=_numbered(rows[by]), own=_numbered(rows["matrix"]))
    for _, alike in positions.groupby(list(ALIKE), sort=True):
        kernels = [_Owned(own, rates) for _, own in alike.groupby("kernel", sort=True)]
        for value in alike["group"].unique():
            out = {kernel: kernel.groups == value for kernel in kernels}
            able = [kernel for kernel in kernels if kernel.matrices_beside(out[kernel]) >= LEAST_MATRICES]
            if not any(out[kernel].any() for kernel in able):
                continue
            times_ms = {kernel: kernel.terms.of(kernel.work(~out[kernel], known)) for kernel in able}
            coefficients = fit(
                np.vstack([times_ms[kernel][~out[kernel]] for kernel in able]),
                np.concatenate([kernel.measured_ms[~out[kernel]] for kernel in able]),
            )
            for kernel in able:
                if not out[kernel].any():
                    continue
                at = kernel.positions[out[kernel]]
                base = log_sum(times_ms[kernel], coefficients, floor_ms)
                correction, spread[at] = kernel.corrections.without(out[kernel], kernel.case["log_ms"] - base)
                predicted[at] = base[out[kernel]] + correction
    return rows.assign(predicted=predicted, spread=spread)


class _Owned:
    """The rows of one kernel, and what of its fit is the same whichever of them are held out."""

    def __init__(self, own: pd.DataFrame, rates: Rates) -> None:
        self.precision = own["precision"].iloc[0]
        self.case = arrays(own)
        self.measured_ms = np.exp(self.case["log_ms"])
        self.positions, self.groups, self._own = (own[name].to_numpy() for name in ("position", "group", "own"))
        self.terms = Terms(self.case, self.precision, slab(self.case), rates)
        self.corrections = HeldOut(coordinates(self.case, rates))

    def matrices_beside(self, out: NDArray[np.bool_]) -> int:
        """Number of matrices among the rows that are not held out."""
        return len(set(self._own[~out].tolist()))

    def work(self, seen: NDArray[np.bool_], known: dict[bytes, Array]) -> Work:
        """The work of the kernel, fitted to the rows ``seen``; ``known`` holds the fits of before."""
        case = {name: self.case[name][seen] for name in WORK_COLUMNS}
        return work_of(case, self.precision, self.terms.counted[seen], known)


def _numbered(texts: pd.Series) -> NDArray[np.int64]:
    """A number for each distinct text, which compares faster."""
    return np.asarray(texts.factorize()[0], dtype=np.int64)


def elsewhere(
    rows: Mapping[str, pd.DataFrame],
    rates: Mapping[str, Rates],
    heads: Mapping[str, Mapping[str, Any]],
    units: Mapping[str, str],
    sheets: Mapping[str, Mapping[str, Any]],
    source: str,
    target: str,
) -> pd.DataFrame:
    """The rows of the device ``target`` with ``predicted`` by a model that is trained on those of ``source`` alone.

    ``rows``: device → rows as in :func:`.training.train`; ``rates``: device → its ceilings, of which the model may know
    those of the target; ``units``: kernel → unit that multiplies; ``sheets``: device → document ``device``.
    ``predicted`` is a logarithm, NaN for kernels that the source cannot teach or that the target does not run.
    """
    model = _extrapolated(rows[source], rates, heads, units, sheets, source, target)
    judged, predicted = rows[target].reset_index(drop=True), np.full(len(rows[target]), np.nan)
    for name, own in judged.groupby("kernel", sort=True):
        kernel = model.kernels.get(str(name))
        if kernel is not None:
            case = arrays(own)
            times_ms, at = terms(case, kernel.work, model.rates), coordinates(case, model.rates)
            predicted[own.index.to_numpy()] = kernel.predict(times_ms, at, model.floor_ms)[0]
    return judged.assign(predicted=predicted)


def _extrapolated(
    rows: pd.DataFrame,
    rates: Mapping[str, Rates],
    heads: Mapping[str, Mapping[str, Any]],
    units: Mapping[str, str],
    sheets: Mapping[str, Mapping[str, Any]],
    source: str,
    target: str,
) -> Model:
    """The model of ``source`` for ``target``, as advice for a device of which only the ceilings are known has it."""
    kernels = {
        name: replace(
            kernel,
            unit=units.get(name, ""),
            min_arch=heads[name].get("min_arch"),
            features=tuple(heads[name].get("features", ())),
        )
        for name, kernel in train(rows, heads, rates[source]).items()
    }
    model = Model(source, rates[source], fastest_ms(rows), {}, kernels)
    memory = {"dram_gb_per_s": rates[target].dram_gb_per_s, "l2_gb_per_s": rates[target].l2_gb_per_s}
    return extrapolated(model, sheets[source], {**sheets[target], "measured": memory})


def intervals(judged: pd.DataFrame) -> dict[str, float]:
    """Precision → standard deviations within which :data:`INTERVAL` of the held-out times lie.

    ``judged`` from :func:`held_out`.
    """
    known = judged[judged["predicted"].notna()]
    off = ((known["log_ms"] - known["predicted"]).abs() / known["spread"]).groupby(known["precision"])
    return {str(precision): round(float(value), 3) for precision, value in off.quantile(INTERVAL).items()}
