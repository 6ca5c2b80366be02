"""Blocked CSR with dense 16×16 blocks: A as the SMaT kernels read it (Okanovic et al. 2024; Mistry 2025, 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .blocks import Bcsr


@dataclass(frozen=True)
class Bcsr16x16(Bcsr):
    """Blocks the size of one m16n8k16 operand."""

    name: ClassVar[str] = "bcsr_16x16"
    block_m: ClassVar[int] = 16
    block_k: ClassVar[int] = 16


FORMAT = Bcsr16x16
