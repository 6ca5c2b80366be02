"""Bars side by side, a group for each row of a table and a bar for each of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def grouped(ax: Axes, values: pd.DataFrame, styles: Mapping[str, Mapping], tilted: bool = False) -> None:
    """Draw ``values`` upright: its index names the groups, its columns have a colour in ``styles``; NaN leaves a gap.

    Columns of one hue grow paler from the left to the right, as kernels of one study look too much alike in bars.
    """
    import colorsys

    from matplotlib.colors import to_rgb

    colours = [to_rgb(styles[name]["color"]) for name in values.columns]
    hues = [round(12 * colorsys.rgb_to_hls(*colour)[0]) for colour in colours]
    width = 0.84 / max(1, len(values.columns))
    for place, name in enumerate(values.columns):
        alike = hues.count(hues[place])
        # The palest is a third of the hue: still seen on the page.
        faded = 1 - 0.67 * hues[:place].count(hues[place]) / max(2, alike - 1)
        shift = (place - (len(values.columns) - 1) / 2) * width
        known = values[name].notna().to_numpy()
        x = [group + shift for group in range(len(values)) if known[group]]
        ax.bar(
            x,
            values[name][known],
            width=0.92 * width,
            color=[1 - faded * (1 - x) for x in colours[place]],
            label=name,
            linewidth=0,
        )
    turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
    ax.set_xticks(range(len(values)), values.index, **turned)
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.grid(axis="x", visible=False)


def lying(ax: Axes, values: pd.Series, colours: Mapping[str, str], notes: Mapping[str, str]) -> None:
    """Draw ``values`` as bars from the left, the first on top, a note behind each; the longest has an edge.

    The names of ``values`` are the ticks; NaN leaves a gap.
    """
    from .style import INK

    known = values.dropna()
    for place, (name, value) in enumerate(values.items()):
        if name in known.index:
            best = value == known.max()
            ax.barh(place, value, height=0.76, color=colours[name], edgecolor=INK, linewidth=1.3 if best else 0)
            ax.annotate(
                notes[name], (value, place), (3, 0), textcoords="offset points", va="center", fontsize=6.5,
                fontweight="bold" if best else "normal",
            )  # fmt: skip
    ax.set_yticks(range(len(values)), values.index)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.set_xlim(0, 1.32 * known.max() if len(known) else 1)
    ax.grid(axis="y", visible=False)
