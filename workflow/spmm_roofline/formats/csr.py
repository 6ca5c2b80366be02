"""Compressed sparse rows: the format of cuSPARSE and of every kernel on CUDA cores."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_type
from .base import Format, FormatError, Int32, Values
from .values import rounded, widened

#: Most entries: kernels add up to a batch for each lane of a CTA to a position, in 32 bits with a sign.
MOST = 2**31 - 2**10


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

        Raises :class:`FormatError` for more than :data:`MOST` non-zeros.
        """
        if a.nnz > MOST:
            raise FormatError(f"{cls.name} holds up to {MOST:,} non-zeros, and A has {a.nnz:,}: positions have 32 bits")
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
        xp, zeros = array_module(self.indptr), int((values == 0).sum())
        indices, indptr = self.indices[: self.nnz], self.indptr
        if zeros:  # are dropped in place, where SciPy would share the arrays of this format
            indices, indptr = xp.array(indices), xp.array(indptr)
        csr = csr_type(xp)((values, indices, indptr), shape=self.shape)
        if zeros:
            csr.eliminate_zeros()
        return csr

    @property
    def stored_slots(self) -> int:
        return self.nnz

    @property
    def blocks(self) -> int:
        return self.shape[0]


def longest_first(indptr: Any) -> Any:
    """Rows by descending length, int64[m]; rows of equal length in their order. ``indptr`` int32[m+1]."""
    return array_module(indptr).argsort(indptr[:-1] - indptr[1:], kind="stable")


def padded_to_fours(a: Csr) -> Csr:
    """``a`` with zeros after the last entry, up to a multiple of four entries."""
    xp, more = array_module(a.indptr), -a.nnz % 4
    if not more:
        return a

    def padded(x: Any) -> Any:
        longer = xp.empty(len(x) + more, dtype=x.dtype)
        longer[: len(x)], longer[len(x) :] = x, 0
        return longer

    return dataclasses.replace(a, indices=padded(a.indices), data=padded(a.data))


FORMAT = Csr
