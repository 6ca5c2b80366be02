"""Bars side by side, a group for each row of a table and a bar for each of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch


#: Part of the distance between two groups that bars cover.
COVERED = 0.84


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

    from .style import HUES

    found: list = []
    for colour in colours:
        candidates = [to_rgb(colour), *map(to_rgb, HUES)]
        found.append(next((own for own in candidates if all(math.dist(own, x) > 0.2 for x in found)), candidates[0]))
    return found


def lying(ax: Axes, values: pd.Series, colours: Mapping[str, str], notes: Mapping[str, str]) -> None:
    """Draw ``values`` as horizontal bars, the first on top, each with a note at its end; the longest has an edge.

    The index of ``values`` labels the ticks; NaN leaves a gap.
    """
    from .style import INK

    known = values.dropna()
    for position, (name, value) in enumerate(values.items()):
        if name in known.index:
            best = value == known.max()
            ax.barh(position, value, height=0.76, color=colours[name], edgecolor=INK, linewidth=1.3 if best else 0)
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
    """Draw a horizontal bar for each of ``kernels``, the first on top, divided into shares (0…1) of its ``rows``.

    The column ``part`` says to which share a row counts; ``colours`` has them from left to right. ``weights`` is the
    column of what a row counts; without it every row counts once.
    """
    import pandas as pd
    import seaborn as sns

    own = rows.assign(kernel=pd.Categorical(rows["kernel"], kernels))
    sns.histplot(
        own, y="kernel", hue=part, hue_order=[*colours][::-1], palette=dict(colours), weights=weights, multiple="fill",
        shrink=0.8, linewidth=0, alpha=1, legend=False, ax=ax,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(len(kernels) - 0.4, -0.6), xlabel="", ylabel="")
    ax.set_yticks(range(len(kernels)), kernels)
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)


def key(colours: Mapping[str, str]) -> list[Patch]:
    """Handles of a legend for the shares of :func:`divided`."""
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=name) for name, colour in colours.items()]
