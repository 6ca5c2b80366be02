"""Ceilings in a roofline: slopes of memory and levels of computation, measured or from the datasheet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .labels import HALO
from .numbers import PRECISIONS, bandwidth, rate
from .style import INK, call

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: Dtype of A → units on which its kernels multiply, as the ceilings name them.
UNITS = {
    "float8_e4m3": ("float8_e4m3_tensor", "float8_e4m3_tensor_sparse24"),
    "float16": ("float16_tensor", "float16_tensor_sparse24", "float32_cuda"),
    "bfloat16": ("bfloat16_tensor", "bfloat16_tensor_sparse24", "float32_cuda"),
    "tf32": ("tf32_tensor", "tf32_tensor_sparse24"),
    "float32": ("float32_cuda",),
    "float64": ("float64_tensor", "float64_cuda"),
}
#: Level of memory → its label and its line style.
SLOPES = {"dram": ("DRAM", "solid"), "l2": ("L2", "dashdot")}


@dataclass(frozen=True)
class Level:
    """A ceiling of computation in GFLOP/s, and whether it was measured."""

    label: str
    value: float
    measured: bool


def levels(ceilings: pd.DataFrame, *precisions: str) -> list[Level]:
    """Ceilings of computation for these dtypes of A, the lowest first; for 2:4 products only measured ones."""
    units = {unit for precision in precisions for unit in UNITS[precision]}
    found = []
    for row in ceilings[ceilings["ceiling"].isin(units)].itertuples():
        measured = row.measured == row.measured
        if measured or not row.ceiling.endswith("_sparse24"):
            found.append(Level(_label(row.ceiling, row.through), row.measured if measured else row.datasheet, measured))
    return sorted(found, key=lambda level: level.value)


def _label(unit: str, through: str) -> str:
    dtype, on_tensor_cores, sparse = unit.removesuffix("_cuda").partition("_tensor")
    if not on_tensor_cores:
        return f"{PRECISIONS[dtype]} CUDA cores"
    return f"{PRECISIONS[dtype]} tensor{' 2:4' if sparse else ''}{f', {through}' if through else ''}"


def slopes(ceilings: pd.DataFrame) -> dict[str, float]:
    """Level of memory → highest measured rate in GB/s, for the levels in :data:`SLOPES`."""
    rows = ceilings[ceilings["level"].isin(SLOPES) & ceilings["measured"].notna()]
    return rows.groupby("level")["measured"].max().to_dict()


def highest(across: list[Level], low: float, top: float) -> float:
    """Upper limit of an axis that begins at ``low`` and shows ``top`` and the labels of all levels."""
    high = 2 * top
    for _ in range(20):
        gap = _gap(low, high)
        needed = gap * max(_label_heights([level.value for level in across], gap), default=0)
        if needed <= high:
            break
        high = 1.1 * needed
    return high


def lines(ax: Axes, shown: dict[str, float], across: list[Level], top: float) -> list[Line2D]:
    """Draw slopes and levels into axes whose limits are set; ``top``: where the slopes end, in GFLOP/s.

    Levels have labels. Returns the slopes for :func:`name_slopes`, because labels along them would lie on marks.
    """
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    first = max(shown.values(), default=math.inf)
    for level in across:
        dashes = "solid" if level.measured else (0, (5, 3))
        start = max(level.value / first, left) if shown else left
        call(ax.hlines(level.value, start, right, color=INK, linewidth=0.9, linestyle=dashes), _told(level))
    heights = _label_heights([level.value for level in across], _gap(low, high))
    for level, label_height in zip(across, heights, strict=True):
        # Above slopes and marks, which cross some labels.
        ax.annotate(
            _told(level), (right, label_height), (-2, 3.2), textcoords="offset points", ha="right", fontsize=7,
            bbox=HALO, zorder=5,
        )  # fmt: skip
    drawn: list[Line2D] = []
    for name, gb_per_s in shown.items():
        end = min(top / gb_per_s, right)
        label, line = f"{SLOPES[name][0]} {bandwidth(gb_per_s)}", SLOPES[name][1]
        ends = [gb_per_s * left, gb_per_s * end]
        drawn += ax.plot([left, end], ends, color=INK, linewidth=1.2, linestyle=line, label=label)
    return drawn


def name_slopes(figure: Figure, slopes: list[Line2D]) -> None:
    """Name ``slopes`` above all axes, where a narrow screen shows them first."""
    if slopes:
        figure.legend(handles=slopes, loc="outside upper left", ncols=len(slopes), handlelength=3)


def _told(level: Level) -> str:
    return f"{level.label}: {rate(level.value)}"


def _gap(low: float, high: float) -> float:
    """Smallest ratio of two values whose labels do not overlap."""
    return (high / low) ** 0.045


def _label_heights(values: list[float], gap: float) -> list[float]:
    """Heights of the labels of rising ``values`` on a logarithmic axis.

    The labels of close lines are stacked above the last of these lines; a line within reach of the stack below it
    counts as close.
    """
    heights: list[float] = []
    start = 0
    for number, value in enumerate(values):
        reached = value * gap ** (number + 1 - start)
        if number + 1 == len(values) or values[number + 1] >= reached:
            heights += [value * gap**step for step in range(number + 1 - start)]
            start = number + 1
    return heights
