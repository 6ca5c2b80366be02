"""Percentile bootstrap of a geometric mean (Efron 1979), the same on every run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

#: Resampled entries that are held at once; bounds memory for collections of thousands of matrices.
_CHUNK = 4_000_000

#: Fewer ratios than these resample to a handful of means, which are no interval.
LEAST = 4


def geomean_interval(
    ratios: Iterable[float], key: tuple, resamples: int, level: float = 0.95
) -> tuple[float, float, float]:
    """(geometric mean, lower end, upper end) of positive ``ratios``, resampling the ratios ``resamples`` times.

    ``key`` seeds the generator, so that the same table gives the same bytes whatever else is computed around it. The
    ends are NaN for fewer than :data:`LEAST` ratios: nothing is known of their spread.
    """
    import numpy as np

    logs = np.log(np.asarray(list(ratios), dtype=np.float64))
    mean = float(np.exp(logs.mean()))
    if logs.size < LEAST:
        return mean, math.nan, math.nan
    seed = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "little")
    generator = np.random.default_rng(seed)
    step = max(1, _CHUNK // logs.size)
    means = np.concatenate(
        [
            logs[generator.integers(0, logs.size, (min(step, resamples - start), logs.size))].mean(axis=1)
            for start in range(0, resamples, step)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # Rounding may put an end a hair beyond the mean when all ratios are equal.
    return mean, min(float(np.exp(low)), mean), max(float(np.exp(high)), mean)
