"""Blocked CSR with super-tiles of BLOCK×BLOCK tensor-core tiles (Mistry 2025, section 2.4, figures 2.3 and 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import FormatError
from .blocks import Bcsr, Blocks


@dataclass(frozen=True)
class BcsrTiled(Bcsr):
    """16×16 tiles merged into square super-tiles of ``block`` × ``block`` tiles, each stored densely.

    A super-tile is stored if any of its tiles holds an entry: it saves loads of B and stores more zeros.
    """

    name: ClassVar[str] = "bcsr_tiled"

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block: int = 4) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` unless ``block`` is 2, 4 or 8: super-tiles of 32, 64 or 128 rows and columns.
        """
        if block not in (2, 4, 8):
            raise FormatError(f"{cls.name} merges 2, 4 or 8 tiles a side, not {block}")
        return cls._of_blocks(a, dtype, Blocks.of(a, 16 * block, 16 * block))


FORMAT = BcsrTiled
