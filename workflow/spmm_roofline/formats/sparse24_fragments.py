"""A whole matrix in 2:4, in the order in which the lanes of a warp hold it (PTX ISA, m16n8k32 and sparse wgmma)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module
from .base import Format, UInt32, Values
from .sparse24 import Sparse24


@dataclass(frozen=True)
class Sparse24Fragments(Format):
    """:class:`~.sparse24.Sparse24`, with the registers of each lane contiguous; k is padded to a multiple of 512.

    A kernel that keeps A in registers reads 16 and 4 contiguous bytes per lane, 512 and 128 per warp; A does not go
    through shared memory.

    - ``data`` dtype[m_p / 16, k_p / 32, 32, 8]: the four registers of lane 4g + t for 16 rows and 32 columns, in
      order: row g and group t, g + 8 and t, g and t + 4, g + 8 and t + 4;
    - ``metadata`` uint32[m_p / 16, k_p / 64, 32]: the word of each lane for 64 columns: lanes t = 0, 1 of a quad hold
      the words of the first 32 columns (selector 0), t = 2, 3 those of the next 32 (selector 1).
    """

    name: ClassVar[str] = "sparse24_fragments"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "steps")
    holds_any: ClassVar[bool] = False

    data: Values
    metadata: UInt32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "bfloat16") -> Self:
        """Pack a canonical CSR (m×k); raises what :meth:`Sparse24.from_csr` raises."""
        xp = array_module(a.data)
        plain = Sparse24.from_csr(a, dtype, k_multiple=512)
        panels, steps = len(plain.data) // 16, int(plain.data.shape[1]) // 16
        # Axes: panel, half of it, row g; 32 columns, half of their groups, group t, its two values.
        values = plain.data.reshape(panels, 2, 8, steps, 2, 4, 2).transpose(0, 3, 2, 5, 4, 1, 6)
        words = plain.metadata_swizzled.transpose(1, 0, 2, 3).reshape(panels, steps // 2, 64)
        return cls(
            shape=plain.shape,
            nnz=plain.nnz,
            dtype=dtype,
            data=xp.ascontiguousarray(values).reshape(panels, steps, 32, 8),
            metadata=xp.ascontiguousarray(words).view(xp.uint32),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots and the metadata."""
        xp = array_module(self.data)
        panels, steps = self.data.shape[:2]
        values = self.data.reshape(panels, steps, 8, 4, 2, 2, 2).transpose(0, 5, 2, 1, 4, 3, 6)
        swizzled = self.metadata.view(xp.uint16).reshape(panels, steps // 2, 8, 8).transpose(1, 0, 2, 3)
        # Position 2t + h of row r holds the word of row r + 8h.
        words = swizzled.reshape(steps // 2, panels, 8, 4, 2).transpose(1, 4, 2, 0, 3)
        return Sparse24(
            shape=self.shape,
            nnz=self.nnz,
            dtype=self.dtype,
            data=xp.ascontiguousarray(values).reshape(16 * panels, 16 * steps),
            metadata=xp.ascontiguousarray(words).reshape(16 * panels, 2 * steps),
            metadata_swizzled=swizzled,
        ).to_csr()

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def covered_slots(self) -> int:
        return 2 * self.stored_slots

    @property
    def blocks(self) -> int:
        """Panels of 16 rows."""
        return int(self.data.shape[0])

    def counts(self) -> dict[str, int]:
        """``steps``, of 64 columns, besides the counts of every format."""
        return {**super().counts(), "steps": int(self.metadata.shape[1])}


FORMAT = Sparse24Fragments
