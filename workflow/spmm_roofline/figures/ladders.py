"""Kernels of a study in the order in which one builds on the other, and shades that tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def ordered(ladder: pd.DataFrame, kernels: Iterable[str]) -> list[str]:
    """``kernels`` by the number of rungs below each in the table ``ladder``, those of one height by their names."""
    after = dict(zip(ladder["kernel"], ladder["after"], strict=True))

    def height(kernel: str) -> int:
        seen = [kernel]
        while (below := after.get(seen[-1])) is not None and below not in seen:
            seen.append(below)
        return len(seen)

    return sorted(set(kernels), key=lambda kernel: (height(kernel), kernel))


def shaded(styles: Mapping[str, Mapping], kernels: Iterable[str], study: str) -> dict[str, dict]:
    """Looks of ``kernels`` of one study as lines beside each other: from a dark tone of its hue to a pale one."""
    import seaborn as sns
    from matplotlib.colors import to_rgb

    from .style import OTHER, STUDIES

    hue = to_rgb(STUDIES.get(study, OTHER))
    dark, pale = [0.7 * x for x in hue], [1 - 0.5 * (1 - x) for x in hue]
    kernels = list(kernels)
    shades = sns.blend_palette([dark, hue, pale], max(2, len(kernels)))
    return {kernel: {**styles[kernel], "color": shade} for kernel, shade in zip(kernels, shades, strict=False)}
