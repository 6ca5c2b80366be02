"""Compressed sparse columns (Lagos 2025, section 3.3.2).

The attention study stores W of X·W in this format. Its kernels here multiply A = Wᵀ, whose :mod:`csr <.csr>` arrays
are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, FormatError, Int32, Values
from .values import rounded, widened


@dataclass(frozen=True)
class Csc(Format):
    """Column pointers ``indptr`` int32[k+1], row indices ``indices`` int32[nnz], sorted, ``data`` dtype[nnz]."""

    name: ClassVar[str] = "csc"

    indptr: Int32
    indices: Int32
    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` for 2³¹ or more non-zeros, too many for 32-bit column pointers.
        """
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit column pointers, too short for {a.nnz:,} non-zeros")
        xp = array_module(a.data)
        m, k = int(a.shape[0]), int(a.shape[1])
        rows = row_of_entry(a.indptr, int(a.nnz))
        order = xp.argsort(a.indices.astype(xp.int64) * m + rows)
        indptr = xp.zeros(k + 1, dtype=xp.int32)
        indptr[1:] = xp.cumsum(xp.bincount(a.indices, minlength=k))
        return cls(
            shape=(m, k),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=indptr,
            indices=rows[order].astype(xp.int32),
            data=rounded(a.data[order], dtype),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        columns = row_of_entry(self.indptr, len(self.indices))
        kept = nonzero_slots(self.data)
        rows = self.indices[kept].astype(columns.dtype)
        return csr_of_entries(rows, columns[kept], widened(self.data[kept], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return self.nnz

    @property
    def blocks(self) -> int:
        """Columns: the format has no blocks."""
        return self.shape[1]


FORMAT = Csc
