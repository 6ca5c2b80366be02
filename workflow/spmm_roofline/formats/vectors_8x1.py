"""Windows of eight rows: their non-empty columns, sixteen to a tile.

With operands swapped, the sparse matrix is the 8-wide operand of an mma, and half as many zeros are stored as with 16
rows (FlashSparse, Shi et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .windows import Windows


@dataclass(frozen=True)
class Vectors8x1(Windows):
    """Windows of eight rows; arrays and options of :class:`.windows.Windows`."""

    name: ClassVar[str] = "vectors_8x1"
    packer: ClassVar[str | None] = "windows"
    window: ClassVar[int] = 8


FORMAT = Vectors8x1
