"""Bars side by side, a group for each row of a table and a bar for each of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import HUES, INK, PAPER

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch


#: Part of the distance between two groups that bars cover.
COVERED = 0.84
#: Edge of a segment, in the colour of the page, from which every segment stands out.
SEGMENT: dict[str, Any] = {"edgecolor": PAPER, "linewidth": 0.5}
#: Look of the value of a paper above our bar.
PUBLISHED: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 13, "markeredgewidth": 2, "color": INK}


def grouped(ax: Axes, values: pd.DataFrame, styles: Mapping[str, Mapping], tilted: bool = False) -> None:
    """Draw ``values`` as vertical bars: its index names the groups, its columns have a colour in ``styles``.

    NaN leaves a gap. A bar has no marker, so a colour too close to another column's is replaced by an unused hue.
    """
    colours = _distinct([styles[name]["color"] for name in values.columns])
    width = COVERED / max(1, len(values.columns))
    for position, name in enumerate(values.columns):
        known = values[name].dropna()
        x = [middle(values, group, name) for group in known.index]
        ax.bar(
            x,
            known,
            width=0.92 * width,
            color=colours[position],
            label=name,
            linewidth=0,
        )
    turned: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
    ax.set_xticks(range(len(values)), values.index, **turned)
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.grid(axis="x", visible=False)


def middle(values: pd.DataFrame, group: Any, name: str) -> float:
    """Where the middle of a bar of :func:`grouped` stands."""
    number, count = list(values.columns).index(name), len(values.columns)
    return list(values.index).index(group) + (number - (count - 1) / 2) * COVERED / count


def _distinct(colours: Sequence) -> list[tuple[float, float, float]]:
    """``colours``, with each one that is too close to an earlier one replaced."""
    import math

    from matplotlib.colors import to_rgb

    found: list = []
    for colour in colours:
        candidates = [to_rgb(colour), *map(to_rgb, HUES)]
        found.append(next((own for own in candidates if all(math.dist(own, x) > 0.2 for x in found)), candidates[0]))
    return found


def lying(ax: Axes, values: pd.Series, colours: Mapping[str, str], notes: Mapping[str, str]) -> None:
    """Draw ``values`` as horizontal bars, the first on top, each with a note at its end; the longest has an edge.

    The index of ``values`` labels the ticks; NaN leaves a gap.
    """
    known = values.dropna()
    for position, (name, value) in enumerate(values.items()):
        if name in known.index:
            best = value == known.max()
            look: dict[str, Any] = {"color": colours[name], "edgecolor": INK, "linewidth": 1.3 if best else 0}
            ax.barh(position, value, height=0.76, label=name, **look)
            ax.annotate(
                notes[name], (value, position), (3, 0), textcoords="offset points", va="center", fontsize=6.5,
                fontweight="bold" if best else "normal",
            )  # fmt: skip
    ax.set_yticks(range(len(values)), values.index)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.set_xlim(0, 1.32 * known.max() if len(known) else 1)
    ax.grid(axis="y", visible=False)


def divided(
    ax: Axes,
    rows: pd.DataFrame,
    part: str,
    colours: Mapping[str, str],
    kernels: Sequence[str],
    weights: str | None = None,
) -> None:
    """Draw a horizontal bar for each of ``kernels``, the first on top, divided into per cent of its ``rows``.

    The column ``part`` says to which share a row counts; ``colours`` has them from left to right. ``weights`` is the
    column of what a row counts; without it every row counts once.
    """
    counted = rows.groupby(["kernel", part])
    counts = (counted[weights].sum() if weights else counted.size()).unstack().astype(float)
    shares = counts.mul(100 / counts.sum(axis=1), axis=0).reindex(index=kernels, columns=[*colours]).fillna(0)
    stacked(ax, shares, colours)
    ax.set(xlim=(0, 100), ylim=(len(kernels) - 0.4, -0.6))
    ax.set_yticks(range(len(kernels)), kernels)
    ax.tick_params(axis="y", length=0)


def stacked(ax: Axes, shares: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw a horizontal bar for each row of ``shares``, the first at 0, with a segment for each column."""
    left = 0.0
    for name, widths in shares.items():
        colour = colours[str(name)]
        ax.barh(range(len(shares)), widths, left=left, height=0.8, color=colour, label=name, **SEGMENT)
        left = left + widths
    ax.grid(visible=False)


def key(colours: Mapping[str, str]) -> list[Patch]:
    """Handles of a legend for the shares of :func:`divided`."""
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=name) for name, colour in colours.items()]
