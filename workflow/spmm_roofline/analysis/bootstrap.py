"""Percentile bootstrap (Efron 1979), the same on every run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

#: Resampled entries that are held at once; bounds memory for collections of thousands of matrices.
_CHUNK = 4_000_000

#: Fewer ratios than these resample to a handful of means, which are no interval.
LEAST = 4

#: Quantiles of the resampled values that are the ends of an interval of 95 %.
_ENDS = (1 - 0.95) / 2, (1 + 0.95) / 2


def geomean_interval(ratios: Iterable[float], key: tuple, resamples: int) -> tuple[float, float, float]:
    """(geometric mean, lower end, upper end) of positive ``ratios``, resampling the ratios ``resamples`` times.

    ``key`` seeds the generator, so that the same table gives the same bytes whatever else is computed around it. The
    ends are NaN for fewer than :data:`LEAST` ratios: nothing is known of their spread.
    """
    import numpy as np

    logs = np.log(np.asarray(list(ratios), dtype=np.float64))
    mean = float(np.exp(logs.mean()))
    if logs.size < LEAST:
        return mean, math.nan, math.nan
    generator = _generator(key)
    step = max(1, _CHUNK // logs.size)
    means = np.concatenate(
        [
            logs.take(generator.integers(0, logs.size, (min(step, resamples - start), logs.size))).mean(axis=1)
            for start in range(0, resamples, step)
        ]
    )
    low, high = np.quantile(means, _ENDS)
    # Rounding may put an end a hair beyond the mean when all ratios are equal.
    return mean, min(float(np.exp(low)), mean), max(float(np.exp(high)), mean)


def summary(ratios: Any, key: tuple, resamples: int) -> dict[str, Any]:
    """Columns of a table about the ``ratios``, float64[matrices]: mean, interval, extremes and how many are above 1."""
    mean, low, high = geomean_interval(ratios, key, resamples)
    return {
        "matrices": len(ratios), "geomean": mean, "geomean_low": low, "geomean_high": high,
        "best": ratios.max(), "worst": ratios.min(), "wins": int((ratios > 1).sum()),
    }  # fmt: skip


def interval(
    values: Any, groups: Any, statistic: Callable[[Any], Any], key: tuple, resamples: int
) -> tuple[float, float]:
    """Ends of the percentile interval of a ``statistic`` of ``values``, float64[cases], resampling whole ``groups``.

    Cases of one group, such as the widths of a matrix, are drawn together, since they are not independent.
    ``statistic`` takes (resamples, cases) with NaN where a resample has fewer, and gives one number a resample, or NaN
    where it is not defined; ``key`` seeds the generator. The statistic of all values lies within the ends.
    """
    import numpy as np

    _, group = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    padded = np.full((len(sizes), sizes.max()), np.nan)
    padded[group[order], np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = values[order]
    generator = _generator(key)
    step = max(1, _CHUNK // padded.size)
    found = np.concatenate(
        [
            statistic(
                padded[generator.integers(0, len(sizes), (min(step, resamples - start), len(sizes)))].reshape(
                    min(step, resamples - start), -1
                )
            )
            for start in range(0, resamples, step)
        ]
    )
    low, high = np.nanquantile(found, _ENDS)
    whole = float(statistic(values[None])[0])
    return min(float(low), whole), max(float(high), whole)


def _generator(key: tuple) -> Any:
    """NumPy's random generator of a key."""
    import numpy as np

    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "little"))
