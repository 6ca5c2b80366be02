"""What an answer consists of: kernels with their predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Kernels whose predicted times are within this factor of the shortest are worth a try as well.
CLOSE = 1.05


@dataclass(frozen=True)
class Choice:
    """One kernel and the time predicted for it."""

    kernel: str
    study: str
    format: str
    dtype: Mapping[str, str]
    """dtypes of ``a``, of the sums (``accumulator``) and of ``c``"""
    layout: Mapping[str, str]
    """``row_major`` or ``column_major`` for ``b`` and ``c``"""
    format_bytes: int
    """bytes of A in this format, estimated without packing"""
    time_ms: float
    low_ms: float
    high_ms: float
    """four of five times that were held out of the training lie between these two, in the mean over all kernels and
    widths; for widths such as 4 and 41, and for most kernels of one column, half to two thirds do; of an extrapolated
    time nothing is known about that"""
    shares: Mapping[str, float]
    """what the time goes into → its fraction of the sum of terms, 0…1, the largest first"""
    preprocess_ms: float | None = None
    """time before the first product: packing and analysing A; None if it is unknown"""
    compile_ms: float | None = None
    """time to compile the kernel, which an installation spends once; None if it is unknown"""
    extrapolated_from: str | None = None
    """the device that was measured, where this one was not: the time follows from ceilings or datasheets of both"""
    pays_back_calls: int | None = None
    """products after which it has taken no longer than the baseline of the advice, preprocessing of both included: 0 if
    from the start, None if never, if something is unknown, and for the baseline itself"""

    @property
    def bound(self) -> str:
        """What most of the time goes into."""
        return next(iter(self.shares))


@dataclass(frozen=True)
class Advice:
    """The kernels that can multiply, by predicted time, and why the first one is advised."""

    device: str
    precision: str
    n: int
    l2: str
    choices: tuple[Choice, ...]
    reason: str
    notes: tuple[str, ...] = ()
    extrapolated_from: str | None = None
    """the device that was measured, where ``device`` was not: times follow from ceilings or datasheets"""
    device_reason: str = ""
    """why it is this device, where nobody named one"""
    baseline: str | None = None
    """the fastest of cuSPARSE's own algorithms by its predicted time; None if none is a candidate"""

    @property
    def kernel(self) -> str:
        """Name of the kernel that is advised."""
        return self.choices[0].kernel

    @property
    def close(self) -> tuple[Choice, ...]:
        """The advised kernel and those whose predicted times are within 5 %: worth a try where one can be made."""
        return tuple(choice for choice in self.choices if choice.time_ms <= CLOSE * self.choices[0].time_ms)
