"""What the sum of terms leaves over, carried from measured cases to similar ones by a Gaussian process.

Rasmussen & Williams 2006: the process is algorithm 2.1 on the logarithm of measured over predicted time, its covariance
the Matérn function of equation 4.17. Far from all measured cases the correction is near zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .terms import Array, Rates, columns

# Variances of the logarithm: of an error common to all cases of a kernel, of one that similar cases have in common, and
# of one measurement.
_COMMON, _SIMILAR, _NOISE = 0.02, 0.1, 0.002
#: Distance of :func:`coordinates` at which two cases have little in common.
_LENGTH = 2.5


def coordinates(case: Mapping[str, Any], rates: Rates) -> Array:
    """Coordinates in which similar cases are close, float64[cases, 12]: logarithms and fractions of spread near 1.

    ``case`` as in :func:`.terms.terms`.
    """
    get = columns(case)
    n, mean = get("n"), get("row_length_mean")
    b = get("nonempty_columns") * n * 4
    return np.column_stack(
        [
            np.log(n),
            np.log(1 + get("nnz")) / 2.5,
            np.log(get("m")) / 2,
            np.log(1 + mean) / 1.3,
            np.log(1 + get("row_length_std") / np.maximum(mean, 0.1)) * 2,
            np.log(1 + get("row_length_max")) / 1.5,
            np.log(get("tile_fill_16x16_fraction") + 1e-3) / 1.2,
            np.log(get("alpha_fraction") + 1e-3) / 0.8,
            get("tile_24_16x32_fraction") * 2,
            get("empty_rows") / get("m") * 3,
            b / (b + rates.l2_bytes) * 2,
            get("warm"),
        ]
    )


def _covariance(one: Array, other: Array) -> Array:
    """Covariance of the corrections at two sets of coordinates, float64[len(one), len(other)]."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    distance = np.sqrt(3 * np.maximum(squares, 0)) / _LENGTH
    found: Array = _COMMON + _SIMILAR * (1 + distance) * np.exp(-distance)
    return found


def _measured(coordinates: Array) -> Array:
    """Covariance of measured corrections, noise included, float64[cases, cases]."""
    return _covariance(coordinates, coordinates) + _NOISE * np.eye(len(coordinates))


class Covariances:
    """Covariances of cases, each computed once: kernels that ran on the same cases share them."""

    def __init__(self) -> None:
        self._factors: dict[bytes, Any] = {}
        self._between: dict[tuple[bytes, bytes], Array] = {}

    def solve(self, coordinates: Array, right: Array) -> Array:
        """The covariance of measured cases at ``coordinates``, inverted, times ``right``."""
        from scipy.linalg import cho_factor, cho_solve

        of = coordinates.tobytes()
        if of not in self._factors:
            self._factors[of] = cho_factor(_measured(coordinates), lower=True)
        solved: Array = cho_solve(self._factors[of], right)
        return solved

    def mean(self, correction: Correction, coordinates: Array) -> Array:
        """Correction of the logarithm at ``coordinates``, as :meth:`Correction.at` has it beside its deviation."""
        of, at = correction.coordinates.tobytes(), coordinates.tobytes()
        if (at, of) not in self._between:
            self._between[at, of] = _covariance(coordinates, correction.coordinates)
        mean: Array = self._between[at, of] @ self.solve(correction.coordinates, correction.residuals)
        return mean


@dataclass(frozen=True)
class Correction:
    """The corrections of one kernel's measured cases."""

    coordinates: Array
    """float64[cases, 12], from :func:`coordinates`"""
    residuals: Array = field(repr=False)
    """float64[cases], logarithm of measured time over the sum of terms"""
    covariances: Covariances = field(default_factory=Covariances, repr=False, compare=False)
    """those of a device, so that kernels with the same cases share their factor, which takes long to compute"""

    @cached_property
    def _weights(self) -> Array:
        return self.covariances.solve(self.coordinates, self.residuals)

    def at(self, coordinates: Array) -> tuple[Array, Array]:
        """Correction of the logarithm at ``coordinates`` and its standard deviation, float64[cases] each."""
        near = _covariance(coordinates, self.coordinates)
        known = np.einsum("ij,ji->i", near, self.covariances.solve(self.coordinates, near.T))
        spread = np.sqrt(np.maximum(_COMMON + _SIMILAR + _NOISE - known, _NOISE))
        return near @ self._weights, spread


class HeldOut:
    """Corrections of measured cases, each group predicted from all other groups.

    A group is taken out of the inverse covariance of all cases, which is computed once (Rasmussen & Williams 2006,
    equations 5.10 to 5.12, for blocks). Neither depends on the times: kernels that ran on the same cases share it.
    """

    def __init__(self, coordinates: Array) -> None:
        self._inverse = np.linalg.inv(_measured(coordinates))
        self._known: dict[bytes, tuple[NDArray[np.int64], Array]] = {}

    def without(self, group: NDArray[np.bool_], residuals: Array) -> tuple[Array, Array]:
        """Correction and standard deviation of the cases of ``group``, a mask of all cases, from the cases beside it.

        ``residuals``: float64[cases], those of the group itself cancel out of the correction.
        """
        if (key := group.tobytes()) not in self._known:
            own = np.flatnonzero(group)
            self._known[key] = own, np.linalg.inv(self._inverse[np.ix_(own, own)])
        own, covariance = self._known[key]
        correction = residuals[own] - covariance @ (self._inverse[own] @ residuals)
        return np.asarray(correction), np.asarray(np.sqrt(np.diag(covariance)))
