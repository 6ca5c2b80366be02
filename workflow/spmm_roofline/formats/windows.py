"""Windows: the non-empty columns of a few rows, sixteen to a tile.

After FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025): the sparse matrix is the narrow operand of mma.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from . import builder
from .arrays import array_module, ceil_div, csr_of_entries, distinct, nonzero_slots, row_of_entry
from .base import Format, FormatError, Int32, Packer, Survey, Values
from .partitions import PartitionRule, partitioned, waves_of
from .values import rounded, widened

#: Columns of a tile.
TILE_K = 16
#: A window costs one extra tile, for its rows of C.
RULE = PartitionRule(segment_cost=1, least_cost=16, least_slack=6, slack_divisor=8, small=32, small_slack=10)
#: On a device, lane groups merge a window in chunks of about this many entries.
CHUNK_ENTRIES = 64
#: Largest number of warps that receive the windows of a partition: the warps of the largest CTA.
MOST_WARPS = 32


def most_tiles(window: int) -> int:
    """Largest number of tiles of ``window`` rows: kernels count their lanes in 32 bits, four for each row of a tile."""
    return 2**30 // window - 1


class Counted(NamedTuple):
    """Results of counting on a device, for packing."""

    indptr: Any
    """int32[m+1]"""
    indices: Any
    """int32[nnz]"""
    columns_before: Any
    """int32[chunks]: columns of a window before each of its chunks"""
    begins: Any
    """int32[windows+1]: first tile of each window"""
    counts: Any
    """int32[2]: all tiles, entries of the longest row"""


@dataclass(frozen=True)
class Windows(Format):
    """Windows of ``window`` rows, tiles of 16 of their columns, and work partitions of the tiles.

    The windows of a partition are dealt to the ``warps`` of its CTA, each window to the warp with the fewest tiles, and
    the windows of a warp are stored one after the other. A window that began in the previous partition comes
    first, a window that continues in the next comes last.

    - ``columns`` int32[tiles, 16]: the columns of a tile, ascending; a window's last column fills its last tile. A
      window without entries has one tile, of column 0;
    - ``data`` dtype[tiles, window, 16]: their values, row by row;
    - ``ends`` int32[tiles]: the window that ends with this tile, or -1;
    - ``work`` int32[partitions, 4], ``cut`` int32[partials, 4]: see :func:`.partitions.partitioned`; a segment is a
      window, an element a tile.
    """

    count_names: ClassVar[tuple[str, ...]] = (*Format.count_names, "partitions", "partials")
    #: Rows of a window.
    window: ClassVar[int]

    columns: Int32
    data: Values
    ends: Int32
    work: Int32
    cut: Int32

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float16",
        ctas: int = 2,
        multiprocessors: int = 1,
        warps: int = 1,
        wave_columns: int = 0,
        survey: Survey | None = None,
        packer: Packer | None = None,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`. ``survey`` is the result of :meth:`survey`.

        There are at most ``ctas`` partitions per multiprocessor in each wave of ``wave_columns`` columns of A
        (:func:`.partitions.waves_of`), fewer if they would be too small. Raises :class:`FormatError` unless there
        are 1 to 32 ``warps``, and for 2³¹ or more non-zeros or more than :func:`most_tiles`, too many for 32-bit
        positions.
        """
        if not 1 <= warps <= MOST_WARPS:
            raise FormatError(f"{cls.name} is for 1 to {MOST_WARPS} warps, not {warps}")
        cls._check_entries(a)
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        values, most = rounded(a.data, dtype, copy=False), ctas * multiprocessors * waves_of(m, k, wave_columns)
        if xp is np:
            arrays = _on_host(a, m, k, nnz, values, cls.window, most, warps)
        else:
            counted = survey.kept if survey else _count_on_device(a, cls.window, cls.given(packer))
            arrays = _on_device(m, counted, values, cls.window, most, warps, cls.given(packer))
        return cls((m, k), nnz, dtype, *arrays)

    @classmethod
    def survey(cls, a: Any, packer: Packer | None = None, longest: int | None = None) -> Survey:
        """Tiles and longest row of a canonical CSR; on a device no value is read.

        Raises :class:`FormatError` for 2³¹ or more non-zeros.
        """
        cls._check_entries(a)
        xp = array_module(a.data)
        if xp is np:
            return super().survey(a, longest=longest)
        counted = _count_on_device(a, cls.window, cls.given(packer))
        tiles, longest = counted.counts.get().tolist()
        return Survey(tiles, longest, counted)

    @classmethod
    def _check_entries(cls, a: Any) -> None:
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {a.nnz:,} non-zeros")

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        # A tile belongs to the window that ends with this tile or with the next tile that ends a window.
        last = xp.flatnonzero(self.ends >= 0)
        slot = nonzero_slots(self.data)
        tile, within = slot // (self.window * TILE_K), slot % (self.window * TILE_K)
        window = self.ends[last].astype(xp.int64)[xp.searchsorted(last, tile)]
        rows = window * self.window + within // TILE_K
        columns = self.columns[tile, within % TILE_K]
        return csr_of_entries(rows, columns, widened(self.data.reshape(-1)[slot], self.dtype), self.shape)

    @property
    def stored_slots(self) -> int:
        return int(self.data.size)

    @property
    def blocks(self) -> int:
        """Tiles."""
        return len(self.columns)

    def counts(self) -> dict[str, int]:
        """``partitions``, and ``partials`` of split windows, besides the counts of every format."""
        return {**super().counts(), "partitions": len(self.work), "partials": len(self.cut)}


def _check_count(tiles: int, rows: int) -> None:
    """Raise :class:`FormatError` for too many tiles of windows of ``rows`` rows."""
    if tiles > most_tiles(rows):
        raise FormatError(f"windows have 32-bit positions, too short for {tiles:,} tiles of {rows} rows")


def _on_host(a: Any, m: int, k: int, nnz: int, values: Any, rows: int, most: int, warps: int) -> tuple[Any, ...]:
    """The arrays of windows of ``rows`` rows, in the order of the format's fields, in at most ``most`` partitions."""
    windows = ceil_div(m, rows)
    row = row_of_entry(a.indptr, nnz)
    keys, vector = distinct(row // rows * max(k, 1) + a.indices)
    first = np.searchsorted(keys, np.arange(windows + 1, dtype=np.int64) * max(k, 1))
    vectors = np.diff(first)
    tiles = np.maximum(-(-vectors // TILE_K), 1)
    begins = np.zeros(windows + 1, dtype=np.int64)
    begins[1:] = np.cumsum(tiles)
    count = int(begins[-1])
    _check_count(count, rows)
    work, cut = partitioned(begins, RULE, most)
    first_tile = _dealt(begins, work, warps)
    # Slot of a column vector: first slot of its window, plus its index among the vectors of the window.
    window = keys // max(k, 1)
    slot = first_tile[window] * TILE_K + np.arange(len(keys)) - first[window]
    last = np.zeros(windows, dtype=np.int32)
    last[vectors > 0] = keys[first[1:][vectors > 0] - 1] % max(k, 1)
    order = np.argsort(first_tile)
    columns = np.repeat(last[order], tiles[order] * TILE_K)
    columns[slot] = (keys - window * k).astype(np.int32)
    data = np.zeros((count, rows, TILE_K), dtype=values.dtype)
    slot_of_entry = slot[vector]
    data[slot_of_entry // TILE_K, row % rows, slot_of_entry % TILE_K] = values
    ends = np.full(count, -1, dtype=np.int32)
    ends[first_tile + tiles - 1] = np.arange(windows)
    return columns.reshape(count, TILE_K), data, ends, work, cut


def _dealt(begins: Any, work: Any, warps: int) -> Any:
    """First tile of each window, int64[windows], after the whole windows of a partition are dealt to its warps.

    A kernel cuts a partition's tiles into equal runs, one per warp. The lists of the warps are therefore laid out so
    that their running total stays close to that of equal lists; the first and the last list keep their positions.
    """
    first_tile = begins[:-1].astype(np.int64)
    tiles = np.diff(begins).tolist()
    for begin, end in work[:, :2].tolist() if warps > 1 else ():
        first, stop = np.searchsorted(begins, begin), np.searchsorted(begins, end, side="right") - 1
        if first >= stop:
            continue
        load = [0] * warps
        load[0], load[-1] = int(begins[first]) - begin, end - int(begins[stop])
        least = [(tiles_of, warp) for warp, tiles_of in enumerate(load)]
        heapq.heapify(least)
        dealt: list[list[int]] = [[] for _ in load]
        for window in range(first, stop):
            tiles_of, warp = least[0]
            dealt[warp].append(window)
            load[warp] = tiles_of + tiles[window]
            heapq.heapreplace(least, (load[warp], warp))
        mean = (end - begin) // warps
        excess, waiting, order = load[0] - mean, list(range(1, warps - 1)), list(dealt[0])
        while waiting:
            warp = min(waiting, key=lambda warp: abs(excess + load[warp] - mean))
            waiting.remove(warp)
            excess += load[warp] - mean
            order += dealt[warp]
        order += dealt[-1]
        lengths = np.diff(begins)[order]
        first_tile[order] = begins[first] + np.cumsum(lengths) - lengths
    return first_tile


def _on_device(
    m: int, counted: Counted, values: Any, rows: int, most: int, warps: int, pack: Packer
) -> tuple[Any, ...]:
    """The same arrays as :func:`_on_host`, made on the device without a sort."""
    import cupy as xp

    indptr, indices, columns_before, begins, _ = counted
    windows, chunks = len(begins) - 1, len(columns_before)
    count, work, cut = builder.partitions(pack, begins, most, RULE)
    _check_count(count, rows)
    # A copy: dealing moves windows.
    first_tile = xp.empty(windows, dtype=xp.int32)
    first_tile.data.copy_from_device_async(begins.data, first_tile.nbytes)
    if warps > 1 and windows:
        pack("deal_windows", len(work), begins, windows, work, warps, first_tile, threads=32)
    columns = xp.empty((count, TILE_K), dtype=xp.int32)
    data = xp.zeros((count, rows, TILE_K), dtype=values.dtype)
    ends = xp.empty(count, dtype=xp.int32)
    ends.data.memset_async(0xFF, ends.nbytes)  # -1
    if windows:
        structure = indptr, indices, values, columns_before, begins, first_tile, m, windows, chunks, CHUNK_ENTRIES
        pack(f"scatter_{8 * values.itemsize}", builder.ctas(chunks * rows), *structure, columns, data, ends)
    return columns, data, ends, work, cut


def _count_on_device(a: Any, rows: int, pack: Packer) -> Counted:
    """Tiles of the windows of a CSR on a device, for windows of ``rows`` rows."""
    import cupy as xp

    m, nnz = int(a.shape[0]), int(a.nnz)
    indptr, indices = a.indptr.astype(xp.int32, copy=False), a.indices.astype(xp.int32, copy=False)
    windows = ceil_div(m, rows)
    chunks = windows + nnz // CHUNK_ENTRIES
    columns = xp.empty(chunks, dtype=xp.int32)
    pack("count_columns", builder.ctas(chunks * rows), indptr, indices, m, windows, chunks, CHUNK_ENTRIES, columns)
    begins, states = xp.empty(windows + 1, dtype=xp.int32), builder.scan_states(windows, more=1)
    counts = states[-1:].view(xp.int32)
    pack("count_tiles", builder.ctas(windows), indptr, columns, m, windows, CHUNK_ENTRIES, states, begins, counts)
    return Counted(indptr, indices, columns, begins, counts)
