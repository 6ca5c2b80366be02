"""A whole matrix in 2:4, in the order in which the lanes of a warp hold it (PTX ISA, sparse mma and sparse wgmma)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module
from .base import Format, UInt32, Values
from .sparse24 import Sparse24, rows_of_lanes
from .values import itemsize


@dataclass(frozen=True)
class Sparse24Fragments(Format):
    """:class:`~.sparse24.Sparse24`, with the registers of each lane contiguous.

    A kernel that keeps A in registers reads 16 and 4 contiguous bytes per lane, 512 and 128 per warp; A does not go
    through shared memory. A product takes 32 columns of 16-bit values (m16n8k32), 64 of 8-bit ones (m16n8k64).

    - ``data`` dtype[m_p / 16, products, 32, v]: the four registers of lane 4g + t for 16 rows and one product, of v / 4
      values each, in order: row g and the t-th register of the first half of the product, g + 8 and the same, then g
      and g + 8 of the second half. v is 16 bytes; m_p is m padded to a multiple of 16;
    - ``metadata`` uint32[m_p / 16, k_p / 64, 32]: the word of each lane for 64 columns. 16-bit values: lanes t = 0, 1
      of a quad hold the words of the first product (selector 0), t = 2, 3 those of the second (selector 1). 8-bit
      values: t = 0, 1 hold the words of rows g and g + 8 and the first 32 columns, t = 2, 3 those of the next 32.
    """

    name: ClassVar[str] = "sparse24_fragments"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "steps")
    holds_any: ClassVar[bool] = False

    data: Values
    metadata: UInt32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "bfloat16", k_multiple: int = 512) -> Self:
        """Pack a canonical CSR (m×k), k padded to a multiple of ``k_multiple``; raises what :meth:`Sparse24.from_csr`
        raises.
        """
        xp = array_module(a.data)
        plain = Sparse24.from_csr(a, dtype, k_multiple)
        panels, steps, register = len(plain.data) // 16, int(plain.data.shape[1]) // 32, _register(dtype)
        products = steps * 4 // register
        # Axes: panel, half of its rows, row g; product, half of it, register t, its values.
        values = plain.data.reshape(panels, 2, 8, products, 2, 4, register).transpose(0, 3, 2, 5, 4, 1, 6)
        words = plain.metadata_swizzled.transpose(1, 0, 2, 3)
        return cls(
            shape=plain.shape,
            nnz=plain.nnz,
            dtype=dtype,
            data=xp.ascontiguousarray(values).reshape(panels, products, 32, 4 * register),
            metadata=xp.ascontiguousarray(words).reshape(panels, steps, 64).view(xp.uint32),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots and the metadata."""
        xp = array_module(self.data)
        (panels, products), steps, register = self.data.shape[:2], self.metadata.shape[1], _register(self.dtype)
        values = self.data.reshape(panels, products, 8, 4, 2, 2, register).transpose(0, 5, 2, 1, 4, 3, 6)
        swizzled = self.metadata.view(xp.uint16).reshape(panels, steps, 8, 8).transpose(1, 0, 2, 3)
        return Sparse24(
            shape=self.shape,
            nnz=self.nnz,
            dtype=self.dtype,
            data=xp.ascontiguousarray(values).reshape(16 * panels, 8 * register * products),
            metadata=rows_of_lanes(swizzled, itemsize(self.dtype)),
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


def _register(dtype: str) -> int:
    """Values of a register of four bytes; wider dtypes, which no product reads, are packed as 16-bit ones are."""
    return 4 if itemsize(dtype) == 1 else 2


FORMAT = Sparse24Fragments
