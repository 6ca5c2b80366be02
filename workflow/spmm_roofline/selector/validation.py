"""Validation: what the selector predicts for rows that its training did not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .correction import HeldOut, coordinates
from .terms import Rates, log_sum, terms
from .training import ALIKE, LEAST_MATRICES, arrays, fastest_ms, shared_coefficients, work_of

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
    predicted, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for _, alike in rows.groupby(list(ALIKE), sort=True):
        precision = alike["precision"].iloc[0]
        owned = {name: own for name, own in alike.groupby("kernel", sort=True)}
        cases = {name: arrays(own) for name, own in owned.items()}
        corrections = {name: HeldOut(coordinates(case, rates)) for name, case in cases.items()}
        for value in alike[by].unique():
            out = {name: own[by].to_numpy() == value for name, own in owned.items()}
            able = [name for name, own in owned.items() if own["matrix"][~out[name]].nunique() >= LEAST_MATRICES]
            if not any(out[name].any() for name in able):
                continue
            seen = {name: {key: values[~out[name]] for key, values in cases[name].items()} for name in able}
            work = {name: work_of(case, precision) for name, case in seen.items()}
            coefficients = shared_coefficients({name: terms(seen[name], work[name], rates) for name in able}, seen)
            for name in able:
                if not out[name].any():
                    continue
                at = rows.index.get_indexer(owned[name].index)[out[name]]
                base = log_sum(terms(cases[name], work[name], rates), coefficients, floor_ms)
                correction, spread[at] = corrections[name].without(out[name], cases[name]["log_ms"] - base)
                predicted[at] = base[out[name]] + correction
    return rows.assign(predicted=predicted, spread=spread)


def intervals(judged: pd.DataFrame) -> dict[str, float]:
    """Precision → standard deviations within which :data:`INTERVAL` of the held-out times lie.

    ``judged`` from :func:`held_out`.
    """
    known = judged[judged["predicted"].notna()]
    off = ((known["log_ms"] - known["predicted"]).abs() / known["spread"]).groupby(known["precision"])
    return {str(precision): round(float(value), 3) for precision, value in off.quantile(INTERVAL).items()}
