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

    seen: dict[int, int] = {}
    width = 0.84 / max(1, len(values.columns))
    for place, name in enumerate(values.columns):
        red, green, blue = to_rgb(styles[name]["color"])
        hue = round(12 * colorsys.rgb_to_hls(red, green, blue)[0])
        faded = 0.62 ** seen.setdefault(hue, 0)
        seen[hue] += 1
        shift = (place - (len(values.columns) - 1) / 2) * width
        known = values[name].notna().to_numpy()
        x = [group + shift for group in range(len(values)) if known[group]]
        ax.bar(
            x,
            values[name][known],
            width=0.92 * width,
            color=[1 - faded * (1 - x) for x in (red, green, blue)],
            label=name,
            linewidth=0,
        )
    turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
    ax.set_xticks(range(len(values)), values.index, **turned)
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.grid(axis="x", visible=False)
