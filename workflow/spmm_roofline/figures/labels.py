"""Ticks and labels that do not overlap: round numbers on logarithmic axes, names at the ends of lines, long names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import PAPER, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Box behind a label that stands among lines and marks.
HALO: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8, "alpha": 0.8}


def short_names(names: Iterable[str], most: int = 40) -> list[str]:
    """Names as labels: in a name longer than ``most`` letters an ellipsis replaces the middle. Different names stay
    different. The words that all long names end with are dropped first, except for the last letters of the name."""
    names = list(names)
    long = list(dict.fromkeys(name for name in names if len(name) > most))
    words = zip(*(reversed(name.split("-")) for name in long), strict=False)
    shared = itertools.takewhile(lambda same: len(set(same)) == 1, words) if len(long) > 1 else ()
    end = "".join(f"-{same[0]}" for same in reversed([*shared]))
    shortened = {}
    for name in long:
        head = name.removesuffix(end)
        tail = re.findall(r"[^-_]{0,8}$", name)[0]
        half = most // 2
        fits = end and len(head) + 2 + len(tail) <= most
        shortened[name] = f"{head}-…{tail}" if fits else f"{name[:half]}…{name[1 - half :]}"
    labels = [shortened.get(name, name) for name in names]
    return labels if len({*labels}) == len({*names}) else names


def spread(heights: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Heights of labels, at least ``gap`` apart and as close to ``heights`` as the gap and the limits allow.

    Of equal heights the first is on top. If they do not all fit, labels go below ``low``.
    """
    order = sorted(range(len(heights)), key=lambda at: (heights[at], -at))
    # Labels that would overlap form a run, centred on the mean of the heights that they want.
    runs: list[tuple[float, list[int]]] = []
    for at in order:
        bottom, members = heights[at], [at]
        while runs and runs[-1][0] + gap * len(runs[-1][1]) > bottom:
            below, others = runs.pop()
            wanted = below * len(others) + (bottom - gap * len(others)) * len(members)
            members = others + members
            bottom = wanted / len(members)
        bottom = min(max(bottom, low), high - gap * (len(members) - 1))
        runs.append((bottom, members))
    placed = list(heights)
    above = math.inf
    for bottom, members in reversed(runs):
        bottom = min(bottom, above - gap * len(members))
        above = bottom
        for rank, at in enumerate(members):
            placed[at] = bottom + gap * rank
    return placed


def label_ends(ax: Axes, ends: Mapping[str, float], looks: Mapping[str, Mapping], height: float) -> None:
    """Write the name of each line at the right edge of the axes, near the line's end and without overlap. The axes are
    about ``height`` inches high and their limits are final."""
    gap = 9.5 / (72 * height)
    ax.get_ylim()  # or the transformation would not know them yet
    scale = ax.get_yaxis_transform() + ax.transAxes.inverted()
    wanted = [scale.transform((1, end))[1] for _, end in ends.items()]
    for (name, _), end, at in zip(ends.items(), wanted, spread(wanted, gap, 0, 1), strict=True):
        colour = looks[name]["color"]
        ax.annotate(
            name, (1, end), (1.025, at), "axes fraction", va="center", fontsize=7.5, color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": colour, "relpos": (0, 0.5), "shrinkB": 0},
        )  # fmt: skip


def short(value: float) -> str:
    """A round number as a tick: 0.5, 20, 5k, 2M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}" if value >= 1 else f"{value:.3g}"


def plain_log(axis, room: int = 7, ticks: Iterable[float] | None = None) -> None:
    """Plain numbers on a logarithmic axis whose limits are final: ``ticks``, or the finest steps that have at most
    ``room`` ticks and whose labels do not overlap."""
    low, high = sorted(axis.get_view_interval())
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = []
    for steps in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        choices.append([step * 10.0**power for power in powers for step in steps])
    choices += [[10.0**power for power in powers if power % apart == 0] for apart in (2, 3, 4)]
    inside = [[value for value in choice if low <= value <= high] for choice in choices]
    few = [choice for choice in inside if len(choice) <= room]
    if few and len(few[0]) < 2 and ticks is None:
        from matplotlib.ticker import MaxNLocator

        # Less than a step apart, both ends are on an axis that is as good as linear.
        few = [[at for at in MaxNLocator(room, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high) if low <= at <= high]]
    fitting(axis, [list(ticks)] if ticks is not None else few or inside[-1:])


def fitting(axis, choices: Sequence[Sequence[float]], text=short) -> None:
    """Ticks on a logarithmic axis: the first of ``choices`` (finest first) whose labels do not overlap, else the last.

    Only the layout knows the length of the axis, so the choice is made when the figure is drawn.
    """
    from matplotlib.axis import Axis
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    class Fitting(FixedLocator):
        def __call__(self):
            assert isinstance(self.axis, Axis), "set_major_locator has set it"
            figure = self.axis.get_figure(root=True)
            assert figure is not None, "ticks are asked for when a figure is drawn"
            box, (low, high) = self.axis.axes.bbox, sorted(self.axis.get_view_interval())
            points = 72 / figure.dpi
            at = low, high, int(points * (box.height if upright else box.width))
            if at not in known:
                known[at] = _fit(choices, *at, None if upright else text)
            return known[at]

    known: dict[tuple, list[float]] = {}  # Matplotlib asks repeatedly, once for each axes that shares this axis.
    upright = axis.axis_name == "y"
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_major_locator(Fitting(list(choices[-1])))
    axis.set_minor_locator(NullLocator())


def _fit(choices: Sequence[Sequence[float]], low: float, high: float, length: float, text) -> list[float]:
    """The first of ``choices`` whose labels do not overlap on an axis ``length`` points long. ``text`` formats a label;
    it is None for a vertical axis."""
    size, gap, beyond = RC["xtick.labelsize"], 4, 5.5
    for choice in choices:
        end, kept, apart = -math.inf, [], True
        for value in choice:
            at = length * math.log(value / low) / math.log(high / low)
            half = size / 2 if text is None else 0.32 * size * len(text(value))
            if text is not None and (at - half < -beyond or at + half > length + beyond):
                continue  # The label would overlap the neighbouring axes.
            apart = apart and at - half >= end + gap
            end = at + half
            kept.append(value)
        if apart and kept:
            return kept
    return kept[:1]
