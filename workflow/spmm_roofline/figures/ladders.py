"""Kernels of a study in the order in which they build on each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def ordered(ladder: pd.DataFrame, kernels: Iterable[str]) -> list[str]:
    """``kernels`` by the number of rungs below each in the table ``ladder``, those of equal height by name."""
    after = dict(zip(ladder["kernel"], ladder["after"], strict=True))

    def height(kernel: str) -> int:
        seen = [kernel]
        while (below := after.get(seen[-1])) is not None and below not in seen:
            seen.append(below)
        return len(seen)

    return sorted(set(kernels), key=lambda kernel: (height(kernel), kernel))
