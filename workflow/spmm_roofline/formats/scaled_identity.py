"""A multiple of the identity, q·I: what STREAM's SCALE multiplies by (Zhang et al. 2025, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_type
from .base import Format, FormatError, Values
from .values import rounded, widened


@dataclass(frozen=True)
class ScaledIdentity(Format):
    """One coefficient, ``data`` dtype[1]; the zero matrix is the case q = 0."""

    name: ClassVar[str] = "scaled_identity"
    holds_any: ClassVar[bool] = False
    stores_structure: ClassVar[bool] = False

    data: Values

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32") -> Self:
        """Pack a canonical CSR (m×m); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` if the matrix is not q·I.
        """
        xp = array_module(a.indices)
        m, k = (int(size) for size in a.shape)
        nnz = int(a.nnz)
        if m != k or nnz not in (0, m):
            raise FormatError(f"{cls.name} holds only q·I, and a {m} x {k} matrix with {nnz} non-zeros is not")
        if int((a.indices != xp.arange(nnz)).sum()) or int((a.indptr[:nnz] != xp.arange(nnz)).sum()):
            raise FormatError(f"{cls.name} holds only q·I, and this matrix has non-zeros off its diagonal")
        if nnz and int((a.data != a.data[0]).sum()):
            raise FormatError(f"{cls.name} holds only q·I, and the diagonal of this matrix is not constant")
        coefficient = a.data[:1] if nnz else xp.zeros(1)
        return cls(shape=(m, k), nnz=nnz, dtype=dtype, data=rounded(coefficient, dtype))

    @classmethod
    def random_values(cls, structure: Any, random: Any) -> Any:
        """One coefficient for all entries; see :meth:`Format.random_values`."""
        magnitude = random.random(1) + 0.5
        xp = array_module(structure.indices)
        return xp.repeat(xp.where(random.random(1) < 0.5, -magnitude, magnitude), structure.nnz)

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        xp = array_module(self.data)
        diagonal = xp.arange(self.nnz, dtype=xp.int32)
        indptr = xp.minimum(xp.arange(self.shape[0] + 1), self.nnz).astype(xp.int32)
        values = xp.repeat(widened(self.data, self.dtype), self.nnz)
        csr = csr_type(xp)((values, diagonal, indptr), shape=self.shape)
        if self.nnz and not float(values[0]):
            csr.eliminate_zeros()
        return csr

    @property
    def stored_slots(self) -> int:
        return self.nnz

    @property
    def blocks(self) -> int:
        return self.shape[0]


FORMAT = ScaledIdentity
