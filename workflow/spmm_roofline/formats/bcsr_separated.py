"""Blocked CSR with a run of 2:4 tiles and a run of dense tiles in each row (Mistry 2025, section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_of_entries, row_of_entry
from .base import Int32
from .blocks import Blocks, entries
from .two_four import TwoFourBlocks, checked_block_k, entries_24, split


@dataclass(frozen=True)
class BcsrSeparated(TwoFourBlocks):
    """Separate rows of tiles for each class, so that no loop tests the class of a tile.

    ``indptr24`` and ``indptr_dense`` int32[block_rows + 1], ``indices24`` int32[2:4 tiles] and ``indices_dense``
    int32[dense tiles]: pointers and columns in units of tiles, sorted. Tile p of a list is tile p of ``data24`` and
    ``metadata``, or of ``data``.
    """

    name: ClassVar[str] = "bcsr_separated"

    indptr24: Int32
    indices24: Int32
    indptr_dense: Int32
    indices_dense: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block_k: int = 32) -> Self:
        """Pack a canonical CSR (m×k) in tiles of 16×``block_k``, 16 or 32; see :meth:`Format.from_csr`."""
        xp = array_module(a.data)
        blocks = Blocks.of(a, 16, checked_block_k(block_k, cls.name))
        is_24, arrays = split(blocks, a.data, dtype)
        before = xp.zeros(len(is_24) + 1, dtype=xp.int32)
        before[1:] = xp.cumsum(is_24)
        indptr24 = before[blocks.indptr]
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr24=indptr24,
            indices24=blocks.indices[is_24],
            indptr_dense=blocks.indptr - indptr24,
            indices_dense=blocks.indices[~is_24],
            **arrays,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the tiles and the metadata."""
        xp = array_module(self.indptr24)
        rows24, rows = (row_of_entry(p, int(p[-1])) for p in (self.indptr24, self.indptr_dense))
        sparse = entries_24(self.data24, self.metadata, rows24, self.indices24.astype(xp.int64), self.dtype)
        dense = entries(self.data, rows, self.indices_dense.astype(xp.int64), self.dtype)
        rows, columns, values = map(xp.concatenate, zip(dense, sparse, strict=True))
        return csr_of_entries(rows, columns, values, self.shape)


FORMAT = BcsrSeparated
