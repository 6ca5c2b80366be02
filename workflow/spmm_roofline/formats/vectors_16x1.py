"""Windows of sixteen rows: their non-empty columns, sixteen to a tile.

Two 8-wide operands of mma are multiplied with the same rows of B, so that fewer rows of B are read than with windows of
eight rows where neighbouring rows have columns in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .windows import Windows


@dataclass(frozen=True)
class Vectors16x1(Windows):
    """Windows of sixteen rows; arrays and options of :class:`.windows.Windows`."""

    name: ClassVar[str] = "vectors_16x1"
    packer: ClassVar[str | None] = "windows_16"
    window: ClassVar[int] = 16


FORMAT = Vectors16x1
