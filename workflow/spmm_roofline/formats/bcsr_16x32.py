"""Blocked CSR with dense 16×32 blocks: the tile of the thesis' ``_large`` kernels (Mistry 2025, sections 1.2, 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .blocks import Bcsr


@dataclass(frozen=True)
class Bcsr16x32(Bcsr):
    """Blocks the size of one m16n8k32 operand, or of two of m16n8k16."""

    name: ClassVar[str] = "bcsr_16x32"
    block_m: ClassVar[int] = 16
    block_k: ClassVar[int] = 32


FORMAT = Bcsr16x32
