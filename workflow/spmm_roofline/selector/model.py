"""A trained model of one device: the sum of terms times coefficients, corrected by what similar cases left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .correction import Correction, coordinates
from .preprocessing import Preprocessing
from .terms import Array, Rates, Work, log_sum, terms

#: Where N lies further than this factor outside the widths that a kernel was measured with, its time would be a guess.
FAR_WIDTH = 4


@dataclass(frozen=True)
class Kernel:
    """What is known of one kernel: its head in short, its coefficients, and what they left over on its cases."""

    name: str
    study: str
    format: str
    dtype: Mapping[str, str]
    """dtypes of ``a``, ``accumulator`` and ``c``"""
    layout: Mapping[str, str]
    """``row_major`` or ``column_major`` for ``b`` and ``c``"""
    requires: Mapping[str, int]
    """``m``, ``n`` or ``k`` → the number that must divide it"""
    kinds: int
    """kinds of matrices that it was measured on"""
    work: Work = field(repr=False)
    coefficients: Array
    """float64[len(TERMS)], in multiples of the time at the ceiling"""
    widths: tuple[int, ...]
    """values of n that it was measured with, ascending"""
    l2: tuple[str, ...]
    """states of L2 that it was measured in, ``cold`` or ``warm``"""
    most: Mapping[str, int]
    """``m`` and ``nnz`` of the largest matrices that it was measured on"""
    correction: Correction = field(repr=False)
    unit: str = ""
    """unit that multiplies, as ``peak_gflops`` of a datasheet names it; empty where it is unknown"""
    min_arch: str | None = None
    features: tuple[str, ...] = ()
    """instruction families that it uses"""
    limits: Mapping[str, int] = field(default_factory=dict)
    """``m``, ``n`` or ``k`` → the most that its grid takes, where that is limited"""
    one_column: bool = False
    """whether it multiplies one column of B after the other"""
    own_memory: bool = False
    """whether B and C must lie in memory of its own layout, which :class:`spmm_roofline.SpMM` refuses"""
    baseline: bool = False
    """whether it is one of cuSPARSE's own algorithms, against which others must pay back what they prepare"""
    preprocessing: Preprocessing | None = None
    compile_ms: float | None = None
    """time to compile it, once for each installation"""
    extrapolated_from: str | None = None
    """the device that it was measured on, where that is another one"""

    def reaches(self, n: int) -> bool:
        """Whether ``n`` lies between the measured widths, or within :data:`FAR_WIDTH` of their ends."""
        return self.widths[0] / FAR_WIDTH <= n <= self.widths[-1] * FAR_WIDTH

    def predict(self, times_ms: Array, at: Array, floor_ms: float, rates: Rates) -> tuple[Array, Array]:
        """Logarithm of the time in ms and its standard deviation, float64[cases] each.

        ``times_ms`` from :func:`.terms.terms` and ``at`` from :func:`.correction.coordinates`, of the same cases.
        """
        correction, spread = self.correction.at(at)
        return log_sum(times_ms, self.coefficients, floor_ms, rates) + correction, spread


@dataclass(frozen=True)
class Model:
    """Everything that a prediction for one device needs."""

    device: str
    rates: Rates
    floor_ms: float
    """fastest call that was measured"""
    intervals: Mapping[str, float]
    """precision → standard deviations within which four of five held-out times lie"""
    kernels: Mapping[str, Kernel]
    extrapolated_from: str | None = None
    """the device that was measured, where this one was not"""
    said: str = ""
    """why it is this device, where nobody named it"""
    others: Mapping[str, Kernel] = field(default_factory=dict, repr=False)
    """kernels as other devices were measured, extrapolated"""

    def for_width(self, n: int) -> Model:
        """The model in which kernels of other devices stand for those that were not measured near ``n`` columns."""
        here = {name for name, kernel in self.kernels.items() if kernel.reaches(n)}
        lacking = {name: other for name, other in self.others.items() if name not in here and other.reaches(n)}
        return replace(self, kernels={**self.kernels, **lacking})

    def predict(self, kernel: Kernel, case: Mapping[str, Any]) -> tuple[Array, Array, Array]:
        """Times in ms [cases], the factors of their interval [cases], and the terms in ms [cases, len(TERMS)].

        ``case`` as in :func:`.terms.terms`. The true time lies between time / factor and time · factor in four of five
        cases. The terms are multiplied by their coefficients.
        """
        times_ms = terms(case, kernel.work, self.rates)
        log_ms, spread = kernel.predict(times_ms, coordinates(case, self.rates), self.floor_ms, self.rates)
        factors = np.exp(spread * self.intervals.get(kernel.dtype["a"], 1.0))
        return np.exp(log_ms), factors, times_ms * kernel.coefficients
