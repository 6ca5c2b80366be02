"""Numbers as text: three significant digits at most, with their unit."""

from __future__ import annotations

import math

PRECISIONS = {
    "float8_e4m3": "FP8",
    "float16": "FP16",
    "bfloat16": "BF16",
    "tf32": "TF32",
    "float32": "FP32",
    "float64": "FP64",
}


def significant(value: float | None, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits and no exponent; an en dash where there is no value."""
    if value is None or value != value:
        return "–"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def times(ratio: float | None) -> str:
    """A speed-up: ``1.35×``."""
    return significant(ratio) + "×" if ratio is not None and ratio == ratio else "–"


def percent(fraction: float | None) -> str:
    """A fraction of 0…1 (or above) as whole per cent; small fractions keep one decimal, and only exact values read as
    0 % or 100 %."""
    if fraction is None or fraction != fraction:
        return "–"
    if 0 < fraction < 0.0005:
        return "<0.1 %"
    if 0.995 <= fraction < 1:
        return f"{min(99.9, 100 * fraction):.1f} %"
    return f"{100 * fraction:.1f} %" if 0 < fraction < 0.0995 else f"{100 * fraction:.0f} %"


def rate(gflops: float | None) -> str:
    """A rate given in GFLOP/s in the unit that keeps it short."""
    if gflops is None or gflops != gflops:
        return "–"
    return f"{significant(gflops / 1000)} TFLOP/s" if gflops >= 1000 else f"{significant(gflops)} GFLOP/s"


def bandwidth(gb_per_s: float | None) -> str:
    """A bandwidth given in GB/s."""
    if gb_per_s is None or gb_per_s != gb_per_s:
        return "–"
    return f"{significant(gb_per_s / 1000)} TB/s" if gb_per_s >= 1000 else f"{significant(gb_per_s)} GB/s"


def duration(ms: float | None) -> str:
    """A time given in ms; below a tenth of it in µs."""
    if ms is None or ms != ms:
        return "–"
    return f"{significant(1000 * ms)} µs" if ms < 0.1 else f"{significant(ms)} ms"


def size(count: float | None, unit: str = "B") -> str:
    """Bytes with a decimal prefix."""
    if count is None or count != count:
        return "–"
    for prefix in ("", "k", "M", "G"):
        if abs(count) < 1000:
            return f"{significant(count)} {prefix}{unit}"
        count /= 1000
    return f"{significant(count)} T{unit}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 matrix``, ``12 matrices``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(items: list[str]) -> str:
    """``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"
