"""Columns of sixteen rows with an entry, sixteen to a tile.

Two 8-wide operands of an mma share what they multiply: where neighbouring rows have columns in common, fewer rows of B
are read than with 8 rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .windows import Windows


@dataclass(frozen=True)
class Vectors16x1(Windows):
    """Windows of sixteen rows; arrays and options of :class:`.windows.Windows`."""

    name: ClassVar[str] = "vectors_16x1"
    window: ClassVar[int] = 16


FORMAT = Vectors16x1
