"""Columns of a few rows with an entry, sixteen to a tile: what the formats of windows have in common.

After FlashSparse (Shi et al. 2024) and Acc-SpMM (Zhao et al. 2025): the sparse matrix is the narrow operand of mma.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from . import builder
from .base import (
    Format,
    FormatError,
    Survey,
    array_module,
    ceil_div,
    csr_of_entries,
    distinct,
    nonzero_slots,
    rounded,
    row_of_entry,
    widened,
)
from .shares import equal_shares

#: Columns of a tile.
TILE_K = 16
#: Cost of a window's rows of C, in tiles.
WINDOW_COST = 1
#: What a share costs at least.
LEAST_COST = 16
#: A share may begin and end so many tiles, or that part of itself, sooner or later, so that no window is cut; and where
#: it costs less than ``SMALL``, so many.
LEAST_SLACK, SLACK, SMALL, SMALL_SLACK = 6, 8, 32, 10
#: Tiles whose lanes a kernel still counts in 32 bits.
TILES_MOST = 2**27 - 1
#: Entries of a window that a group of lanes merges, about, when a device packs it.
STRETCH = 64
#: Warps to which the windows of a share are dealt at most: as many as a CTA has.
WARPS_MOST = 32

#: The code that packs on a device.
BUILDER = Path(__file__).with_suffix(".cu")


def builder_defines(window: int) -> dict[str, str]:
    """Macros of that code for windows of so many rows."""
    slack = {"LEAST_SLACK": LEAST_SLACK, "SLACK": SLACK, "SMALL": SMALL, "SMALL_SLACK": SMALL_SLACK}
    return builder.defines(WINDOW_COST, LEAST_COST, WINDOW=window, TILE_K=TILE_K, STRETCH=STRETCH, **slack)


@dataclass(frozen=True)
class Windows(Format):
    """Windows of ``window`` rows, tiles of 16 of their columns, and equal shares of them.

    A share's windows are dealt to ``warps`` warps in turn, to each one as soon as it is done with those it has, if all
    need as long for a tile; those of a warp follow each other. What of a window began in the share before is first, and
    what goes on in the next share is last.

    - ``columns`` int32[tiles, 16]: the columns of a tile, ascending; where the window has no more, its last one again.
      A window without entries has one tile, of column 0;
    - ``data`` dtype[tiles, window, 16]: their values, row by row;
    - ``ends`` int32[tiles]: the window that ends with this tile, or -1;
    - ``work`` int32[shares, 4]: the first tile of a share, the tile after its last one, and the numbers of the parts
      that it holds of windows that are cut: of the one that began before, and of the one that goes on after (where
      that is the same window, this one alone); -1 where there is none;
    - ``cut`` int32[parts, 4]: of each part the first one of its window, how many there are, the window, and the share.
    """

    #: Rows of a window.
    window: ClassVar[int]

    columns: Any
    data: Any
    ends: Any
    work: Any
    cut: Any

    @classmethod
    def from_csr(
        cls,
        a: Any,
        dtype: str = "float16",
        ctas: int = 2,
        multiprocessors: int = 1,
        warps: int = 1,
        survey: Survey | None = None,
    ) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`. ``survey`` is what :meth:`survey` gave for it.

        There are up to ``ctas`` shares for each of so many ``multiprocessors``, fewer where they would be too small.
        Raises :class:`FormatError` unless there are 1 to 32 ``warps``, and from 2³¹ non-zeros or 2²⁷ tiles on, which
        32-bit positions do not count.
        """
        if not 1 <= warps <= WARPS_MOST:
            raise FormatError(f"{cls.name} is for 1 to {WARPS_MOST} warps, not {warps}")
        cls._check_entries(a)
        xp = array_module(a.data)
        m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
        values, most = rounded(a.data, dtype), ctas * multiprocessors
        if xp is np:
            arrays = _on_host(a, m, k, nnz, values, cls.window, most, warps)
        else:
            kept = survey.kept if survey else _counted_on_device(a, cls.window)
            arrays = _on_device(a, kept, values, cls.window, most, warps)
        return cls((m, k), nnz, dtype, *arrays)

    @classmethod
    def survey(cls, a: Any) -> Survey:
        """Tiles and longest row of a canonical CSR, on a device without a value of them. Raises :class:`FormatError`
        from 2³¹ non-zeros on."""
        cls._check_entries(a)
        xp = array_module(a.data)
        if xp is np:
            return super().survey(a)
        kept = _counted_on_device(a, cls.window)
        return Survey(*kept[-1].get().tolist(), kept)

    @classmethod
    def _check_entries(cls, a: Any) -> None:
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {a.nnz:,} non-zeros")

    def to_csr(self) -> Any:
        """The matrix as float64 CSR, from the non-zero slots."""
        xp = array_module(self.columns)
        # The window of a tile: the first one that ends with it or after it.
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
        """``shares``, and ``parts`` of windows that are cut, beside the usual counts."""
        return {**super().counts(), "shares": len(self.work), "parts": len(self.cut)}


def _check_count(tiles: int) -> None:
    if tiles > TILES_MOST:
        raise FormatError(f"windows have 32-bit positions, too short for {tiles:,} tiles")


def _share_count(tiles: int, windows: int, most: int) -> tuple[int, int]:
    """The cost of all tiles and windows, and how many shares to make of it."""
    cost = tiles + WINDOW_COST * windows
    return cost, max(min(most, cost // LEAST_COST), 1)


def _slack(cost: int, shares: int) -> int:
    """Tiles by which the border of a share may move to that of a window."""
    size = cost // shares
    return max(size // SLACK, SMALL_SLACK if size < SMALL else LEAST_SLACK)


def _on_host(a: Any, m: int, k: int, nnz: int, values: Any, rows: int, most: int, warps: int) -> tuple[Any, ...]:
    """The arrays of a format with windows of so many ``rows``, in the order of its fields, in up to ``most`` shares."""
    windows = ceil_div(m, rows)
    row = row_of_entry(a.indptr, nnz)
    keys, vector = distinct(row // rows * max(k, 1) + a.indices)
    first = np.searchsorted(keys, np.arange(windows + 1, dtype=np.int64) * max(k, 1))
    vectors = np.diff(first)
    tiles = np.maximum(-(-vectors // TILE_K), 1)
    begins = np.zeros(windows + 1, dtype=np.int64)
    begins[1:] = np.cumsum(tiles)
    count = int(begins[-1])
    _check_count(count)
    cost, shares = _share_count(count, windows, most)
    work, cut = equal_shares(begins, WINDOW_COST, shares, _slack(cost, shares))
    places = _dealt(begins, work, warps)
    # A vector's slot: its window's first one, and its place among the vectors of the window.
    window = keys // max(k, 1)
    slot = places[window] * TILE_K + np.arange(len(keys)) - first[window]
    last = np.zeros(windows, dtype=np.int32)
    last[vectors > 0] = keys[first[1:][vectors > 0] - 1] % max(k, 1)
    order = np.argsort(places)
    columns = np.repeat(last[order], tiles[order] * TILE_K)
    columns[slot] = (keys - window * k).astype(np.int32)
    data = np.zeros((count, rows, TILE_K), dtype=values.dtype)
    place = slot[vector]
    data[place // TILE_K, row % rows, place % TILE_K] = values
    ends = np.full(count, -1, dtype=np.int32)
    ends[places + tiles - 1] = np.arange(windows)
    return columns.reshape(count, TILE_K), data, ends, work, cut


def _dealt(begins: Any, work: Any, warps: int) -> Any:
    """The first tile of each window, int64[windows], where those that lie in one share are dealt to its warps.

    Borders of the warps' equal parts should be those of the lists: these follow each other so that their sums stray
    little from those of equal ones.
    """
    places = begins[:-1].astype(np.int64)
    tiles = np.diff(begins).tolist()
    for begin, end in work[:, :2].tolist() if warps > 1 else ():
        first, stop = np.searchsorted(begins, begin), np.searchsorted(begins, end, side="right") - 1
        if first >= stop:
            continue
        load = [0] * warps
        load[0], load[-1] = int(begins[first]) - begin, end - int(begins[stop])
        free = [(of, warp) for warp, of in enumerate(load)]
        heapq.heapify(free)
        dealt: list[list[int]] = [[] for _ in load]
        for window in range(first, stop):
            of, warp = free[0]
            dealt[warp].append(window)
            load[warp] = of + tiles[window]
            heapq.heapreplace(free, (load[warp], warp))
        mean = (end - begin) // warps
        astray, waiting, lists = load[0] - mean, list(range(1, warps - 1)), list(dealt[0])
        while waiting:
            warp = min(waiting, key=lambda warp: abs(astray + load[warp] - mean))
            waiting.remove(warp)
            astray += load[warp] - mean
            lists += dealt[warp]
        lists += dealt[-1]
        lengths = np.diff(begins)[lists]
        places[lists] = begins[first] + np.cumsum(lengths) - lengths
    return places


def _on_device(a: Any, kept: tuple[Any, ...], values: Any, rows: int, most: int, warps: int) -> tuple[Any, ...]:
    """What :func:`_on_host` makes, on the device and without a sort, from what :func:`_counted_on_device` counted."""
    import cupy as xp

    build = builder.launcher(BUILDER, builder_defines(rows))
    indptr, indices, before, begins, _ = kept
    windows, stretches = len(begins) - 1, len(before)
    count, work, cut = builder.shares(build, begins, most)
    _check_count(count)
    # Windows that are dealt begin elsewhere.
    places = xp.empty(windows, dtype=xp.int32)
    places.data.copy_from_device_async(begins.data, places.nbytes)
    if warps > 1 and windows:
        build("deal", len(work), begins, windows, work, warps, places, threads=32)
    columns = xp.empty((count, TILE_K), dtype=xp.int32)
    data = xp.zeros((count, rows, TILE_K), dtype=values.dtype)
    ends = xp.empty(count, dtype=xp.int32)
    ends.data.memset_async(0xFF, ends.nbytes)  # -1 where no window ends
    if windows:
        given = indptr, indices, values, before, begins, places, int(a.shape[0]), windows, stretches
        build(f"place_{8 * values.itemsize}", builder.ctas(stretches * rows), *given, columns, data, ends)
    return columns, data, ends, work, cut


def _counted_on_device(a: Any, rows: int) -> tuple[Any, ...]:
    """Row pointers and columns of a CSR, int32, and of windows of so many ``rows``: how many columns each stretch of a
    window has before it, int32[stretches], the first tile of each window, int32[windows+1], and all tiles and entries
    of the longest row, int32[2]."""
    import cupy as xp

    build = builder.launcher(BUILDER, builder_defines(rows))
    m, nnz = int(a.shape[0]), int(a.nnz)
    indptr, indices = a.indptr.astype(xp.int32, copy=False), a.indices.astype(xp.int32, copy=False)
    windows = ceil_div(m, rows)
    stretches = windows + nnz // STRETCH
    before = xp.empty(stretches, dtype=xp.int32)
    build("count_columns", builder.ctas(stretches * rows), indptr, indices, m, windows, stretches, before)
    begins, numbers = xp.empty(windows + 1, dtype=xp.int32), xp.zeros(2, dtype=xp.int32)
    build("count_tiles", builder.ctas(windows), indptr, before, m, windows, builder.states(windows), begins, numbers)
    return indptr, indices, before, begins, numbers
