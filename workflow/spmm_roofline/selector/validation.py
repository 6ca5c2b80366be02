"""Validation: what the selector predicts for rows that its training did not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .correction import Covariances, HeldOut, coordinates
from .devices import extrapolated
from .model import Model
from .terms import Array, Rates, Terms, log_sum, terms
from .training import ALIKE, LEAST_MATRICES, Stored, arrays, fastest_ms, fit, limit_gflops, slab, train

if TYPE_CHECKING:
    import pandas as pd

#: Fraction of the held-out times that lie within the interval of a prediction.
INTERVAL = 0.8


def held_out(rows: pd.DataFrame, rates: Rates, by: str) -> pd.DataFrame:
    """What :class:`Validation` says of ``rows`` where one value of the column ``by`` after the other is held out."""
    return Validation(rows, rates).held_out(by)


class Validation:
    """Rows, as in :func:`.training.train`, and what of their training is the same whichever of them are held out.

    Precisions do not learn from each other, but for ``floor_ms``, the fastest call: of ``rows`` unless it is given.
    """

    def __init__(self, rows: pd.DataFrame, rates: Rates, floor_ms: float | None = None) -> None:
        self._rows, self._floor_ms = rows, fastest_ms(rows) if floor_ms is None else floor_ms
        corrections: dict[bytes, HeldOut] = {}
        placed = rows.assign(position=np.arange(len(rows))).sort_values("kernel", kind="stable")
        self._alike = [_Alike(own, rates, corrections) for _, own in placed.groupby(list(ALIKE), sort=True)]

    def held_out(self, by: str) -> pd.DataFrame:
        """The rows with ``predicted`` and ``spread``, each from the rows of all other values of column ``by`` alone.

        Both are logarithms, NaN where fewer than :data:`~.training.LEAST_MATRICES` matrices are left to learn from.
        All rows of a matrix have one value in ``by``. Coefficients are fitted anew for each value.
        """
        groups = _numbered(self._rows[by])
        predicted, spread = np.full((2, len(groups)), np.nan)
        for alike in self._alike:
            for kernel, log_ms, deviation in alike.held_out(groups, self._floor_ms):
                predicted[kernel], spread[kernel] = log_ms, deviation
        return self._rows.assign(predicted=predicted, spread=spread)


class _Alike:
    """The rows of kernels that share their coefficients, kernel after kernel."""

    def __init__(self, rows: pd.DataFrame, rates: Rates, corrections: dict[bytes, HeldOut]) -> None:
        case, self._rates = arrays(rows), rates
        self._positions, self._log_ms = rows["position"].to_numpy(), case["log_ms"]
        self._measured_ms = np.exp(self._log_ms)
        self._matrix, self._kernel = _numbered(rows["matrix"]), _numbered(rows["kernel"])
        ends = np.cumsum(np.bincount(self._kernel))
        self._own = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        self._ran = np.zeros((len(ends), self._matrix.max() + 1), dtype=bool)
        self._ran[self._kernel, self._matrix] = True
        owned = [{name: values[own] for name, values in case.items()} for own in self._own]
        self._limits = np.array([limit_gflops(own) for own in owned])[self._kernel]
        strips = np.array([slab(own) for own in owned])[self._kernel]
        self._terms = Terms(case, rows["precision"].iloc[0], strips, rates)
        self._counted = np.zeros((self._ran.shape[1], self._terms.counted.shape[1]))
        self._counted[self._matrix] = self._terms.counted
        kept: dict[bytes, Stored] = {}
        self._bytes, self._slots = (
            [self._once(kept, own, case[name][own]) for own in self._own] for name in ("format_bytes", "slots")
        )
        at = coordinates(case, rates)
        self._corrections = []
        for own in self._own:
            key = at[own].tobytes()
            corrections[key] = corrections.get(key) or HeldOut(at[own])
            self._corrections.append(corrections[key])

    def _once(self, kept: dict[bytes, Stored], own: slice, stored: Array) -> Stored:
        """What the kernel of the rows ``own`` stores, or what is ``kept`` of the same: kernels of one format often
        store the same, up to the digits of the times from which slots are computed."""
        key = self._matrix[own].tobytes() + np.array([f"{value:.7g}" for value in stored]).tobytes()
        if key not in kept:
            kept[key] = Stored(self._terms.counted[own], stored, self._matrix[own])
        return kept[key]

    def held_out(self, groups: NDArray[np.int64], floor_ms: float) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
        """Positions of rows that are held out together with their predictions and standard deviations.

        ``groups``: number of the group of each row by position.
        """
        of_row = groups[self._positions]
        group = np.zeros(self._ran.shape[1], dtype=np.int64)
        group[self._matrix] = of_row
        for value in np.unique(group):
            out = group == value
            able = self._ran[:, ~out].sum(axis=1) >= LEAST_MATRICES
            judged = able & self._ran[:, out].any(axis=1)
            if not judged.any():
                continue
            times_ms = self._times_ms(np.flatnonzero(out))
            seen = able[self._kernel] & (of_row != value)
            coefficients = fit(times_ms[seen], self._measured_ms[seen])
            base = log_sum(times_ms, coefficients, floor_ms, self._rates)
            residuals = self._log_ms - base
            for number in np.flatnonzero(judged):
                own = self._own[number]
                held = of_row[own] == value
                correction, spread = self._corrections[number].without(held, residuals[own])
                yield self._positions[own][held], base[own][held] + correction, spread

    def _times_ms(self, without: NDArray[np.int64]) -> Array:
        """The terms of every row, where the matrices of these numbers do not tell how much the formats store."""
        format_bytes, slots = self._estimated(self._bytes, without), self._estimated(self._slots, without)
        return self._terms.of(format_bytes, slots, self._limits)

    def _estimated(self, stored: Sequence[Stored], without: NDArray[np.int64]) -> Array:
        """What the kernels store, ``stored`` of each, float64[rows]."""
        fitted = {own: own.multiples(without) for own in dict.fromkeys(stored)}
        of_matrix = self._counted @ np.column_stack([fitted[own] for own in stored])
        return np.asarray(of_matrix[self._matrix, self._kernel])


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
    ``predicted`` is a logarithm, NaN for kernels that the source cannot teach or that the target does not run, and for
    widths beyond those that the source measured of a kernel, of which advice says so.
    """
    model = _extrapolated(rows[source], rates, heads, units, sheets, source, target)
    judged, predicted = rows[target].reset_index(drop=True), np.full(len(rows[target]), np.nan)
    covariances = Covariances()
    for name, own in judged.groupby("kernel", sort=True):
        kernel = model.kernels.get(str(name))
        if kernel is not None:
            case = arrays(own)
            times_ms, at = terms(case, kernel.work, model.rates), coordinates(case, model.rates)
            sum_ms = log_sum(times_ms, kernel.coefficients, model.floor_ms, model.rates)
            known = own["n"].between(kernel.widths[0], kernel.widths[-1])
            predicted[own.index.to_numpy()] = np.where(known, sum_ms + covariances.mean(kernel.correction, at), np.nan)
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
