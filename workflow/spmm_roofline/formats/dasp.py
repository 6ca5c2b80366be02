"""Rows by length in 8×4 tiles of double-precision tensor cores: DASP (Lu & Liu 2023), for products with one vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .arrays import array_module, ceil_div, csr_of_entries, nonzero_slots, row_of_entry
from .base import Format, FormatError, Int32, Values
from .values import rounded, widened

#: Rows and columns of a tile.
ROWS, COLUMNS = 8, 4
#: Rows of at least LONG entries are long, rows of at most SHORT entries short (Lu & Liu 2023, section 3.2).
LONG, SHORT = 256, 4
#: Tiles of a section of a long row: the work of one warp.
SECTION = 8
#: Least entries of a stored tile of eight medium rows: three quarters of its slots.
FULL = 24


@dataclass(frozen=True)
class Dasp(Format):
    """Tiles of 8×4 slots, ``data`` dtype[tiles, 8, 4] and ``indices`` int32 alike, each slot with its own column.

    - Tiles of long rows come first, each 32 entries of one row. ``long_row`` int32[…] lists the rows; a row is cut into
      sections of at most 8 tiles, one warp each, and ``partial_ptr`` int32[… + 1] gives the sections of each row;
    - tiles of medium rows follow, longest rows first, in blocks of eight rows: a tile has four entries of each row, as
      long as 24 of its slots are filled. ``medium_row`` int32[8 blocks] lists the rows, or -1. The remaining entries of
      medium row i are entries ``rest_ptr``[i] to ``rest_ptr``[i+1] - 1 of ``data_rest``, ``indices_rest``;
    - ``tile_ptr`` int32[sections + blocks + 1] gives the tiles of each section and block;
    - tiles of short rows come last. A row of a tile holds a row of one entry and one of three, or two rows of two, or
      one row of three or four. ``short_row`` int32[short tiles, 2, 8] lists the first and second rows of a tile, or -1;
    - rows of one entry that remain are ``data_single``, ``indices_single`` and the beginning of ``single_row``, whose
      end lists the empty rows.
    """

    name: ClassVar[str] = "dasp"
    count_names: ClassVar[tuple[str, ...]] = (
        *Format.count_names,
        *("one_three", "two_two", "long_rows", "partials", "medium_blocks", "short_tiles", "singles", "single_rows"),
    )

    one_three: int
    two_two: int
    data: Values
    indices: Int32
    tile_ptr: Int32
    long_row: Int32
    partial_ptr: Int32
    medium_row: Int32
    rest_ptr: Int32
    data_rest: Values
    indices_rest: Int32
    short_row: Int32
    single_row: Int32
    data_single: Values
    indices_single: Int32

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float64") -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Format.from_csr`.

        Raises :class:`FormatError` for 2³¹ or more slots, too many for 32-bit positions.
        """
        if a.nnz >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {a.nnz:,} non-zeros")
        xp = array_module(a.data)
        starts = a.indptr.astype(xp.int64)
        lengths = xp.diff(starts)

        long_row = xp.flatnonzero(lengths >= LONG)
        partial_ptr, long_ptr = _sections(-(-lengths[long_row] // (ROWS * COLUMNS)))

        medium = xp.flatnonzero((lengths > SHORT) & (lengths < LONG))
        medium = medium[xp.argsort(medium - lengths[medium] * a.shape[0])]
        blocks = ceil_div(len(medium), ROWS)
        of_medium = _Entries.of(medium, starts)
        full = _full_tiles(lengths[medium[::ROWS]], of_medium)
        block_ptr = _pointers(full)

        ones, twos, threes, fours = (xp.flatnonzero(lengths == length) for length in range(1, SHORT + 1))
        pairs = min(len(ones), len(threes))
        kinds = [
            (ones[:pairs], threes[:pairs]),
            (twos[::2], twos[1::2]),
            (xp.concatenate([threes[pairs:], fours]), fours[:0]),
        ]
        tiles = [ceil_div(len(first), ROWS) for first, _ in kinds]
        singles, empty = ones[pairs:], xp.flatnonzero(lengths == 0)

        tile_ptr = xp.concatenate([long_ptr, long_ptr[-1] + block_ptr[1:]])
        count = int(tile_ptr[-1]) + sum(tiles)
        if count * ROWS * COLUMNS >= 2**31:
            raise FormatError(f"{cls.name} has 32-bit positions, too short for {count:,} tiles of {ROWS * COLUMNS}")
        slots = _Slots(count, a, dtype)

        of_long = _Entries.of(long_row, starts)
        slots.put(of_long, ROWS * COLUMNS * long_ptr[partial_ptr[of_long.owner]] + of_long.rank)
        tiled = of_medium.rank < COLUMNS * full[of_medium.owner // ROWS]
        rest, of_medium = of_medium.where(~tiled), of_medium.where(tiled)
        tile = (long_ptr[-1] + block_ptr)[of_medium.owner // ROWS] + of_medium.rank // COLUMNS
        slots.put(of_medium, (tile * ROWS + of_medium.owner % ROWS) * COLUMNS + of_medium.rank % COLUMNS)

        first_tile, short_row = int(tile_ptr[-1]), []
        for (first, second), number, width in zip(kinds, tiles, (1, 2, COLUMNS), strict=True):
            for rows, shift in ((first, 0), (second, width)):
                entries = _Entries.of(rows, starts)
                slots.put(entries, (first_tile * ROWS + entries.owner) * COLUMNS + shift + entries.rank)
            named = [_padded(rows, number * ROWS).reshape(number, 1, ROWS) for rows in (first, second)]
            short_row.append(xp.concatenate(named, axis=1))
            first_tile += number

        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            nnz=int(a.nnz),
            dtype=dtype,
            one_three=tiles[0],
            two_two=tiles[1],
            data=slots.data.reshape(count, ROWS, COLUMNS),
            indices=slots.indices.reshape(count, ROWS, COLUMNS),
            tile_ptr=tile_ptr.astype(xp.int32),
            long_row=long_row.astype(xp.int32),
            partial_ptr=partial_ptr.astype(xp.int32),
            medium_row=_padded(medium, blocks * ROWS),
            rest_ptr=_pointers(xp.bincount(rest.owner, minlength=blocks * ROWS)).astype(xp.int32),
            data_rest=rounded(a.data[rest.source], dtype),
            indices_rest=a.indices[rest.source].astype(xp.int32),
            short_row=xp.concatenate(short_row),
            single_row=xp.concatenate([singles, empty]).astype(xp.int32),
            data_single=rounded(a.data[starts[singles]], dtype),
            indices_single=a.indices[starts[singles]].astype(xp.int32),
        )

    def to_csr(self) -> Any:
        """The matrix as float64 CSR."""
        xp = array_module(self.data)
        slot = nonzero_slots(self.data)
        tile, row, column = slot // (ROWS * COLUMNS), slot // COLUMNS % ROWS, slot % COLUMNS
        sections, blocks = int(self.partial_ptr[-1]), len(self.medium_row) // ROWS
        # The eight rows of every tile, and the second row in each row of a tile of short rows.
        owner = row_of_entry(self.tile_ptr, int(self.tile_ptr[-1]))
        tables = [
            xp.repeat(self.long_row[row_of_entry(self.partial_ptr, sections)], ROWS).reshape(sections, ROWS),
            self.medium_row.reshape(blocks, ROWS),
        ]
        first = xp.concatenate([xp.concatenate(tables)[owner], self.short_row[:, 0]])
        second = xp.concatenate([first[: len(owner)], self.short_row[:, 1]])
        short = tile - len(owner)
        width = xp.where(short < self.one_three, 1, xp.where(short < self.one_three + self.two_two, 2, COLUMNS))
        rows = xp.where((short >= 0) & (column >= width), second[tile, row], first[tile, row])
        rest = self.medium_row[row_of_entry(self.rest_ptr, len(self.data_rest))]
        single = self.single_row[: len(self.data_single)]
        values = (self.data.ravel()[slot], self.data_rest, self.data_single)
        columns = (self.indices.ravel()[slot], self.indices_rest, self.indices_single)
        values = widened(xp.concatenate(values), self.dtype)
        kept = values != 0
        return csr_of_entries(
            xp.concatenate([rows, rest, single]).astype(xp.int64)[kept],
            xp.concatenate(columns).astype(xp.int64)[kept],
            values[kept],
            self.shape,
        )

    def counts(self) -> dict[str, int]:
        """Units of work by class, besides the counts of every format."""
        return {
            **super().counts(),
            "one_three": self.one_three,
            "two_two": self.two_two,
            "long_rows": len(self.long_row),
            "partials": len(self.tile_ptr) - 1 - len(self.medium_row) // ROWS,
            "medium_blocks": len(self.medium_row) // ROWS,
            "short_tiles": len(self.short_row),
            "singles": len(self.data_single),
            "single_rows": len(self.single_row),
        }

    @property
    def stored_slots(self) -> int:
        return int(self.data.size) + len(self.data_rest) + len(self.data_single)

    @property
    def blocks(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class _Entries:
    """Entries of chosen rows, row after row: ``owner`` counts the rows, ``rank`` the entries of a row, all int32.

    ``source`` is the position in the CSR.
    """

    owner: Any
    rank: Any
    source: Any

    @classmethod
    def of(cls, rows: Any, starts: Any) -> _Entries:
        xp = array_module(starts)
        ptr = _pointers(starts[rows + 1] - starts[rows])
        owner = row_of_entry(ptr, int(ptr[-1])).astype(xp.int32)
        rank = xp.arange(len(owner), dtype=xp.int32) - ptr.astype(xp.int32)[owner]
        return cls(owner, rank, starts[rows].astype(xp.int32)[owner] + rank)

    def where(self, mask: Any) -> _Entries:
        return _Entries(self.owner[mask], self.rank[mask], self.source[mask])


class _Slots:
    """Slots of tiles; value 0 and column 0 where there is no entry."""

    def __init__(self, tiles: int, a: Any, dtype: str) -> None:
        xp = array_module(a.data)
        self.a, self.dtype = a, dtype
        self.data = rounded(xp.zeros(tiles * ROWS * COLUMNS), dtype)
        self.indices = xp.zeros(tiles * ROWS * COLUMNS, dtype=xp.int32)

    def put(self, entries: _Entries, slots: Any) -> None:
        self.data[slots] = rounded(self.a.data[entries.source], self.dtype)
        self.indices[slots] = self.a.indices[entries.source]


def _pointers(counts: Any) -> Any:
    """0 and the running sums of ``counts``, int64."""
    xp = array_module(counts)
    pointers = xp.zeros(len(counts) + 1, dtype=xp.int64)
    pointers[1:] = xp.cumsum(counts)
    return pointers


def _sections(tiles: Any) -> tuple[Any, Any]:
    """Sections of long rows of ``tiles`` tiles each: pointers from rows to sections, and from sections to tiles."""
    xp = array_module(tiles)
    partial_ptr, first = _pointers(-(-tiles // SECTION)), _pointers(tiles)
    row = row_of_entry(partial_ptr, int(partial_ptr[-1]))
    inside = xp.arange(len(row), dtype=xp.int64) - partial_ptr[row]
    return partial_ptr, xp.concatenate([first[row] + SECTION * inside, first[-1:]])


def _full_tiles(longest: Any, entries: _Entries) -> Any:
    """Tiles of each block that hold at least FULL ``entries``; ``longest`` are the lengths of the blocks' first rows.

    The tiles of a block only become emptier, because its rows begin together.
    """
    xp = array_module(longest)
    ptr = _pointers(-(-longest // COLUMNS))
    tile = ptr[entries.owner // ROWS]
    tile += entries.rank // COLUMNS
    filled = xp.bincount(tile, minlength=int(ptr[-1]))
    owner = row_of_entry(ptr, int(ptr[-1]))
    return xp.bincount(owner[filled >= FULL], minlength=len(longest))


def _padded(rows: Any, size: int) -> Any:
    """``rows`` padded with -1, int32[size]."""
    xp = array_module(rows)
    padded = xp.full(size, -1, dtype=xp.int32)
    padded[: len(rows)] = rows
    return padded


FORMAT = Dasp
