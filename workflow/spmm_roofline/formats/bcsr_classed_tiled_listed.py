"""Super-tiles whose 2:4 and dense tiles are themselves stored as CSR (Mistry 2025, chapter 5)."""

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
class BcsrClassedTiledListed(TwoFourBlocks):
    """Square super-tiles of ``16·block`` rows, each a list of the 16×32 tiles in it that hold an entry.

    - ``indptr`` int32[super_rows + 1], ``indices`` int32[super-tiles]: pointers and columns in units of super-tiles;
    - ``slices`` int32[super-tiles]: bit j says that the list names a tile of tile column j, so that the product reads
      the super-tile's rows 32j…32j+31 of B;
    - ``inner_indptr`` int32[super-tiles, block + 1]: the CSR of each super-tile; its tiles of tile row i are
      ``inner[inner_indptr[·, i] : inner_indptr[·, i + 1]]``, sorted by column;
    - ``inner`` int32[tiles, 2]: the tile column within the super-tile, and the class and position of the tile: 2p the
      2:4 tile p of ``data24`` and ``metadata``, 2p + 1 the dense tile p of ``data``.
    """

    name: ClassVar[str] = "bcsr_classed_tiled_listed"
    count_names: ClassVar[tuple[str, ...]] = (*TwoFourBlocks.count_names, "super_rows", "super_tiles")

    indptr: Int32
    indices: Int32
    slices: Int32
    inner_indptr: Int32
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
        keys, super_tile = distinct(rows // block * super_columns + columns // wide)
        within = columns % wide
        tile_row = super_tile * block + rows % block
        order = xp.argsort(tile_row * wide + within)
        # Pointers over the tile rows of all super-tiles; the last one of a super-tile is the first one of the next.
        pointers = xp.searchsorted(tile_row[order], xp.arange(len(keys) * block + 1, dtype=xp.int64))
        ends = xp.arange(len(keys), dtype=xp.int64)[:, None] * block + xp.arange(block + 1, dtype=xp.int64)
        used = xp.zeros((len(keys), wide), dtype=xp.int32)
        used[super_tile, within] = 1
        starts = xp.arange(super_rows + 1, dtype=xp.int64) * super_columns
        return cls(
            shape=(m, k),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=xp.searchsorted(keys, starts).astype(xp.int32),
            indices=(keys % max(super_columns, 1)).astype(xp.int32),
            slices=(used << xp.arange(wide, dtype=xp.int32)).sum(axis=1).astype(xp.int32),
            inner_indptr=pointers.astype(xp.int32)[ends],
            inner=xp.stack([within.astype(xp.int32), codes_of(is_24)], axis=1)[order],
            **arrays,
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the lists, the non-zero slots of the tiles and the metadata."""
        xp = array_module(self.indptr)
        super_tiles, block = self.inner_indptr.shape[0], self.inner_indptr.shape[1] - 1
        starts = xp.append(self.inner_indptr[:, :-1].ravel(), xp.asarray([self.blocks], dtype=xp.int32))
        tile_row = row_of_entry(starts, self.blocks)
        super_tile = tile_row // block
        rows = row_of_entry(self.indptr, super_tiles)[super_tile] * block + tile_row % block
        columns = self.indices[super_tile].astype(xp.int64) * (block * 16 // BLOCK_K) + self.inner[:, 0]
        code = self.inner[:, 1]

        def by_position(is_dense: int) -> tuple[Any, Any]:
            chosen = xp.flatnonzero(code % 2 == is_dense)
            chosen = chosen[xp.argsort(code[chosen])]
            return rows[chosen], columns[chosen]

        sparse = entries_24(self.data24, self.metadata, *by_position(0), self.dtype)
        dense = entries(self.data, *by_position(1), self.dtype)
        of_rows, of_columns, values = map(xp.concatenate, zip(dense, sparse, strict=True))
        return csr_of_entries(of_rows, of_columns, values, self.shape)

    def counts(self) -> dict[str, int]:
        """``super_rows`` and ``super_tiles``, besides the counts of every format of 2:4 and dense tiles."""
        super_tiles, ends = self.inner_indptr.shape
        super_rows = ceil_div(self.shape[0], 16 * (ends - 1))
        return {**super().counts(), "super_rows": super_rows, "super_tiles": super_tiles}


FORMAT = BcsrClassedTiledListed
