"""A whole matrix in 2:4: what a sparse tensor-core GEMM reads (the 2:4 bf16 GEMM study; PTX ISA, sparse mma)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, FormatError, FormatTooLarge, UInt16, Values
from .two_four import NIBBLES, row_words
from .values import itemsize, rounded, widened

#: Largest packed matrix, in bytes: the format stores every group of four, even if most are empty.
LIMIT_BYTES = 4 << 30


@dataclass(frozen=True)
class Sparse24(Format):
    """At most two non-zeros in every aligned group of four columns; half of all slots are stored.

    m is padded to m_p, a multiple of 16, and k to k_p, a positive multiple of 64.

    - ``data`` dtype[m_p, k_p / 2]: the two values of every group, in column order;
    - ``metadata`` uint16[m_p, k_p / 16]: the two columns of four groups per word, see :func:`two_four.row_words`;
    - ``metadata_swizzled`` uint16[k_p / 64, m_p / 16, 8, 8]: the same words in the order of ``ldmatrix``. The 8×8
      matrix of 16 rows i… and 64 columns holds, in row r at position 2t + h, the word of row i + 8h + r and
      columns 16t…16t + 15. ``ldmatrix`` hands positions 2t and 2t + 1 of row r to lane 4r + t in one register, as
      m16n8k32 expects from lanes t = 0, 1 with selector 0 and, for the next 32 columns, from lanes t = 2, 3
      with selector 1. One ``ldmatrix.x4`` brings the metadata of 64×64 elements of A. 8-bit products, m16n8k64, take
      all 64 columns at once, and each lane's register is of a single row: position 2t + h then holds the word of row
      i + 8 (t mod 2) + r and columns 32 (t div 2) + 16h….
    """

    name: ClassVar[str] = "sparse24"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "m_padded", "k_padded")
    holds_any: ClassVar[bool] = False

    data: Values
    metadata: UInt16
    metadata_swizzled: UInt16

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "bfloat16", k_multiple: int = 64) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`. k is padded to a multiple of ``k_multiple``,
        itself a multiple of 64.

        Raises :class:`FormatError` if a group holds more than two non-zeros, and :class:`FormatTooLarge` if the
        packed matrix would take more than 4 GiB.
        """
        xp = array_module(a.data)
        m, k = int(a.shape[0]), int(a.shape[1])
        m_padded, k_padded = 16 * ceil_div(m, 16), k_multiple * max(ceil_div(k, k_multiple), 1)
        packed_bytes = m_padded * (k_padded // 2 * itemsize(dtype) + k_padded // 4)
        if packed_bytes > LIMIT_BYTES:
            raise FormatTooLarge(
                f"{cls.name} stores half of all slots: a {m}×{k} matrix would take {packed_bytes:,} bytes, above the "
                f"limit of {LIMIT_BYTES:,}; use a format of blocks instead"
            )
        columns = a.indices.astype(xp.int64)
        group = row_of_entry(a.indptr, int(a.nnz)) * (k_padded // 4) + columns // 4
        third = xp.flatnonzero(group[2:] == group[:-2])
        if len(third):
            row, first = divmod(int(group[third[0]]), k_padded // 4)
            raise FormatError(
                f"the matrix is not 2:4: row {row} has more than two non-zeros in columns {4 * first} to "
                f"{4 * first + 3}, the first of {len(third):,} such groups; use bcsr_classed or bcsr_separated"
            )
        # The second of two entries of a group follows the first. A single one is the pair's second, except in column 0.
        follows = xp.zeros(len(group), dtype=bool)
        follows[1:] = group[1:] == group[:-1]
        leads = xp.zeros(len(group), dtype=bool)
        leads[:-1] = follows[1:]
        second = follows | (~leads & (columns % 4 > 0))
        data = xp.zeros((m_padded, k_padded // 2), dtype=rounded(a.data[:0], dtype).dtype)
        data.reshape(-1)[2 * group + second] = rounded(a.data, dtype)
        occupancy = xp.zeros((m_padded, k_padded // 4), dtype=xp.uint8)
        bit = xp.uint8(1) << (columns % 4).astype(xp.uint8)
        occupancy.reshape(-1)[group[~follows]] = bit[~follows]
        occupancy.reshape(-1)[group[follows]] |= bit[follows]
        metadata = row_words(xp.asarray(NIBBLES)[occupancy])
        swizzled = words_of_lanes(metadata, itemsize(dtype))
        return cls(
            shape=(m, k),
            nnz=int(a.nnz),
            dtype=dtype,
            data=data,
            metadata=metadata,
            metadata_swizzled=swizzled,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots and the metadata."""
        slot = nonzero_slots(self.data)
        half_k = max(int(self.data.shape[1]), 1)
        rows, position = slot // half_k, slot % half_k
        within_group = self.metadata[rows, position // 8] >> (2 * (position % 8)).astype(self.metadata.dtype) & 3
        columns = position // 2 * 4 + within_group
        return csr_of_entries(rows, columns, widened(self.data.reshape(-1)[slot], self.dtype), self.shape)

    def unpacked(self) -> Any:
        """All of the padded matrix, zeros included: dtype[m_p, k_p]."""
        xp = array_module(self.data)
        m, half_k = self.data.shape
        dense = xp.zeros((m, half_k // 2, 4), dtype=self.data.dtype)
        offsets = self.metadata[:, :, None] >> (2 * xp.arange(8, dtype=xp.uint16)) & 3
        groups = dense.reshape(-1, 4)
        number = xp.arange(len(groups))
        values = self.data.reshape(-1, 2)
        for which in range(2):
            groups[number, offsets.reshape(-1, 2)[:, which]] = values[:, which]
        return dense.reshape(m, 2 * half_k)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def covered_slots(self) -> int:
        return 2 * self.stored_slots

    @property
    def blocks(self) -> int:
        """Panels of 16 rows."""
        return len(self.data) // 16

    def counts(self) -> dict[str, int]:
        """``m_padded`` and ``k_padded``, besides the counts of every format."""
        return {**super().counts(), "m_padded": len(self.data), "k_padded": 2 * int(self.data.shape[1])}


def words_of_lanes(metadata: Any, value_bytes: int) -> Any:
    """``metadata`` of values of ``value_bytes``, uint16[m_p, k_p / 16], as ``metadata_swizzled``: see the format."""
    xp = array_module(metadata)
    m, words = metadata.shape
    if value_bytes == 1:
        # Axes: panel of 16 rows, which of its halves, row r; step of 64 columns, which half of them, word h of that.
        lanes = metadata.reshape(m // 16, 2, 8, words // 4, 2, 2).transpose(3, 0, 2, 4, 1, 5)
    else:
        # Axes: panel of 16 rows, its half h, row r; step of 64 columns, its word t.
        lanes = metadata.reshape(m // 16, 2, 8, words // 4, 4).transpose(3, 0, 2, 4, 1)
    return xp.ascontiguousarray(lanes).reshape(words // 4, m // 16, 8, 8)


def rows_of_lanes(swizzled: Any, value_bytes: int) -> Any:
    """``metadata`` again, the inverse of :func:`words_of_lanes`."""
    xp = array_module(swizzled)
    steps, panels = swizzled.shape[:2]
    if value_bytes == 1:
        rows = swizzled.reshape(steps, panels, 8, 2, 2, 2).transpose(1, 4, 2, 0, 3, 5)
    else:
        rows = swizzled.reshape(steps, panels, 8, 4, 2).transpose(1, 4, 2, 0, 3)
    return xp.ascontiguousarray(rows).reshape(16 * panels, 4 * steps)


FORMAT = Sparse24
