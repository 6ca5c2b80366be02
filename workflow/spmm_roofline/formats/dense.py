"""All of A, zeros included, as a dense product reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, FormatTooLarge, Values
from .values import itemsize, rounded, widened

#: Largest matrix, in bytes: larger sparse matrices, such as graphs, are not stored densely.
LIMIT_BYTES = 4 << 30


@dataclass(frozen=True)
class DenseMatrix(Format):
    """``data`` dtype[m, k] in row-major order."""

    name: ClassVar[str] = "dense"
    holds_any: ClassVar[bool] = False

    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Unpack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatTooLarge` if the matrix would take more than 4 GiB.
        """
        xp = array_module(a.data)
        m, k = int(a.shape[0]), int(a.shape[1])
        if m * k * itemsize(dtype) > LIMIT_BYTES:
            raise FormatTooLarge(
                f"{cls.name} stores every zero: a {m}×{k} matrix would take {m * k * itemsize(dtype):,} bytes, above "
                f"the limit of {LIMIT_BYTES:,}; use csr instead"
            )
        data = xp.zeros((m, k), dtype=rounded(a.data[:0], dtype).dtype)
        data[row_of_entry(a.indptr, int(a.nnz)), a.indices] = rounded(a.data, dtype)
        return cls(shape=(m, k), nnz=int(a.nnz), dtype=dtype, data=data)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        slot = nonzero_slots(self.data)
        k = max(self.shape[1], 1)
        values = widened(self.data.reshape(-1)[slot], self.dtype)
        return csr_of_entries(slot // k, slot % k, values, self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Rows."""
        return self.shape[0]


FORMAT = DenseMatrix
