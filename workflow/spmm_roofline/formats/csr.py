"""Compressed sparse rows: the format of cuSPARSE and of every kernel on CUDA cores."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_type
from .base import Format, FormatError, Int32, Values
from .values import rounded, widened


@dataclass(frozen=True)
class Csr(Format):
    """Row pointers ``indptr`` int32[m+1], column indices ``indices`` int32[nnz], ``data`` dtype[nnz]."""

    name: ClassVar[str] = "csr"

    indptr: Int32
    indices: Int32
    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` for 2³¹ or more non-zeros, too many for 32-bit row pointers.
        """
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit row pointers, too short for {a.nnz:,} non-zeros")
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=a.indptr.astype("int32"),
            indices=a.indices.astype("int32"),
            data=rounded(a.data, dtype),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        values = widened(self.data[: self.nnz], self.dtype)
        csr = csr_type(array_module(self.indptr))((values, self.indices[: self.nnz], self.indptr), shape=self.shape)
        if int((values == 0).sum()):
            csr.eliminate_zeros()
        return csr

    @property
    def stored_slots(self) -> int:
        return self.nnz

    @property
    def blocks(self) -> int:
        return self.shape[0]


def longest_first(a: Csr) -> Any:
    """Rows by descending length, int64[m]; rows of equal length in the order of A."""
    xp = array_module(a.indptr)
    m = a.shape[0]
    return xp.argsort(xp.arange(m, dtype=xp.int64) - xp.diff(a.indptr).astype(xp.int64) * max(m, 1))


def padded_to_fours(a: Csr) -> Csr:
    """``a`` with zeros after the last entry, up to a multiple of four entries."""
    xp = array_module(a.indptr)
    more = -a.nnz % 4
    indices, data = (xp.concatenate([x, xp.zeros(more, dtype=x.dtype)]) for x in (a.indices, a.data))
    return dataclasses.replace(a, indices=indices, data=data)


FORMAT = Csr
