"""Rows of blocks: the common base of the BCSR formats (Okanovic et al. 2024; Mistry 2025, section 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, distinct, nonzero_slots, row_of_entry
from .base import Format, FormatTooLarge, Int32, OptionalInt32, Values
from .values import rounded, widened

#: Largest dense map of block positions that is built, in bytes.
BLOCK_MAP_LIMIT_BYTES = 2 << 30


@dataclass(frozen=True)
class Blocks:
    """The blocks of block_m×block_k that hold an entry of a matrix, by rows of blocks.

    ``indptr`` int32[block_rows + 1] and ``indices`` int32[blocks] are pointers and columns in units of blocks, sorted;
    ``slots`` int64[nnz] is the index of every entry in a dense array [blocks, block_m, block_k].
    """

    shape: tuple[int, int, int]
    grid: tuple[int, int]
    indptr: Any
    indices: Any
    slots: Any

    @classmethod
    def of(cls, a: Any, block_m: int, block_k: int) -> Self:
        """Find the blocks of a canonical CSR (m×k)."""
        xp = array_module(a.data)
        block_rows, block_columns = ceil_div(int(a.shape[0]), block_m), ceil_div(int(a.shape[1]), block_k)
        rows = row_of_entry(a.indptr, int(a.nnz))
        columns = a.indices.astype(xp.int64)
        within = rows % block_m * block_k + columns % block_k
        keys, block = distinct(rows // block_m * block_columns + columns // block_k)
        slots = block * (block_m * block_k) + within
        starts = xp.arange(block_rows + 1, dtype=xp.int64) * block_columns
        return cls(
            shape=(len(keys), block_m, block_k),
            grid=(block_rows, block_columns),
            indptr=xp.searchsorted(keys, starts).astype(xp.int32),
            indices=(keys % max(block_columns, 1)).astype(xp.int32),
            slots=slots,
        )

    def dense(self, values: Any, dtype: str) -> Any:
        """The blocks with ``values`` (one per entry) rounded to ``dtype`` in their slots, zeros elsewhere."""
        xp = array_module(self.slots)
        entries = rounded(values, dtype)
        # Not `zeros`, whose pages are small: NumPy asks for huge ones where it does not have to clear them itself.
        data = xp.empty(self.shape, dtype=entries.dtype)
        data.fill(0)
        data.reshape(-1)[self.slots] = entries
        return data

    def occupied(self) -> Any:
        """bool, as :meth:`dense`: the slots that hold an entry, whatever its value rounds to."""
        xp = array_module(self.slots)
        mask = xp.zeros(self.shape, dtype=bool)
        mask.reshape(-1)[self.slots] = True
        return mask

    def map_of(self, values: Any, elsewhere: int, name: str) -> Any:
        """Dense map [block_rows, block_columns] of one value per block, and ``elsewhere`` (of their dtype).

        Raises :class:`FormatTooLarge` if it would take more than 2 GiB.
        """
        xp = array_module(values)
        block_rows, block_columns = self.grid
        map_bytes = values.dtype.itemsize * block_rows * block_columns
        if map_bytes > BLOCK_MAP_LIMIT_BYTES:
            raise FormatTooLarge(
                f"the dense {name} of {block_rows}×{block_columns} blocks would take {map_bytes:,} bytes, above the "
                f"limit of {BLOCK_MAP_LIMIT_BYTES:,}; use a kernel that walks the stored blocks instead"
            )
        dense_map = xp.full(self.grid, elsewhere, dtype=values.dtype)
        dense_map[row_of_entry(self.indptr, len(self.indices)), self.indices] = values
        return dense_map


@dataclass(frozen=True)
class BlockFormat(Format):
    """Common base of formats of rows of blocks, of ``block_m`` rows and ``block_k`` columns each."""

    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "block_rows", "block_columns")

    @property
    def block_shape(self) -> tuple[int, int]:
        """(block_m, block_k)"""
        raise NotImplementedError

    @property
    def covered_slots(self) -> int:
        block_m, block_k = self.block_shape
        return self.blocks * block_m * block_k

    def counts(self) -> dict[str, int]:
        """``block_rows`` and ``block_columns`` of the padded matrix, besides the counts of every format."""
        block_m, block_k = self.block_shape
        return {
            **super().counts(),
            "block_rows": ceil_div(self.shape[0], block_m),
            "block_columns": ceil_div(self.shape[1], block_k),
        }

    def stats(self) -> dict[str, float | int]:
        """The statistics of every format, and the fraction of the grid's tiles that hold no entry."""
        counts = self.counts()
        tiles = counts["block_rows"] * counts["block_columns"]
        return {**super().stats(), "zero_tile_fraction": 1 - self.blocks / tiles if tiles else 0.0}


@dataclass(frozen=True)
class Bcsr(BlockFormat):
    """Blocks of block_m×block_k values, in rows of blocks; SciPy and cuSPARSE call it BSR.

    ``indptr`` int32[block_rows+1] and ``indices`` int32[blocks] are pointers and columns in units of blocks, sorted;
    ``data`` dtype[blocks, block_m, block_k] holds every block densely, row-major. Edge blocks are padded with zeros.

    ``block_map`` int32[block_rows, block_columns] exists only on request (kernels of the T family test every tile
    of a row): the position of a block in ``data``, -1 where the block is zero. It takes memory of order
    m·k / (block_m·block_k).
    """

    on_request: ClassVar[dict[str, str]] = {"block_map": "block_map"}
    block_m: ClassVar[int]
    block_k: ClassVar[int]

    indptr: Int32
    indices: Int32
    data: Values
    block_map: OptionalInt32 = None

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float16", block_map: bool = False) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatTooLarge` if the requested ``block_map`` would take more than 2 GiB.
        """
        return cls._of_blocks(a, dtype, Blocks.of(a, cls.block_m, cls.block_k), block_map)

    @classmethod
    def _of_blocks(cls, a: Any, dtype: str, blocks: Blocks, block_map: bool = False) -> Self:
        xp = array_module(a.data)
        positions = xp.arange(len(blocks.indices), dtype=xp.int32)
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            indptr=blocks.indptr,
            indices=blocks.indices,
            block_map=blocks.map_of(positions, -1, "block map") if block_map else None,
            data=blocks.dense(a.data, dtype),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots of the blocks."""
        block_rows = row_of_entry(self.indptr, self.blocks)
        found = entries(self.data, block_rows, self.indices.astype(block_rows.dtype), self.dtype)
        return csr_of_entries(*found, self.shape)

    @property
    def block_shape(self) -> tuple[int, int]:
        _, block_m, block_k = self.data.shape
        return block_m, block_k

    @property
    def stored_slots(self) -> int:
        return self.covered_slots

    @property
    def blocks(self) -> int:
        return len(self.indices)


def entries(data: Any, block_rows: Any, block_columns: Any, dtype: str) -> tuple[Any, Any, Any]:
    """Rows int64, columns int64 and float64 values of the non-zero slots of dense blocks [blocks, block_m, block_k].

    ``block_rows`` and ``block_columns`` (int64[blocks]) give the position of each block.
    """
    _, block_m, block_k = data.shape
    slot = nonzero_slots(data)
    block, within = slot // (block_m * block_k), slot % (block_m * block_k)
    rows = block_rows[block] * block_m + within // block_k
    columns = block_columns[block] * block_k + within % block_k
    return rows, columns, widened(data.reshape(-1)[slot], dtype)
