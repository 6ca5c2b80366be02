"""Blocked CSR with dense 16×16 blocks: A as the SMaT kernels read it (Okanovic et al. 2024; Mistry 2025, 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .base import Format, FormatTooLarge, array_module, ceil_div, csr_type, rounded, row_of_entry, widened

#: Largest dense map of block positions that is built, in bytes.
BLOCK_MAP_LIMIT_BYTES = 2 << 30


@dataclass(frozen=True)
class Bcsr(Format):
    """Blocks of block_m×block_k values, in rows of blocks; SciPy and cuSPARSE call it BSR.

    ``indptr`` int32[block_rows+1] and ``indices`` int32[blocks] are pointers and columns in units of blocks, sorted;
    ``data`` dtype[blocks, block_m, block_k] holds every block densely, row-major. Edge blocks are padded with zeros.

    ``block_map`` int32[block_rows, block_columns] is there on request only (kernels of the T family test every tile
    of a row): the position of a block in ``data``, -1 where the block is zero. It takes memory of order
    m·k / (block_m·block_k).
    """

    block_m: ClassVar[int] = 16
    block_k: ClassVar[int] = 16

    indptr: Any
    indices: Any
    data: Any
    block_map: Any = None

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block_map: bool = False) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatTooLarge` if a ``block_map`` is asked for that would take more than 2 GiB.
        """
        xp = array_module(a.data)
        m, k = int(a.shape[0]), int(a.shape[1])
        block_rows, block_columns = ceil_div(m, cls.block_m), ceil_div(k, cls.block_k)
        map_bytes = 4 * block_rows * block_columns
        if block_map and map_bytes > BLOCK_MAP_LIMIT_BYTES:
            raise FormatTooLarge(
                f"the dense block map of {cls.name} for a {m}×{k} matrix would take {map_bytes:,} bytes, above the "
                f"limit of {BLOCK_MAP_LIMIT_BYTES:,}; use a kernel that walks the stored blocks instead"
            )
        rows = row_of_entry(a.indptr, a.nnz)
        columns = a.indices.astype(xp.int64)
        key = (rows // cls.block_m) * block_columns + columns // cls.block_k
        keys, block = xp.unique(key, return_inverse=True)
        data = xp.zeros((len(keys), cls.block_m, cls.block_k), dtype=rounded(a.data[:0], dtype).dtype)
        data[block, rows % cls.block_m, columns % cls.block_k] = rounded(a.data, dtype)
        indptr = xp.searchsorted(keys, xp.arange(block_rows + 1, dtype=xp.int64) * block_columns).astype(xp.int32)
        dense_map = None
        if block_map:
            dense_map = xp.full((block_rows, block_columns), -1, dtype=xp.int32)
            dense_map.ravel()[keys] = xp.arange(len(keys), dtype=xp.int32)
        return cls(
            shape=(m, k),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=indptr,
            indices=(keys % max(block_columns, 1)).astype(xp.int32),
            data=data,
            block_map=dense_map,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the blocks."""
        xp = array_module(self.indptr)
        values = widened(self.data, self.dtype)
        block, row, column = xp.nonzero(values)
        block_row = row_of_entry(self.indptr, len(self.indices))
        rows = block_row[block] * self.block_m + row
        columns = self.indices[block].astype(xp.int64) * self.block_k + column
        order = xp.argsort(rows * self.shape[1] + columns)
        indptr = xp.zeros(self.shape[0] + 1, dtype=xp.int32)
        indptr[1:] = xp.cumsum(xp.bincount(rows, minlength=self.shape[0]))
        data = values[block, row, column][order]
        return csr_type(xp)((data, columns[order].astype(xp.int32), indptr), shape=self.shape)

    @property
    def stored_slots(self) -> int:
        return self.blocks * self.block_m * self.block_k

    @property
    def blocks(self) -> int:
        return len(self.indices)

    def counts(self) -> dict[str, int]:
        """``block_rows`` and ``block_columns`` of the padded matrix, beside the counts of every format."""
        return {
            **super().counts(),
            "block_rows": ceil_div(self.shape[0], self.block_m),
            "block_columns": ceil_div(self.shape[1], self.block_k),
        }


@dataclass(frozen=True)
class Bcsr16x16(Bcsr):
    """Blocks the size of one m16n8k16 operand."""

    name: ClassVar[str] = "bcsr_16x16"


FORMAT = Bcsr16x16
