"""Blocked CSR whose tiles are 2:4 or dense, mixed in a row (Mistry 2025, sections 2.1 and 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, csr_of_entries, row_of_entry
from .base import Int32, OptionalInt32
from .blocks import Blocks, entries
from .two_four import TwoFourBlocks, checked_block_k, codes_of, entries_24, split


@dataclass(frozen=True)
class BcsrClassed(TwoFourBlocks):
    """2:4 and dense tiles together in rows of tiles, sorted by column.

    - ``indptr`` int32[block_rows + 1], ``indices`` int32[blocks]: pointers and columns in units of tiles;
    - ``codes`` int32[blocks]: 2p if the tile is the 2:4 tile p, 2p + 1 if it is the dense tile p.

    On request (kernels of the T family test every tile of a row) ``block_map`` int32[block_rows, block_columns]: the
    code of every tile, -1 where it is zero. It takes memory of order m·k / (16·block_k).
    """

    name: ClassVar[str] = "bcsr_classed"
    on_request: ClassVar[dict[str, str]] = {"block_map": "block_map"}

    indptr: Int32
    indices: Int32
    codes: Int32
    block_map: OptionalInt32 = None

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block_k: int = 32, block_map: bool = False) -> Self:
        """Pack a canonical CSR (m×k) in tiles of 16×``block_k``, 16 or 32; see :meth:`Format.from_csr`.

        Raises :class:`FormatTooLarge` if the requested ``block_map`` would take more than 2 GiB.
        """
        blocks = Blocks.of(a, 16, checked_block_k(block_k, cls.name))
        is_24, arrays = split(blocks, a.data, dtype)
        codes = codes_of(is_24)
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=blocks.indptr,
            indices=blocks.indices,
            codes=codes,
            block_map=blocks.map_of(codes, -1, "block map") if block_map else None,
            **arrays,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the tiles and the metadata."""
        xp = array_module(self.indptr)
        rows, columns = row_of_entry(self.indptr, self.blocks), self.indices.astype(xp.int64)
        is_24 = self.codes % 2 == 0
        dense = entries(self.data, rows[~is_24], columns[~is_24], self.dtype)
        sparse = entries_24(self.data24, self.metadata, rows[is_24], columns[is_24], self.dtype)
        of_rows, of_columns, values = map(xp.concatenate, zip(dense, sparse, strict=True))
        return csr_of_entries(of_rows, of_columns, values, self.shape)


FORMAT = BcsrClassed
