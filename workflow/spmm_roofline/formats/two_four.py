"""2:4 sparsity: which groups of four fit, and how ``mma.sp`` expects their values and metadata.

A row fits 2:4 if every aligned group of four consecutive columns holds at most two non-zeros. The tensor core then
reads two values per group and, for each, its column within the group in two bits, smaller column first (PTX ISA,
"Sparse matrix storage"; ``mma.sp::ordered_metadata`` requires the two to be strictly increasing, even if a group
holds fewer than two non-zeros: then a zero completes the pair).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .arrays import array_module, nonzero_slots
from .base import FormatError, UInt32, Values
from .blocks import BlockFormat, Blocks
from .values import rounded, widened

#: Occupancy of a group (bit c: column c is not zero) → fits 2:4. bool[16]
FITS = np.array([bits.bit_count() <= 2 for bits in range(16)])

#: Occupancy of a group → the two columns that are kept: the smallest pair that covers it. uint8[16, 2]
PAIRS = np.array(
    [
        min(
            [(i, j) for i in range(4) for j in range(i + 1, 4) if not bits & ~(1 << i | 1 << j)],
            default=(0, 1),  # a group that does not fit is never packed
        )
        for bits in range(16)
    ],
    dtype=np.uint8,
)

#: Occupancy of a group → its four bits of metadata, the first column in the low two. uint8[16]
NIBBLES = PAIRS[:, 0] | PAIRS[:, 1] << 2


def occupancy(occupied: Any) -> Any:
    """bool[..., 4g] → uint8[..., g]: bit c of a group says whether its column c is occupied."""
    *outer, columns = occupied.shape
    bits = occupied.reshape(*outer, columns // 4, 4).view("uint8")
    return bits[..., 0] | bits[..., 1] << 1 | bits[..., 2] << 2 | bits[..., 3] << 3


def fits(groups: Any) -> Any:
    """Occupancies uint8[tiles, 16, g] → bool[tiles]: every group of the tile fits 2:4."""
    xp = array_module(groups)
    return xp.asarray(FITS)[groups].all(axis=(1, 2))


def compress(tiles: Any, occupied: Any) -> tuple[Any, Any]:
    """Tiles that fit (any dtype[tiles, 16, block_k], with bool ``occupied`` alike) as ``mma.sp`` stores them.

    Returns the values dtype[tiles, 16, block_k / 2], two per group, and the metadata nibbles uint8[tiles, 16,
    block_k / 4]. Raises ``ValueError`` if a group holds more than two.
    """
    groups = occupancy(occupied)
    xp = array_module(groups)
    if not bool(fits(groups).all()):
        raise ValueError("a group of four holds more than two non-zeros: the tile is not 2:4")
    pairs = xp.asarray(PAIRS)[groups].astype(xp.int64)
    values = xp.take_along_axis(tiles.reshape(*groups.shape, 4), pairs, axis=-1)
    return values.reshape(*groups.shape[:-1], 2 * groups.shape[-1]), xp.asarray(NIBBLES)[groups]


def metadata_words(nibbles: Any) -> Any:
    """Nibbles uint8[tiles, 16, block_k / 4] → uint32[tiles, 8, block_k / 16], in the order of ``mma.sp``'s lanes.

    Word (r, s) holds columns 16s…16s+15 of row r in its low half, of row r + 8 in its high half, the first group in
    the lowest bits. Lane 4r + selector supplies word (r, 0) to m16n8k16, lane 4r + 2·selector + s supplies word
    (r, s) to m16n8k32 (PTX ISA, "Warp-level matrix instructions for sparse mma", 16-bit operands).
    """
    xp = array_module(nibbles)
    halves = row_words(nibbles).astype(xp.uint32)
    return xp.ascontiguousarray(halves[:, :8] | halves[:, 8:] << xp.uint32(16))


def row_words(nibbles: Any) -> Any:
    """Nibbles uint8[..., rows, g] → uint16[..., rows, g / 4]: four groups per word, the first in the lowest bits."""
    xp = array_module(nibbles)
    four = nibbles.reshape(*nibbles.shape[:-1], nibbles.shape[-1] // 4, 4).astype(xp.uint16)
    return four[..., 0] | four[..., 1] << 4 | four[..., 2] << 8 | four[..., 3] << 12


@dataclass(frozen=True)
class TwoFourBlocks(BlockFormat):
    """Tiles of 16×block_k, each stored densely or, where it fits, as 2:4.

    - ``data`` dtype[dense tiles, 16, block_k]: row-major;
    - ``data24`` dtype[2:4 tiles, 16, block_k / 2] and ``metadata`` uint32[2:4 tiles, 8, block_k / 16]: values and
      metadata as ``mma.sp`` reads them, see :func:`metadata_words`.
    """

    count_names: ClassVar[tuple[str, ...]] = (*BlockFormat.count_names, "blocks24", "blocks_dense")

    data: Values
    data24: Values
    metadata: UInt32

    @property
    def block_shape(self) -> tuple[int, int]:
        _, block_m, block_k = self.data.shape
        return block_m, block_k

    @property
    def stored_slots(self) -> int:
        return int(self.data.size + self.data24.size)

    @property
    def blocks(self) -> int:
        return len(self.data) + len(self.data24)

    def counts(self) -> dict[str, int]:
        """``blocks24`` and ``blocks_dense``, besides the counts of every format of blocks."""
        return {**super().counts(), "blocks24": len(self.data24), "blocks_dense": len(self.data)}

    def stats(self) -> dict[str, float | int]:
        """The statistics of block formats, and the fractions of 2:4 and of dense tiles among the stored ones."""
        fraction = len(self.data24) / self.blocks if self.blocks else 0.0
        return {
            **super().stats(),
            "sparse24_tile_fraction": fraction,
            "dense_tile_fraction": 1 - fraction if self.blocks else 0.0,
        }


def split(blocks: Blocks, values: Any, dtype: str) -> tuple[Any, dict[str, Any]]:
    """Which blocks fit 2:4, bool[blocks], and the arrays of :class:`TwoFourBlocks`, both classes in block order."""
    xp = array_module(blocks.slots)
    count, rows, columns = blocks.shape
    groups = occupancy(blocks.occupied())
    is_24 = fits(groups)
    entries, size = rounded(values, dtype), rows * columns
    block, within = blocks.slots // size, blocks.slots % size
    fitting = is_24[block]
    # Entries go straight to their places: most slots of a tile are zero, and are never touched.
    stays = ~fitting
    data = xp.zeros((int((~is_24).sum()), rows, columns), dtype=entries.dtype)
    data.reshape(-1)[(xp.cumsum(~is_24) - 1)[block[stays]] * size + within[stays]] = entries[stays]
    # Of the two columns that a group keeps, an entry is the first or the second.
    first = xp.asarray(PAIRS[:, 0])[groups.reshape(-1)[blocks.slots[fitting] // 4]]
    place = within[fitting] // 4 * 2 + (within[fitting] % 4 != first)
    data24 = xp.zeros((count - len(data), rows, columns // 2), dtype=entries.dtype)
    data24.reshape(-1)[(xp.cumsum(is_24) - 1)[block[fitting]] * (size // 2) + place] = entries[fitting]
    nibbles = xp.asarray(NIBBLES)[groups[is_24]]
    return is_24, {"data": data, "data24": data24, "metadata": metadata_words(nibbles)}


def codes_of(is_24: Any) -> Any:
    """int32[blocks]: 2p for a block that is 2:4 tile p, 2p + 1 for one that is dense tile p."""
    xp = array_module(is_24)
    return xp.where(is_24, 2 * xp.cumsum(is_24) - 2, 2 * xp.cumsum(~is_24) - 1).astype(xp.int32)


def entries_24(data24: Any, metadata: Any, block_rows: Any, block_columns: Any, dtype: str) -> tuple[Any, Any, Any]:
    """Rows int64, columns int64 and float64 values of the non-zeros of 2:4 tiles, their columns from the metadata.

    ``block_rows`` and ``block_columns`` (int64[tiles]) give the position of each tile.
    """
    _, block_m, half_k = data24.shape
    slot = nonzero_slots(data24)
    tile, row, column = slot // (block_m * half_k), slot // half_k % block_m, slot % half_k
    shift = (16 * (row // 8) + 2 * (column % 8)).astype(metadata.dtype)
    within_group = metadata[tile, row % 8, column // 8] >> shift & 3
    rows = block_rows[tile] * block_m + row
    columns = block_columns[tile] * (2 * half_k) + column // 2 * 4 + within_group
    return rows, columns.astype(rows.dtype), widened(data24.reshape(-1)[slot], dtype)


def checked_block_k(block_k: int, name: str) -> int:
    """``block_k``; raises :class:`FormatError` unless ``mma.sp`` has a 16-bit product of that reduction."""
    if block_k not in (16, 32):
        raise FormatError(f"{name} has tiles of 16 or 32 columns, the reductions of mma.sp, not {block_k}")
    return block_k
