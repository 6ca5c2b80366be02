"""Super-tiles that list their 2:4 and dense tiles instead of storing their zeros (Mistry 2025, chapter 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, distinct, row_of_entry
from .base import FormatError, Int32
from .blocks import Blocks, entries
from .two_four import TwoFourBlocks, codes_of, entries_24, split

#: Columns of a tile: the reduction of one m16n8k32 product.
BLOCK_K = 32


@dataclass(frozen=True)
class BcsrClassedTiled(TwoFourBlocks):
    """Square super-tiles of ``16·block`` rows, each a grid of 16×32 tiles that are zero, 2:4 or dense.

    - ``indptr`` int32[super_rows + 1], ``indices`` int32[super-tiles]: pointers and columns in units of super-tiles;
    - ``inner`` int32[super-tiles, block, block / 2]: the class and position of each tile in a super-tile: -1 zero,
      2p the 2:4 tile p of ``data24`` and ``metadata``, 2p + 1 the dense tile p of ``data``.
    """

    name: ClassVar[str] = "bcsr_classed_tiled"
    count_names: ClassVar[tuple[str, ...]] = (*TwoFourBlocks.count_names, "super_rows", "super_tiles")

    indptr: Int32
    indices: Int32
    inner: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block: int = 4) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` unless ``block`` is 2, 4 or 8: super-tiles of 32, 64 or 128 rows and columns.
        """
        if block not in (2, 4, 8):
            raise FormatError(f"{cls.name} merges 2, 4 or 8 tiles a side, not {block}")
        xp = array_module(a.data)
        m, k = int(a.shape[0]), int(a.shape[1])
        blocks = Blocks.of(a, 16, BLOCK_K)
        is_24, arrays = split(blocks, a.data, dtype)
        super_rows, super_columns = ceil_div(m, 16 * block), ceil_div(k, 16 * block)
        wide = block * 16 // BLOCK_K
        rows, columns = row_of_entry(blocks.indptr, len(is_24)), blocks.indices.astype(xp.int64)
        keys, where = distinct(rows // block * super_columns + columns // wide)
        inner = xp.full((len(keys), block, wide), -1, dtype=xp.int32)
        inner[where, rows % block, columns % wide] = codes_of(is_24)
        starts = xp.arange(super_rows + 1, dtype=xp.int64) * super_columns
        return cls(
            shape=(m, k),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=xp.searchsorted(keys, starts).astype(xp.int32),
            indices=(keys % max(super_columns, 1)).astype(xp.int32),
            inner=inner,
            **arrays,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the tiles and the metadata."""
        xp = array_module(self.indptr)
        tiles, block, wide = self.inner.shape
        slot = xp.flatnonzero(self.inner.ravel() >= 0)
        code, super_tile = self.inner.ravel()[slot], slot // (block * wide)
        rows = row_of_entry(self.indptr, tiles)[super_tile] * block + slot // wide % block
        columns = self.indices[super_tile].astype(xp.int64) * wide + slot % wide
        found = []
        for is_dense, unpack in ((0, self._entries_24), (1, self._entries_dense)):
            chosen = code % 2 == is_dense
            order = xp.argsort(code[chosen])
            found.append(unpack(rows[chosen][order], columns[chosen][order]))
        of_rows, of_columns, values = map(xp.concatenate, zip(*found, strict=True))
        return csr_of_entries(of_rows, of_columns, values, self.shape)

    def _entries_24(self, rows: Any, columns: Any) -> tuple[Any, Any, Any]:
        return entries_24(self.data24, self.metadata, rows, columns, self.dtype)

    def _entries_dense(self, rows: Any, columns: Any) -> tuple[Any, Any, Any]:
        return entries(self.data, rows, columns, self.dtype)

    def counts(self) -> dict[str, int]:
        """``super_rows`` and ``super_tiles``, besides the counts of every format of 2:4 and dense tiles."""
        tiles, block, _ = self.inner.shape
        return {**super().counts(), "super_rows": ceil_div(self.shape[0], 16 * block), "super_tiles": tiles}


FORMAT = BcsrClassedTiled
