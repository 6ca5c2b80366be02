"""Panels of 64 rows: the columns that a panel uses, 32 to a tile, and the entries of each tile as a list.

Neighbouring rows of a structural or fluid problem have most columns in common, so a panel uses far fewer columns than
it has entries. A tile is made from its list when it is multiplied: as a block, zeros included, it would take several
times as much memory.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from . import builder
from .arrays import array_module, ceil_div, csr_of_entries, distinct, nonzero_slots, row_of_entry
from .base import Format, FormatError, Int32, Packer, Survey, UInt16, Values
from .items import PANEL_COST, cost_of, items_of
from .values import rounded, widened

#: Rows of a panel and columns of a tile.
ROWS, COLUMNS = 64, 32
#: Bytes of a tile of 16-bit values, and the position of what only fills a run.
TILE_BYTES = 2 * ROWS * COLUMNS
#: The entries of a tile are listed in runs, which kernels read at once.
RUN = 4
#: Panels are dealt to partitions longest first, in rounds of this many for each partition, so that those that are
#: worked on at the same time lie close together.
ROUND = 4
#: Largest number of partitions: one warp deals to all.
MOST_PARTITIONS = 512
#: Largest number of rows: the packer numbers its threads in 32 bits with a sign, 256 for each panel.
MOST_ROWS = 2**29 - 1
#: Largest number of tiles: kernels count the 32 columns of each in 32 bits.
MOST_TILES = 2**26 - 1


@dataclass(frozen=True)
class Panels64x32(Format):
    """Panels of 64 rows, tiles of 32 of their columns, and partitions of whole panels.

    - ``columns`` int32[tiles, 32]: the columns of a tile, ascending; a panel's last column fills its last tile. A panel
      without entries has one tile, of column 0;
    - ``runs`` int32[tiles, 2]: the first slot of a tile's entries, row by row, and the slot after its last one, both
      multiples of four;
    - ``positions`` uint16[slots]: where an entry lies in the tile, in bytes of 16-bit values, if the tile consists of
      core matrices of 8×8 values, four of them along the columns, then the next eight rows
      (``kernels/include/ptx/wgmma.cuh``). What only fills a run of four lies behind the tile;
    - ``data`` dtype[slots]: the values;
    - ``work_ptr`` int32[partitions+1]: first item of a partition. Of all of them, 2i has the i-th most work and 2i + 1
      the i-th least, so that both together have a fair share;
    - ``work`` int32[items, 4]: a panel, or a part of a long one: first tile, the tile after its last one, panel, and
      its partial sum as an index in ``cut``, or -1. A CTA works on the items of its partition in this order;
    - ``cut`` int32[partials, 4]: first partial sum of the same panel, their number, the panel, and 0.
    """

    name: ClassVar[str] = "panels_64x32"
    packer: ClassVar[str | None] = "panels"
    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "partitions", "partials")

    columns: Int32
    runs: Int32
    positions: UInt16
    data: Values
    work_ptr: Int32
    work: Int32
    cut: Int32

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float16",
        ctas: int = 2,
        multiprocessors: int = 1,
        survey: Survey | None = None,
        packer: Packer | None = None,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`. ``survey`` is the result of :meth:`survey`.

        There are ``ctas`` partitions per multiprocessor, but at most 512. Raises :class:`FormatError` for 2²⁹ or more
        rows, 2²⁶ or more tiles, or entries that fill 2³¹ or more slots, too many for 32-bit positions.
        """
        cls._check_size(a)
        values, partitions = rounded(a.data, dtype), min(ctas * multiprocessors, MOST_PARTITIONS)
        if array_module(a.data) is np:
            arrays = _on_host(a, values, partitions)
        else:
            begins = survey.kept if survey else _count_on_device(a, cls.given(packer))
            arrays = _on_device(a, begins, values, partitions, cls.given(packer))
        return cls((int(a.shape[0]), int(a.shape[1])), int(a.nnz), dtype, *arrays)

    @classmethod
    def survey(cls, a: Any, packer: Packer | None = None, longest: int | None = None) -> Survey:
        """Tiles and longest row of a canonical CSR; on a device no value is read.

        Raises :class:`FormatError` for 2³¹ or more non-zeros, or 2²⁹ or more rows.
        """
        cls._check_size(a)
        if array_module(a.data) is np:
            return super().survey(a, longest=longest)
        begins = _count_on_device(a, cls.given(packer))
        return Survey(int(begins[-1]), cls._longest_row(a) if longest is None else longest, begins)

    @classmethod
    def _check_size(cls, a: Any) -> None:
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {a.nnz:,} non-zeros")
        if a.shape[0] > MOST_ROWS:
            raise FormatError(f"{cls.name} is packed by threads with 32-bit numbers, too short for {a.shape[0]:,} rows")

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        slot = nonzero_slots(self.data)
        tile = xp.searchsorted(self.runs[:, 0], slot, side="right") - 1
        order = xp.argsort(self.work[:, 0])
        item = order[xp.searchsorted(self.work[order, 0], tile, side="right") - 1]
        row, column = _slot_of_position(self.positions[slot].astype(xp.int64))
        rows = self.work[item, 2].astype(xp.int64) * ROWS + row
        columns = self.columns[tile, column].astype(xp.int64)
        return csr_of_entries(rows, columns, widened(self.data[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def covered_slots(self) -> int:
        """Slots of all tiles: what tensor cores multiply."""
        return int(self.columns.size) * ROWS

    @property
    def blocks(self) -> int:
        """Tiles."""
        return len(self.columns)

    def counts(self) -> dict[str, int]:
        """``partitions``, and ``partials`` of split panels, besides the counts of every format."""
        return {**super().counts(), "partitions": len(self.work_ptr) - 1, "partials": len(self.cut)}


def _on_host(a: Any, values: Any, partitions: int) -> tuple[Any, ...]:
    """The arrays of the format, in the order of its fields."""
    m, nnz, width = a.shape[0], len(values), max(a.shape[1], 1)
    panels = ceil_div(m, ROWS)
    row = row_of_entry(a.indptr, nnz)
    keys, vector = distinct(row // ROWS * width + a.indices)
    first = np.searchsorted(keys, np.arange(panels + 1, dtype=np.int64) * width)
    used = np.diff(first)
    begins = _offsets(np.maximum(-(-used // COLUMNS), 1))
    tiles = int(begins[-1])
    slots = _check_slots(nnz, tiles, panels)
    # Place of a column: first place of its panel, plus its index among the columns of the panel.
    panel = keys // width
    place = begins[panel] * COLUMNS + np.arange(len(keys)) - first[panel]
    last = np.zeros(panels, dtype=np.int32)
    last[used > 0] = keys[first[1:][used > 0] - 1] % width
    columns = np.repeat(last, np.diff(begins) * COLUMNS)
    columns[place] = keys - panel * width

    tile = place[vector] // COLUMNS
    order = np.argsort(tile, kind="stable")
    counts = np.bincount(tile, minlength=tiles)
    filled = _offsets(-(-counts // RUN) * RUN)
    # Panels begin where a device finds them without counting the entries of tiles before.
    begin_of_panel = _rounded_up(a.indptr[::ROWS][:panels].astype(np.int64)) + RUN * (begins[:-1] + np.arange(panels))
    begin = filled[:-1] + np.repeat(begin_of_panel - filled[begins[:-1]], np.diff(begins))
    tile = tile[order]
    slot = begin[tile] + np.arange(nnz) - _offsets(counts)[tile]
    positions = np.full(slots, TILE_BYTES, dtype=np.uint16)
    positions[slot] = _position(row % ROWS, place[vector] % COLUMNS)[order]
    data = np.zeros(slots, dtype=values.dtype)
    data[slot] = values[order]
    runs = np.stack([begin, begin + np.diff(filled)], axis=1).astype(np.int32)
    dealt = _dealt(*items_of(begins, _parts(begins, partitions)), partitions)
    return columns.reshape(tiles, COLUMNS), runs, positions, data, *dealt


def _parts(begins: Any, partitions: int) -> Any:
    """Number of parts of each panel, int64[panels], so that no part exceeds one and a half shares of a partition.

    But a panel of t tiles has at most √t / 2 parts, because the sums of its parts are added up one after the other.
    """
    tiles = np.diff(begins)
    parts = ceil_div(2 * tiles * partitions, 3 * cost_of(begins)) if len(tiles) else tiles
    return np.maximum(np.minimum(parts, np.sqrt(tiles // 4).astype(np.int64)), 1)


def _dealt(work: Any, cut: Any, partitions: int) -> tuple[Any, Any, Any]:
    """``work_ptr``, ``work`` and ``cut`` after each item was dealt to the partition that had least work.

    Longest first within a round; among equals the first item, and the first partition. Then those with most and those
    with least work take turns.
    """
    cost = work[:, 1] - work[:, 0] + PANEL_COST
    rounds = np.arange(len(work)) // (ROUND * partitions)
    load = [(0, partition) for partition in range(partitions)]
    dealt: list[list[int]] = [[] for _ in load]
    order = np.lexsort((-cost, rounds))
    for item, cost_of_item in zip(order.tolist(), cost[order].tolist(), strict=True):
        least, partition = load[0]
        heapq.heapreplace(load, (least + cost_of_item, partition))
        dealt[partition].append(item)
    ranked = [dealt[partition] for _, partition in sorted(load, key=lambda of: (-of[0], of[1]))]
    half = ceil_div(partitions, 2)
    dealt[::2], dealt[1::2] = ranked[:half], ranked[half:][::-1]
    work_ptr = _offsets(np.array([len(items) for items in dealt])).astype(np.int32)
    return work_ptr, work[[item for items in dealt for item in items]], cut


def _count_on_device(a: Any, pack: Packer) -> Any:
    """First tile of each panel, then the number of tiles, int32[panels+1]."""
    import cupy as xp

    panels = ceil_div(int(a.shape[0]), ROWS)
    if not panels:
        return xp.zeros(1, dtype=xp.int32)
    begins = xp.empty(panels + 1, dtype=xp.int32)
    states = builder.scan_states(builder.CTA * panels)
    pack("count_panels", panels, *_structure(a), int(a.shape[0]), states, begins)
    return begins


def _structure(a: Any) -> tuple[Any, Any]:
    """``indptr`` and ``indices`` as kernels read them."""
    return a.indptr.astype("int32", copy=False), a.indices.astype("int32", copy=False)


def _on_device(a: Any, begins: Any, values: Any, partitions: int, pack: Packer) -> tuple[Any, ...]:
    """The same arrays as :func:`_on_host`, made on the device without a sort."""
    import cupy as xp

    m, nnz = int(a.shape[0]), int(a.nnz)
    indptr, indices = _structure(a)
    panels = ceil_div(m, ROWS)
    # Without panels nothing is launched. To clear memory takes the host longer than to find it.
    found = xp.empty if panels else xp.zeros
    work_ptr = found(partitions + 1, dtype=xp.int32)
    # A share of a partition makes at most one more item, and a split panel has more than one share.
    items, cut = xp.empty((panels + partitions, 4), dtype=xp.int32), xp.empty((2 * partitions, 4), dtype=xp.int32)
    counts = found(3, dtype=xp.int32)
    if panels:
        pack("cut_panels", 1, begins, panels, partitions, items, cut, counts, threads=builder.CUTTER)
    tiles, count, partials = counts.get().tolist()
    slots = _check_slots(nnz, tiles, panels)
    columns, runs = xp.empty((tiles, COLUMNS), dtype=xp.int32), xp.empty((tiles, 2), dtype=xp.int32)
    positions, data = xp.empty(slots, dtype=xp.uint16), xp.empty(slots, dtype=values.dtype)
    work = xp.empty((count, 4), dtype=xp.int32)
    if panels:
        order, dealt = xp.empty(count, dtype=xp.int32), xp.empty((count, 2), dtype=xp.int32)
        of_round = ROUND * partitions
        ctas = ceil_div(count, of_round) * builder.ctas(of_round)
        pack("order_items", ctas, items, count, of_round, order)
        pack("deal_items", 1, items, order, count, partitions, dealt, work_ptr, work, threads=MOST_PARTITIONS)
        entry = f"pack_panels_{8 * values.itemsize}"
        pack(entry, panels, indptr, indices, values, begins, m, columns, runs, positions, data)
    return columns, runs, positions, data, work_ptr, work, cut[:partials]


def _check_slots(nnz: int, tiles: int, panels: int) -> int:
    """Number of slots; raises :class:`FormatError` if these or the columns of all tiles need more than 31 bits."""
    slots = _rounded_up(nnz) + RUN * (tiles + panels)
    if tiles > MOST_TILES or slots >= 2**31:
        raise FormatError(f"panels have 32-bit positions, too short for {tiles:,} tiles with {slots:,} slots")
    return slots


def _rounded_up(count: Any) -> Any:
    """Smallest multiple of a run that is not below ``count``."""
    return (count + RUN - 1) // RUN * RUN


def _offsets(counts: Any) -> Any:
    """Exclusive prefix sums of ``counts``, then their sum, int64[counts+1]."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    offsets[1:] = np.cumsum(counts)
    return offsets


def _position(row: Any, column: Any) -> Any:
    """Byte of the slot (row, column) in a tile of core matrices of 8×8 values."""
    return row // 8 * (16 * COLUMNS) + column // 8 * 128 + row % 8 * 16 + column % 8 * 2


def _slot_of_position(position: Any) -> tuple[Any, Any]:
    """Row and column of a byte in a tile, the inverse of :func:`_position`."""
    in_rows, core, in_core = position // (16 * COLUMNS), position % (16 * COLUMNS) // 128, position % 128
    return in_rows * 8 + in_core // 16, core * 8 + in_core % 16 // 2


FORMAT = Panels64x32
