"""CSR with an order of rows in which the longest come first (row swizzle; Gale et al. 2020, section 5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import Int32
from .csr import Csr, longest_first, padded_to_fours


@dataclass(frozen=True)
class CsrSwizzled(Csr):
    """As :class:`Csr`, and ``order`` int32[m]: rows by descending length, rows of equal length in the order of A.

    ``indices`` and ``data`` are padded with zeros to a multiple of four entries, so that a kernel may read aligned
    groups of four up to the end.
    """

    name: ClassVar[str] = "csr_swizzled"

    order: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Csr.from_csr`."""
        packed = padded_to_fours(Csr.from_csr(a, dtype))
        order = longest_first(packed.indptr).astype("int32")
        return cls(packed.shape, packed.nnz, packed.dtype, packed.indptr, packed.indices, packed.data, order)


FORMAT = CsrSwizzled
