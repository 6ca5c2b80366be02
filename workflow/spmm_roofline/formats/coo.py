"""Coordinates: a row and a column index for every non-zero, in row order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, Int32, Values
from .values import rounded, widened


@dataclass(frozen=True)
class Coo(Format):
    """``row`` and ``col`` int32[nnz], sorted by row, then column; ``data`` dtype[nnz]."""

    name: ClassVar[str] = "coo"

    row: Int32
    col: Int32
    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`."""
        xp = array_module(a.data)
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            row=row_of_entry(a.indptr, int(a.nnz)).astype(xp.int32),
            col=a.indices.astype(xp.int32),
            data=rounded(a.data, dtype),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        kept = nonzero_slots(self.data)
        rows, columns = (index[kept].astype(kept.dtype) for index in (self.row, self.col))
        return csr_of_entries(rows, columns, widened(self.data[kept], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return self.nnz

    @property
    def blocks(self) -> int:
        """Rows: the format has no blocks."""
        return self.shape[0]


FORMAT = Coo
