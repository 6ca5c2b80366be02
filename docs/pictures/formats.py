"""Every format as a picture: a small matrix is packed by the format itself, and its arrays are drawn as they are.

An entry and its slot have the same number and the same hue. One function draws one family of layouts; a format that is
in no family has no picture, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.arrays import row_of_entry
from spmm_roofline.formats.banked_8x32 import PANEL, ROUND, SLOTS
from spmm_roofline.formats.csr_binned import BINS
from spmm_roofline.formats.hrpb import BRICK_K, BRICK_M, UNIT
from spmm_roofline.formats.panels_64x32 import COLUMNS, ROWS

from . import samples
from .arrays import Colours, heading, matrix, outline, strip, tile
from .svg import HUES, PROPORTIONAL, WIDTH, Drawing, hue

#: Rows and columns of a core matrix of 16-bit values, which tensor cores of sm_90a read as a unit.
CORE = 8
#: Format → the function that draws it; the key of :data:`PICTURES` without its beginning.
FAMILIES: dict[str, Callable[[str], Drawing]] = {}


def draws(*formats: str) -> Callable[[Callable[[str], Drawing]], Callable[[str], Drawing]]:
    """The decorated function draws these formats."""

    def register(function: Callable[[str], Drawing]) -> Callable[[str], Drawing]:
        FAMILIES.update(dict.fromkeys(formats, function))
        return function

    return register


def rows_of(a: Any) -> np.ndarray:
    """Row of every entry, int64[nnz]."""
    return row_of_entry(a.indptr, a.nnz)


def by(owner: Any) -> Colours:
    """The hue of entry v is that of ``owner[v - 1]``."""
    return lambda value: hue(int(owner[value - 1]))


def of_slots(data: Any, colours: Colours) -> list[str]:
    """The hue of each slot, none where it is padding."""
    return [colours(int(value)) if value else "" for value in np.asarray(data).reshape(-1)]


# --- rows of entries --------------------------------------------------------------------------------------------------


@draws("csr", "csr_swizzled", "csr_binned", "csr_segmented", "coo", "csc")
def rows(name: str) -> Drawing:
    """Entries one after the other, with pointers."""
    a = samples.plain()
    options: dict[str, Any] = {"segment": 4} if name == "csr_segmented" else {}
    packed = FORMATS[name].from_csr(a, "float32", **options)
    arrays = packed.arrays()
    row = rows_of(a)
    owner = a.indices if name == "csc" else row
    if name == "csr_segmented":
        starts, ends = arrays["segment_start"], arrays["segment_end"]
        owner = np.array([np.flatnonzero((starts <= v) & (v < ends))[0] for v in range(a.nnz)])
    colours = by(owner)
    d = Drawing(
        f"{name}, packed", f"A sparse matrix of 12 by 16, and the arrays of {name} that hold its {a.nnz} entries."
    )
    matrix(d, 0, 0, a, 17, colours)
    x, y, width = 296, 0, WIDTH - 296
    slots = of_slots(arrays["data"], colours)
    for field, array in arrays.items():
        if field in ("indices", "row", "col", "data"):
            tinted: list[str] = slots
        elif field == "indptr":
            tinted = [hue(i) if array[i] < array[i + 1] else "" for i in range(len(array) - 1)] + [""]
        elif field.startswith("segment_"):
            tinted = [hue(i) for i in range(len(array))]
        elif field == "order":
            tinted = [hue(i) for i in array]
        elif field == "runs":
            tinted = [hue(i) for i in array[::4] for _ in range(4)]
        else:
            tinted = [""] * len(array)
        y = strip(d, x, y, width, field, array, tinted, field == "data")
    if name == "csr_binned":
        count = next(i for i, rows in enumerate(packed.longer) if not rows) + 1
        least, rows = (", ".join(map(str, told[:count])) for told in (BINS, packed.longer))
        d.text(x, y + 9, "longer", "mono bold", 10.5)
        d.text(x + 50, y + 9, f"rows of at least {least}, … entries: {rows}, …", "quiet", 9.5)
    return d


@draws("csr_condensed")
def condensed(name: str) -> Drawing:
    """Windows whose columns are numbered without gaps."""
    a = samples.windowed()
    packed = FORMATS[name].from_csr(a, "float32")
    arrays = packed.arrays()
    window, number = rows_of(a) // 16, arrays["condensed"]
    before = np.concatenate([[0], np.cumsum(arrays["window_tiles"])])
    colours = by(before[window] + number // 8)
    d = Drawing(
        f"{name}, packed",
        "A sparse matrix of 20 by 40 in windows of 16 rows, the tiles of 16 by 8 condensed columns that a kernel makes "
        "of each window, and the arrays.",
    )
    matrix(d, 0, 0, a, 11, colours)
    for first in range(0, 20, 16):
        outline(d, a, 11, first, 16)
    # What the kernel makes of it, from `row` and `condensed` alone.
    x = 470
    d.text(x, 10, "the tiles, which are not stored", "bold", 11)
    for index in range(len(before) - 1):
        top = 17 + 11 * 16 * index
        for t in range(arrays["window_tiles"][index]):
            d.rect(x + 84 * t, top, 80, 11 * (16 if index == 0 else 4), "paper frame")
            d.grid(x + 84 * t, top, 8, 16 if index == 0 else 4, 10, 11)
        inside = np.flatnonzero(window == index)
        for v in inside:
            t, column = divmod(int(number[v]), 8)
            left, top_of = x + 84 * t + 10 * column, 17 + 11 * int(arrays["row"][v])
            d.rect(left, top_of, 10, 11, "tint frame", colours(int(a.data[v])))
            d.text(left + 5, top_of + 8, int(a.data[v]), "", 6.8, "middle")
    y = 17 + 220 + 12
    for field in ("indptr", "window_tiles", "row", "indices", "condensed", "data"):
        of_entries = field in ("row", "indices", "condensed", "data")
        y = strip(
            d,
            0,
            y,
            WIDTH,
            field,
            arrays[field],
            of_slots(arrays["data"], colours) if of_entries else None,
            field == "data",
        )
    return d


@draws("csr_merge_path")
def merge_path(name: str) -> Drawing:
    """Cuts of the path through all entries and row ends."""
    a = samples.uneven()
    packed = FORMATS[name].from_csr(a, "float32", items=64, chunks=3)
    m, cuts = a.shape[0], packed.tile_row
    tiles = len(cuts) - 1
    steps = np.minimum(np.arange(tiles + 1) * packed.width, m + a.nnz)
    first = steps - cuts
    tile_of = np.searchsorted(first, np.arange(a.nnz), side="right") - 1
    colours = by(np.minimum(tile_of, tiles - 1))
    d = Drawing(
        f"{name}, packed",
        "A sparse matrix of 20 by 64, the path that passes its entries to the right and its row ends downwards, cut "
        "into tiles of equally many steps, and the arrays.",
    )
    matrix(d, 0, 0, a, 9, colours, numbers=False)
    y0, across, down = 222, 5.0, 8.0
    d.text(
        0, y0, f"the path: {a.nnz} entries to the right, {m} row ends down, cut every {packed.width} steps", "bold", 11
    )
    y0 += 10
    d.grid(0, y0, a.nnz, m, across, down, 10)
    for t in range(tiles):
        entry, row, points = int(first[t]), int(cuts[t]), []
        for _ in range(int(steps[t]), int(steps[t + 1]) + 1):
            points.append((entry * across, y0 + row * down))
            if row < m and entry == a.indptr[row + 1]:
                row += 1
            else:
                entry += 1
        d.path(points, "thick", hue(t))
        d.circle(points[0][0], points[0][1], 3.2, "", hue(t))
        d.text(
            points[len(points) // 2][0] + 7, points[len(points) // 2][1] - 4, f"tile {t}", "bold", 9.5, colour=hue(t)
        )
    y = y0 + m * down + 14
    y = strip(
        d, 0, y, WIDTH, "tile_row", cuts, [hue(t) for t in range(tiles)] + [""], note="rows that end before the tile"
    )
    y = strip(d, 0, y, WIDTH, "indptr", packed.indptr)
    y = strip(d, 0, y, WIDTH, "indices", packed.indices, of_slots(packed.data, colours))
    strip(d, 0, y, WIDTH, "data", packed.data, of_slots(packed.data, colours), True)
    return d


@draws("csr_partitioned", "csr_split")
def partitioned(name: str) -> Drawing:
    """Entries with marks at row ends, divided among CTAs and lane groups."""
    a = samples.uneven()
    split = name == "csr_split"
    options = {"warps": 2, "groups": 4} if split else {"groups": 4}
    packed = FORMATS[name].from_csr(a, "float32", ctas=2, **options)
    arrays = packed.arrays()
    begins = arrays["group_starts" if split else "segments"][:, 0]
    owner_of_slot = np.searchsorted(begins, np.arange(len(arrays["data"])), side="right") - 1
    owner = np.zeros(a.nnz, dtype=int)
    held = np.flatnonzero(arrays["data"])
    owner[arrays["data"][held].astype(int) - 1] = owner_of_slot[held]
    colours = by(owner)
    what = "lane group" if split else "row segment"
    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of 20 by 64 whose entries have the hue of their {what}, and the arrays: a negative column "
        "marks the last entry of a row.",
    )
    matrix(d, 0, 0, a, 9, colours, numbers=False)
    d.text(596, 24, f"a hue is a {what};", "quiet", 10)
    d.text(596, 38, "hues repeat", "quiet", 10)
    partitions = arrays["work"][:, 0] if split else begins[arrays["work"][:-1]]
    for line, text in enumerate(
        (f"{len(partitions)} partitions (CTAs)", f"begin at slots {' and '.join(map(str, partitions))}")
    ):
        d.text(596, 62 + 14 * line, text, "quiet", 10)
    y = 17 + 180 + 12
    slots = [hue(int(g)) for g in owner_of_slot]
    for field, array in arrays.items():
        if field in ("columns", "data"):
            y = strip(
                d,
                0,
                y,
                WIDTH,
                field,
                array,
                slots,
                field == "data",
                note="~column, negative, where a row or a section ends" if field == "columns" else "",
            )
        else:
            pairs = array.shape[1] if array.ndim == 2 else 1
            tinted = [""] * array.size
            if field in ("segments", "group_starts"):
                tinted = [hue(i) if i < len(array) - 1 else "" for i in range(len(array)) for _ in range(pairs)]
            y = strip(d, 0, y, WIDTH, field, array, tinted, cell=0)
    return d


@draws("dense")
def dense(name: str) -> Drawing:
    """Every slot stored."""
    a = samples.plain()
    packed = FORMATS[name].from_csr(a, "float32")
    colours = by(rows_of(a))
    d = Drawing("dense, packed", "A sparse matrix of 12 by 16, and the array that holds all its slots, zeros included.")
    matrix(d, 0, 0, a, 17, colours)
    y = heading(d, 330, 0, "data", packed.data)
    with d.group(data_array="data", data_values="1"):
        tile(d, 330, y + 2, packed.data, 17, colours, True, every=1)
    return d


@draws("scaled_identity")
def identity(name: str) -> Drawing:
    """One coefficient."""
    a = samples.scaled()
    packed = FORMATS[name].from_csr(a, "float32")
    d = Drawing(
        "scaled_identity, packed", "A multiple of the identity, 8 by 8, and the one coefficient that is stored."
    )
    matrix(d, 0, 0, a, 17, lambda value: hue(0))
    strip(d, 296, 0, 400, "data", packed.data, [hue(0)], True)
    return d


# --- blocks -----------------------------------------------------------------------------------------------------------


@draws("bcsr_16x16", "bcsr_16x32", "bcsr_tiled")
def blocks(name: str) -> Drawing:
    """Rows of dense blocks."""
    a = samples.blocked()
    has_map = name != "bcsr_tiled"
    packed = FORMATS[name].from_csr(a, "float16", **({"block_map": True} if has_map else {"block": 2}))
    height, width = packed.block_shape
    where = list(zip(row_of_entry(packed.indptr, packed.blocks), packed.indices, strict=True))
    of_block = {(int(r), int(c)): number for number, (r, c) in enumerate(where)}
    colours = by([of_block[r // height, c // width] for r, c in zip(rows_of(a), a.indices, strict=True)])
    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of 64 by 64 with its non-empty blocks of {height} by {width} outlined, and the arrays: each "
        "stored block has the hue of its place in the matrix.",
    )
    matrix(d, 0, 0, a, 4.5, colours, numbers=False, every=16)
    for number, (r, c) in enumerate(where):
        _block_outline(d, int(r), int(c), height, width, hue(number), str(number))
    x, room = 312, WIDTH - 312
    y = strip(d, x, 0, room, "indptr", packed.indptr)
    y = strip(
        d, x, y, room, "indices", packed.indices, [hue(i) for i in range(packed.blocks)], note="columns of blocks"
    )
    if has_map:
        y = _map(d, x, y, packed.block_map, hue)
    y = max(heading(d, x, y, "data", packed.data), 0)
    pitch = {"bcsr_16x16": 4.5, "bcsr_16x32": 4.2, "bcsr_tiled": 3.0}[name]
    with d.group(data_array="data", data_values="1"):
        _tiles(d, x, y, room, packed.data, pitch, colours, [hue(i) for i in range(packed.blocks)])
    return d


def _block_outline(
    d: Drawing, r: int, c: int, height: int, width: int, colour: str, text: str, dashed: bool = False, inset: float = 0
) -> None:
    x, y, wide, high = c * width * 4.5, 17 + r * height * 4.5, width * 4.5, height * 4.5
    kind = "thick light tint" + (" dashed" if dashed else "")
    d.rect(x + inset, y + inset, wide - 2 * inset, high - 2 * inset, kind + " frame", colour)
    d.rect(x + inset + 1, y + inset + 1, 7 + 6 * len(text), 13, "paper")
    d.text(x + inset + 4, y + inset + 11, text, "bold", 10, colour=colour)


def _map(d: Drawing, x: float, y: float, codes: Any, colour: Callable[[int], str]) -> float:
    """The dense map of blocks, a cell per block; returns the lower edge."""
    y = heading(d, x, y, "block_map", codes, "on request")
    with d.group(data_array="block_map"):
        for r, row in enumerate(codes.reshape(-1, codes.shape[-1])):
            for c, code in enumerate(row):
                d.rect(
                    x + 22 * c,
                    y + 16 * r,
                    22,
                    16,
                    "tint frame" if code >= 0 else "paper faint",
                    colour(int(code)) if code >= 0 else "",
                )
                d.text(x + 22 * c + 11, y + 16 * r + 11, int(code), "mono", 8.5, "middle")
    return y + 16 * len(codes.reshape(-1, codes.shape[-1])) + 9


def _tiles(
    d: Drawing,
    x: float,
    y: float,
    width: float,
    data: Any,
    pitch: float,
    colours: Colours,
    frames: list[str],
    down: float = 0,
    gap: float = 8,
) -> float:
    """Tiles one after the other in lines of at most ``width``; returns the lower edge."""
    down = down or pitch
    across, height = data.shape[2] * pitch + gap, data.shape[1] * down + gap
    per_line = max(int((width + gap) // across), 1)
    for number, values in enumerate(data):
        tile(
            d,
            x + number % per_line * across,
            y + number // per_line * height,
            values,
            pitch,
            colours,
            down=down,
            frame=frames[number],
        )
    return y + -(-len(data) // per_line) * height


@draws("bcsr_classed", "bcsr_separated", "bcsr_classed_tiled", "bcsr_classed_tiled_listed")
def classed(name: str) -> Drawing:
    """Tiles that are 2:4 or dense."""
    a = samples.blocked()
    options: dict[str, Any] = {
        "bcsr_classed": {"block_k": 16, "block_map": True},
        "bcsr_separated": {"block_k": 16},
    }.get(name, {"block": 2})
    packed = FORMATS[name].from_csr(a, "float16", **options)
    arrays = packed.arrays()
    height, width = packed.block_shape
    count24, dense = len(packed.data24), len(packed.data)
    # A tile's code is 2p for the 2:4 tile p, 2p + 1 for the dense tile p; its hue goes with the code.
    code_of_value = {int(v): 2 * p for p, t in enumerate(packed.data24) for v in t[t != 0]}
    code_of_value |= {int(v): 2 * p + 1 for p, t in enumerate(packed.data) for v in t[t != 0]}
    number = {code: i for i, code in enumerate([*range(0, 2 * count24, 2), *range(1, 2 * dense, 2)])}

    def colour(code: int) -> str:
        return hue(number[code])

    def colours(value: int) -> str:
        return colour(code_of_value[value])

    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of 64 by 64 with its non-empty tiles of {height} by {width} outlined, dashed "
        f"where the tile is "
        "2:4, and the arrays: each stored tile has the hue of its place in the matrix.",
    )
    matrix(d, 0, 0, a, 4.5, colours, numbers=False, every=16)
    rows, columns = rows_of(a) // height, a.indices // width
    places = {(int(r), int(c)): code_of_value[int(v)] for r, c, v in zip(rows, columns, a.data, strict=True)}
    for (r, c), code in places.items():
        told_as = str(code // 2 if name == "bcsr_separated" else code)
        _block_outline(d, r, c, height, width, colour(code), told_as, code % 2 == 0, 2 if "tiled" in name else 0)
    if "tiled" in name:
        for r, c in sorted({(r // 2, c) for r, c in places}):
            d.rect(c * 144, 17 + r * 144, 144, 144, "heavy")
    x, room, y = 312, WIDTH - 312, 0.0
    for field, array in arrays.items():
        if field in ("data", "data24", "metadata", "block_map"):
            continue
        told: list[str] | None = None
        if field == "codes":
            told = [colour(int(code)) for code in array]
        elif field == "indices" and name == "bcsr_classed":
            told = [colour(int(code)) for code in packed.codes]
        elif field in ("indices24", "indices_dense"):
            told = [colour(2 * i + (field == "indices_dense")) for i in range(len(array))]
        elif field == "inner":
            codes = array[:, 1] if name.endswith("listed") else array.reshape(-1)
            each = 2 if name.endswith("listed") else 1
            told = [colour(int(code)) if code >= 0 else "" for code in codes for _ in range(each)]
        y = strip(d, x, y, room, field, array, told)
    if "block_map" in arrays:
        y = _map(d, x, y, arrays["block_map"], colour)
    y = max(y, 17 + 288) + 6
    y = heading(d, 0, y, "data24", packed.data24, "2:4 tiles, two values per group of four columns")
    pitch = 4.5 if width == 16 else 4.0
    with d.group(data_array="data24", data_values="1"):
        y = _tiles(d, 0, y, WIDTH, packed.data24, pitch, colours, [colour(2 * p) for p in range(count24)])
    y = strip(
        d,
        0,
        y + 2,
        WIDTH,
        "metadata",
        packed.metadata,
        [colour(2 * p) for p in range(count24) for _ in range(packed.metadata[0].size)],
        note="hexadecimal; a column in two bits for each value",
        written=lambda word: f"{word:08x}",
    )
    y = heading(d, 0, y, "data", packed.data, "dense tiles")
    with d.group(data_array="data", data_values="1"):
        _tiles(d, 0, y, WIDTH, packed.data, pitch, colours, [colour(2 * p + 1) for p in range(dense)])
    return d


@draws("bcsr_panels")
def tall_blocks(name: str) -> Drawing:
    """Blocks of four tiles, each stored as one half or two."""
    a = samples.blocked()
    packed = FORMATS[name].from_csr(a, "float16")
    height, width = packed.block_shape
    codes = sorted(int(code) for code in packed.tiles.reshape(-1) if code >= 0)
    number = {half: i for i, code in enumerate(codes) for half in range(code // 2, code // 2 + 1 + code % 2)}
    of_half = [hue(number[half]) for half in range(len(packed.data))]
    half_of_value = {int(v): half for half, values in enumerate(packed.data) for v in values[values != 0]}

    def colours(value: int) -> str:
        return of_half[half_of_value[value]]

    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of 64 by 64 in blocks of {height} by {width}, their tiles of 16 by 32 that hold an entry "
        "outlined, dashed where the tile is 2:4, and the arrays: each stored tile has a hue of its own.",
    )
    matrix(d, 0, 0, a, 4.5, colours, numbers=False, every=16)
    for block, column in enumerate(packed.indices):
        d.rect(int(column) * 144, 17, 144, 288, "heavy")
        for row, code in enumerate(packed.tiles[block].tolist()):
            if code >= 0:
                _block_outline(d, row, int(column), 16, 32, of_half[code // 2], str(code), code % 2 == 0, 2)
    x, y = 312, 0.0
    for field in ("indptr", "indices", "tiles", "work", "cut"):
        array = getattr(packed, field)
        told = [of_half[code // 2] if code >= 0 else "" for code in array.reshape(-1).tolist()]
        y = strip(d, x, y, WIDTH - x, field, array, told if field == "tiles" else None)
    y = max(y, 17 + 288) + 6
    y = heading(d, 0, y, "data", packed.data, "a half: a row for each lane, whose registers are two values each")
    with d.group(data_array="data", data_values="1"):
        y = _tiles(d, 0, y, WIDTH, packed.data, 5.0, colours, of_half)
    words = [colour for colour in of_half for _ in range(packed.metadata[0].size)]
    note = "hexadecimal; of a dense tile 44444444, columns 0 and 1, and eeeeeeee, columns 2 and 3"
    strip(d, 0, y + 2, WIDTH, "metadata", packed.metadata, words, note=note, written=lambda word: f"{word:08x}")
    return d


# --- windows and panels -----------------------------------------------------------------------------------------------


@draws("vectors_8x1", "vectors_16x1")
def windows(name: str) -> Drawing:
    """Tiles of the non-empty columns of a window."""
    a = samples.windowed()
    packed = FORMATS[name].from_csr(a, "float16", warps=2)
    window = FORMATS[name].window
    tile_of = {int(v): t for t, values in enumerate(packed.data) for v in values[values != 0]}

    def colours(value: int) -> str:
        return hue(tile_of[value])

    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of 20 by 40 in windows of {window} rows, the tiles of {window} by 16 that hold the non-empty "
        "columns of a window side by side, and the arrays of the work partition.",
    )
    _, bottom = matrix(d, 0, 0, a, 11, colours)
    for first in range(0, 20, window):
        outline(d, a, 11, first, window)
        d.text(446, 17 + 11 * first + 14, f"window {first // window}", "quiet", 10)
    x = 520
    y = strip(d, x, 60, WIDTH - x, "ends", packed.ends, [hue(t) for t in range(packed.blocks)])
    y = strip(d, x, y, WIDTH - x, "work", packed.work)
    strip(d, x, y, WIDTH - x, "cut", packed.cut)
    pitch, y = 10.4, bottom + 10
    across = 16 * pitch + 14
    d.text(0, y + 9, "columns", "mono bold", 10.5)
    d.text(62, y + 9, f"int32[{packed.blocks}×16], above each tile of", "quiet", 9.5)
    d.text(222, y + 9, "data", "mono bold", 10.5)
    d.text(
        262,
        y + 9,
        f"float16[{packed.blocks}×{window}×16]; grey: a window's last column fills its last tile",
        "quiet",
        9.5,
    )
    y += 26
    with d.cells(7.4, data_array="columns"):
        for t in range(packed.blocks):
            for slot, column in enumerate(packed.columns[t]):
                d.text(
                    t * across + (slot + 0.5) * pitch,
                    y - 4,
                    int(column),
                    "mono" + ("" if packed.data[t][:, slot].any() else " quiet"),
                    7.4,
                    "middle",
                )
    with d.group(data_array="data", data_values="1"):
        for t in range(packed.blocks):
            used = int(packed.data[t].any(axis=0).sum())
            tile(d, t * across, y, packed.data[t], pitch, colours, True, every=1)
            d.rect(t * across + used * pitch, y, (16 - used) * pitch, window * pitch, "hole")
            d.rect(t * across, y, 16 * pitch, window * pitch, "frame", hue(t))
            d.text(t * across, y + window * pitch + 12, f"tile {t}", "quiet", 9.5)
    return d


@draws("panels_64x32")
def listed_panels(name: str) -> Drawing:
    """Lists of the entries of tiles, and the tiles that a kernel makes of them."""
    a = samples.panelled()
    packed = FORMATS[name].from_csr(a, "float16")
    tiles, pitch = packed.blocks, 4.8
    # What a kernel writes, from `runs`, `positions` and `data` alone; what only fills a run lies behind the tile.
    written = np.zeros((tiles, ROWS * COLUMNS + CORE))
    tile_of_slot = np.full(len(packed.data), -1)
    for t, (begin, end) in enumerate(packed.runs):
        written[t, packed.positions[begin:end] // 2] = packed.data[begin:end]
        tile_of_slot[begin:end] = t
    cores = written[:, :-CORE].reshape(tiles, -1, COLUMNS // CORE, CORE, CORE)
    made = cores.swapaxes(2, 3).reshape(tiles, ROWS, COLUMNS)
    tile_of = {int(value): t for t in range(tiles) for value in made[t][made[t] != 0]}

    def colours(value: int) -> str:
        return hue(tile_of[value])

    d = Drawing(
        f"{name}, packed",
        f"A sparse matrix of {a.shape[0]} by {a.shape[1]} in panels of {ROWS} rows, the tiles of {ROWS} by "
        f"{COLUMNS} of their columns that a kernel makes, and the arrays: the columns of each tile, its entries as a "
        "list of positions and values, and the work partitions.",
    )
    _, bottom = matrix(d, 0, 0, a, pitch, colours, False, every=CORE)
    for first in range(0, a.shape[0], ROWS):
        outline(d, a, pitch, first, ROWS)
    x, across = a.shape[1] * pitch + 16, COLUMNS * pitch + 6
    d.text(x, 10, "the tiles, which are not stored, in core matrices of 8×8", "bold", 11)
    panel_of = {int(t): int(panel) for begin, end, panel, _ in packed.work for t in range(begin, end)}
    for t, values in enumerate(made):
        left, used = x + t * across, int(values.any(axis=0).sum())
        tile(d, left, 17, values, pitch, colours, False, every=CORE)
        d.rect(left + used * pitch, 17, (COLUMNS - used) * pitch, ROWS * pitch, "hole")
        d.rect(left, 17, COLUMNS * pitch, ROWS * pitch, "frame", hue(t))
        d.text(left, 17 + ROWS * pitch + 12, f"tile {t}, of panel {panel_of[t]}", "quiet", 9.5)
    # The last tile has few rows, and room for numbers.
    left = x + (tiles - 1) * across
    for core in range(COLUMNS // CORE, ROWS * COLUMNS // CORE**2):
        r, c = divmod(core, COLUMNS // CORE)
        place = left + (c + 0.5) * CORE * pitch, 17 + (r + 0.5) * CORE * pitch + 3
        d.text(*place, f"{2 * CORE**2 * core:04x}", "mono quiet", 8.5, "middle")
    d.text(left, 17 + ROWS * pitch + 24, "first bytes of core matrices", "quiet", 9.5)
    hues = [hue(t) for t in range(tiles)]
    x, y = COLUMNS * 15 + 20, max(bottom, 17 + ROWS * pitch + 24) + 12
    end = strip(d, x, y, WIDTH - x, "work_ptr", packed.work_ptr)
    end = strip(d, x, end, WIDTH - x, "work", packed.work)
    of_columns = [colour for colour in hues for _ in range(COLUMNS)]
    y = max(
        end,
        strip(d, 0, y, x - 20, "columns", packed.columns, of_columns, note="a panel's last column fills its last tile"),
    )
    strip(d, x, y, WIDTH - x, "cut", packed.cut)
    of_runs = [colour for colour in hues for _ in range(2)]
    y = strip(d, 0, y, x - 20, "runs", packed.runs, of_runs, note="first slot of a list and the one after its last")
    slots = [hue(int(t)) if value else "" for t, value in zip(tile_of_slot, packed.data, strict=True)]
    y = strip(
        d,
        0,
        y,
        WIDTH,
        "positions",
        packed.positions,
        slots,
        note="bytes in the tile, hexadecimal",
        written=lambda position: f"{position:04x}",
    )
    strip(d, 0, y, WIDTH, "data", packed.data, slots, True)
    return d


@draws("banked_8x32")
def banked(name: str) -> Drawing:
    """Rounds of slots whose rows of B lie in different banks of shared memory."""
    a = samples.banked()
    packed = FORMATS[name].from_csr(a, "float16")
    colours = by(a.indices % ROUND)
    k, pitch = a.shape[1], 15
    d = Drawing(
        f"{name}, packed",
        f"A panel of {PANEL} rows by {k} columns, the rows of B in eight groups of banks of shared memory, and the "
        "arrays: four rounds of eight slots for each row, whose columns are in different groups, and the values in the "
        "order in which lanes load them.",
    )
    right, bottom = matrix(d, 0, 0, a, pitch, colours)
    x, across, down = right + 30, 40, 18
    d.text(x, 10, "rows of B in shared memory, not stored", "bold", 11)
    for j in range(k + 1):
        left, top = x + j % ROUND * across, 17 + j // ROUND * down
        d.rect(left, top, across, down, "tint frame" if j < k else "hole frame", hue(j % ROUND))
        d.text(left + across / 2, top + 12.5, f"{j:02x}" if j < k else f"{j:02x}: 0", "mono", 9, "middle")
    d.text(x, 17 + 4 * down + 14, "a column is a group of banks: 16 bytes at a time", "quiet", 9.5)
    strip(d, x, 17 + 4 * down + 26, WIDTH - x, "panel_ptr", packed.panel_ptr, note="counts steps")
    y = heading(
        d, 0, bottom + 12, "columns", packed.columns, "hexadecimal; a line is a lane's 16 bytes, a table is a round"
    )
    cell, apart = 10.0, 348 + 20
    for step in range(packed.blocks + 1):
        ahead = ", to be loaded ahead" if step == packed.blocks else ""
        d.text(step * apart, y + 8, f"step {step}{ahead}", "quiet", 9)
    with d.group(data_array="columns"):
        for step, of_step in enumerate(packed.columns):
            for slot, line in enumerate(of_step):
                left, top = step * apart + slot // ROUND * (PANEL * cell + 7), y + 12 + slot % ROUND * 11
                for row, column in enumerate(line):
                    used, kind = (True, "mono") if column < k else (False, "mono quiet")
                    place = left + row * cell, top
                    d.rect(*place, cell, 11, "tint frame" if used else "hole", hue(column % ROUND) if used else "")
                    d.text(place[0] + cell / 2, top + 8.4, f"{column:02x}", kind, 7.4, "middle")
    y = heading(d, 0, y + 12 + ROUND * 11 + 10, "data", packed.data, "eight values of a row are a lane's 16 bytes")
    cell = 348 / SLOTS
    for lane in range(PANEL // 2):
        d.text((lane + 0.5) * 8 * cell, y + 8, f"lanes 4g + {lane}", "quiet", 9, "middle")
    for pair in range(SLOTS // 2):
        d.text((2 * pair + 1) * cell, y + 18, f"r{pair % 4}", "quiet", 7.5, "middle")
    with d.group(data_array="data", data_values="1"):
        for step, values in enumerate(packed.data):
            tile(d, step * apart, y + 22, values, cell, colours, True, down=13, every=PANEL)
    return d


@draws("hrpb")
def panels(name: str) -> Drawing:
    """Bricks of the active columns of a panel."""
    a = samples.windowed()
    packed = FORMATS[name].from_csr(a, "float32")
    words, octets = packed.packed.reshape(-1), packed.packed.view(np.uint8).reshape(-1)
    pointers = packed.column_pointers()
    ids = packed.active_columns
    brick_columns = packed.tk // BRICK_K
    brick_of: dict[int, int] = {}
    layout = []
    for b in range(packed.blocks):
        start, bricks = int(packed.size_ptr[b]), int(pointers[b, -1])
        patterns = packed.packed.view(np.uint64).reshape(-1)[2 * (start + 1) : 2 * (start + 1) + bricks]
        value_unit = start + 1 + -(-bricks * 8 // UNIT)
        count = sum(int(p).bit_count() for p in patterns)
        values = words[4 * value_unit : 4 * value_unit + count].view(np.float32)
        layout.append((start, patterns, value_unit, values))
        at = 0
        for index, pattern in enumerate(patterns):
            own = int(pattern).bit_count()
            brick_of |= {int(v): b * brick_columns + index for v in values[at : at + own]}
            at += own

    def colours(value: int) -> str:
        return hue(brick_of[value])

    d = Drawing(
        "hrpb, packed",
        "A sparse matrix of 20 by 40 in panels of 16 rows; its blocks with the active columns, the bit masks of the "
        "bricks and the values; and the packed array in units of 16 bytes.",
    )
    _, bottom = matrix(d, 0, 0, a, 11, colours)
    for first in range(0, 20, packed.tm):
        outline(d, a, 11, first, packed.tm)
        d.text(446, 17 + 11 * first + 14, f"panel {first // packed.tm}", "quiet", 10)
    x, y = 500, 40.0
    for field in ("block_row_ptr", "size_ptr", "chunks", "clear_panels"):
        y = strip(d, x, y, WIDTH - x, field, getattr(packed, field))
    y = bottom + 26
    cell, down = 14.2, 8.0
    lowest = y
    for b, (start, patterns, _, values) in enumerate(layout):
        left = b * (16 * cell + 18)
        d.text(left, y - 3, f"block {b}", "bold", 11)
        d.text(left + 50, y - 3, "column ids, bit masks, values", "quiet", 9.5)
        for slot in range(packed.tk):
            told = int(ids[b, slot])
            d.text(left + (slot + 0.5) * cell, y + 10, told if told >= 0 else "–", "mono", 8, "middle")
        at = 0
        header = octets[16 * start : 16 * start + UNIT]
        for column in range(brick_columns):
            for index in range(int(header[column]), int(header[column + 1])):
                bits, own = int(patterns[index]), []
                for bit in range(BRICK_M * BRICK_K):
                    if bits >> bit & 1:
                        own.append((bit // BRICK_K, bit % BRICK_K, int(values[at])))
                        at += 1
                brick = np.zeros((BRICK_M, BRICK_K))
                for r, c, v in own:
                    brick[r, c] = v
                tile(
                    d,
                    left + column * BRICK_K * cell,
                    y + 15,
                    brick,
                    cell,
                    colours,
                    True,
                    down,
                    1,
                    hue(b * brick_columns + index),
                )
        top = y + 15 + BRICK_M * down + 8
        told = of_slots(values, colours)
        lowest = max(lowest, strip(d, left, top, 16 * cell, "values", values, told, True, of="packed"))
    y = lowest + 2
    y = heading(d, 0, y, "packed", packed.packed, "a cell is a unit of 16 bytes")
    fields = np.empty(len(packed.packed), dtype=object)
    fields[:] = "ids"
    for start, _, value_unit, values in layout:
        fields[start] = "header"
        fields[start + 1 : value_unit] = "masks"
        fields[value_unit : value_unit + -(-len(values) * 4 // UNIT)] = "values"
    shades = {"ids": HUES[5], "header": HUES[4], "masks": HUES[6], "values": HUES[7]}
    wide = min(18.0, WIDTH / len(fields))
    for unit, field in enumerate(fields):
        d.rect(unit * wide, y, wide, 16, "tint frame", shades[field])
    for place, (field, shade) in enumerate(shades.items()):
        d.rect(420 + 76 * place, y - 14, 10, 10, "tint frame", shade)
        d.text(434 + 76 * place, y - 5, field, "", 9.5)
    for b, (start, *_) in enumerate(layout):
        d.path([(start * wide, y + 16), (start * wide, y + 24)], "rule")
        d.text(start * wide + 3, y + 27, f"block {b}, from unit {start}", "quiet", 9.5)
    return d


# --- 2:4 --------------------------------------------------------------------------------------------------------------


@draws("sparse24")
def sparse24(name: str) -> Drawing:
    """Two values of every four, and their columns."""
    a = samples.two_four()
    packed = FORMATS[name].from_csr(a, "bfloat16")
    row = rows_of(a)
    # A word is sixteen columns of a row; its hue says which columns, and in which half of the rows.
    word = a.indices // 16 + 4 * (row // 8)
    colours = by(word)
    data = packed.data.astype(float)
    d = Drawing(
        "sparse24, packed",
        "A matrix of 16 by 64 with at most two entries in every four columns, the half of its slots that "
        "is stored, the "
        "words that say which columns they are from, and the same words in the order of ldmatrix.",
    )
    _, y = matrix(d, 0, 0, a, 11, colours, numbers=False, every=4)
    # One word, spelt out.
    r = int(np.bincount(row[a.indices < 16], minlength=16).argmax())
    d.text(0, y + 20, f"row {r}, columns 0 to 15", "bold", 11)
    y += 28
    cell, gap = 19.0, 12.0
    dense = a.toarray()
    for g in range(4):
        left = 110 + g * (4 * cell + gap)
        nibble = int(packed.metadata[r, 0]) >> 4 * g & 15
        for c in range(4):
            value = int(dense[r, 4 * g + c])
            d.rect(
                left + c * cell, y, cell, 17, "tint frame" if value else "paper faint", colours(value) if value else ""
            )
            if value:
                d.text(left + (c + 0.5) * cell, y + 12, value, "", 9, "middle")
        for i in range(2):
            value, column = int(data[r, 2 * g + i]), nibble >> 2 * i & 3
            middle = left + (1 + 2 * i) * cell
            d.line(left + (column + 0.5) * cell, y + 18, middle, y + 32, "rule", arrow=True)
            d.rect(
                middle - cell / 2,
                y + 33,
                cell,
                17,
                "tint frame" if value else "paper faint",
                colours(value) if value else "",
            )
            d.text(middle, y + 45, value, "", 9, "middle")
            d.text(middle, y + 64, f"{column:02b}", "mono", 10, "middle")
    for offset, told in ((12, "four columns"), (45, "two values"), (64, "column of each")):
        d.text(0, y + offset, told, "quiet", 10)
    left = 110 + 4 * (4 * cell + gap) + 10
    told = int(packed.metadata[r, 0])
    d.line(left - 10, y + 60, left + 24, y + 60, arrow=True)
    d.text(left + 32, y + 64, f"word {told:04x}", "mono bold", 11, colour=hue(4 * (r // 8)))
    d.text(left + 32, y + 46, "first group in the lowest bits", "quiet", 9.5)
    y += 82
    pitch = 10.4
    top = heading(d, 0, y, "data", packed.data)
    with d.group(data_array="data", data_values="1"):
        tile(d, 0, top, data, pitch, colours, every=2)
    x = 32 * pitch + 20
    heading(d, x, y, "metadata", packed.metadata)
    with d.group(data_array="metadata"):
        _words(d, x, top, packed.metadata, 28, pitch, lambda r, t: hue(t + 4 * (r // 8)), 7.6)
    x += 4 * 28 + 20
    y = heading(d, x, y, "metadata_swizzled", packed.metadata_swizzled)
    with d.group(data_array="metadata_swizzled"):
        _words(d, x, top, packed.metadata_swizzled[0, 0], 28, 2 * pitch, lambda r, p: hue(p // 2 + 4 * (p % 2)), 8.4)
    return d


def _words(
    d: Drawing,
    x: float,
    y: float,
    words: Any,
    cell: float,
    down: float,
    colour: Callable[[int, int], str],
    size: float,
    digits: int = 4,
) -> None:
    """A table of hexadecimal words."""
    for r, row in enumerate(words):
        for c, word in enumerate(row):
            d.rect(x + c * cell, y + r * down, cell, down, "tint frame", colour(r, c))
            d.text(
                x + (c + 0.5) * cell,
                y + (r + 0.5) * down + 0.36 * size,
                f"{int(word):0{digits}x}",
                "mono",
                size,
                "middle",
            )


@draws("sparse24_fragments")
def fragments(name: str) -> Drawing:
    """The registers of each lane."""
    a = samples.two_four()
    packed = FORMATS[name].from_csr(a, "bfloat16", k_multiple=64)
    data = packed.data.astype(float)[0]
    lane_of = {int(v): lane for product in data for lane in range(32) for v in product[lane][product[lane] != 0]}

    def colours(value: int) -> str:
        lane = lane_of[value]
        return hue(lane % 4 + 4 * (lane // 4 % 2))

    d = Drawing(
        "sparse24_fragments, packed",
        "A matrix of 16 by 64 with at most two entries in every four columns, and the registers in which "
        "the 32 lanes of "
        "a warp hold its values and metadata.",
    )
    _, y = matrix(d, 0, 0, a, 11, colours, numbers=False, every=4)
    top = heading(d, 0, y + 10, "data", packed.data, "a strip is a lane: four registers of two values")
    cell, down = 8.8, 13.0
    with d.group(data_array="data", data_values="1"):
        for product in range(data.shape[0]):
            left = product * 374
            d.text(left, top + 10, f"product {product}, columns {32 * product} to {32 * product + 31}", "quiet", 9.5)
            for lane in range(32):
                x0, y0 = left + 13 + lane % 4 * (8 * cell + 16), top + 16 + lane // 4 * (down + 3)
                tile(d, x0, y0, data[product, lane][None, :], cell, colours, down=down, every=2)
                d.rect(x0, y0, 8 * cell, down, "frame", hue(lane % 4 + 4 * (lane // 4 % 2)))
                d.text(x0 - 2, y0 + 9.5, lane, "quiet", 8, "end")
    y = top + 16 + 8 * (down + 3) + 6
    top = heading(d, 0, y, "metadata", packed.metadata, "one word per lane and 64 columns, hexadecimal")
    with d.group(data_array="metadata"):
        for lane, word in enumerate(packed.metadata[0, 0]):
            x0, y0 = lane % 8 * 90, top + lane // 8 * 19
            d.rect(x0, y0, 84, 16, "tint frame", hue(lane % 4 + 4 * (lane // 4 % 2)))
            d.text(x0 + 42, y0 + 11.4, f"{int(word):08x}", "mono", 9, "middle")
    return d


# --- for one vector and for grids -------------------------------------------------------------------------------------


@draws("dasp")
def dasp(name: str) -> Drawing:
    """Rows by length in tiles of 8×4."""
    a = samples.of_all_lengths()
    packed = FORMATS[name].from_csr(a, "float64")
    arrays = packed.arrays()
    kinds = ("long rows", "medium rows, full tiles", "medium rows, rest", "1 + 3", "2 + 2", "3 or 4", "single entries")
    first_short = int(packed.tile_ptr[-1])
    sections = int(packed.partial_ptr[-1])
    long_tiles = int(packed.tile_ptr[sections])
    kind_of_tile = [
        0
        if t < long_tiles
        else 1
        if t < first_short
        else 3
        if t < first_short + packed.one_three
        else 4
        if t < first_short + packed.one_three + packed.two_two
        else 5
        for t in range(packed.blocks)
    ]
    kind_of = {int(v): kind_of_tile[t] for t, values in enumerate(packed.data) for v in values[values != 0]}
    kind_of |= dict.fromkeys(packed.data_rest.astype(int).tolist(), 2)
    kind_of |= dict.fromkeys(packed.data_single.astype(int).tolist(), 6)

    def colours(value: int) -> str:
        return hue(kind_of[value])

    d = Drawing(
        "dasp, packed",
        "A sparse matrix of 26 by 272 whose rows have none to 262 entries, and its tiles of 8 by 4 slots "
        "by the class of "
        "their rows: long, medium and short ones.",
    )
    _, y = matrix(d, 0, 0, a, 2.64, colours, numbers=False, row_pitch=7, every=34)
    x = 0.0
    for index, kind in enumerate(kinds):
        d.rect(x, y + 8, 10, 10, "fill", hue(index))
        d.text(x + 14, y + 17, kind, "", 9.5)
        x += 30 + 9.5 * PROPORTIONAL * len(kind)
    y += 30
    y = heading(d, 0, y, "data", packed.data, "and indices alike: tiles of 8 rows and 4 slots, a padding slot is empty")
    with d.group(data_array="data", data_values="1"):
        y = _tiles(d, 0, y, WIDTH, packed.data, 8, colours, [hue(kind) for kind in kind_of_tile], 8, 12)
    # One tile with its numbers: two short rows in each of its rows.
    top, shown = y, first_short
    for left, field in ((470, "data"), (600, "indices")):
        d.text(left, top + 9, f"{field}[{shown}]", "mono bold", 10.5)
        with d.group(**({"data_array": "indices"} if field == "indices" else {})):
            for r in range(8):
                for c in range(4):
                    value, told = int(packed.data[shown, r, c]), int(arrays[field][shown, r, c])
                    at = left + 28 * c, top + 15 + 14 * r
                    d.rect(*at, 28, 14, "tint frame" if value else "paper faint", colours(value) if value else "")
                    d.text(at[0] + 14, at[1] + 10.2, told, "mono", 8.5, "middle")
    for field in ("data_rest", "indices_rest", "data_single", "indices_single"):
        colour = hue(2 if field.endswith("rest") else 6)
        y = strip(d, 0, y, 440, field, arrays[field], [colour] * len(arrays[field]), field.startswith("data"))
    half = WIDTH / 2 - 8
    for left, right in (("tile_ptr", "partial_ptr"), ("long_row", "rest_ptr"), ("medium_row", "single_row")):
        lower = strip(d, 0, y, half, left, arrays[left])
        y = max(lower, strip(d, half + 16, y, half, right, arrays[right]))
    strip(d, 0, y, WIDTH, "short_row", arrays["short_row"], note="first and second rows of the eight rows of a tile")
    return d


@draws("stencil")
def stencil(name: str) -> Drawing:
    """A coefficient per offset."""
    a = samples.five_point()
    packed = FORMATS[name].from_csr(a, "float64", low_rank=True)

    def colours(value: int) -> str:
        return hue(value - 1)

    d = Drawing(
        "stencil, packed",
        "The matrix of a five-point stencil on a grid of 8 by 4 points, one point of the grid with its neighbours, and "
        "the coefficients that are stored.",
    )
    matrix(d, 0, 0, a, 8.6, colours, numbers=False, every=8)
    x = 320
    d.text(x, 10, f"grid, nx = {packed.nx}, ny = {packed.ny}; points = {packed.points}", "bold", 11)
    steps = {(-1, 0): 1, (0, -1): 2, (0, 0): 3, (0, 1): 4, (1, 0): 5}
    for py in range(packed.ny):
        for px in range(packed.nx):
            if (py - 1, px - 3) not in steps:
                d.circle(x + 14 + 26 * px, 32 + 22 * py, 3, "solid")
    for (down, right), value in steps.items():
        px, py = x + 14 + 26 * (3 + right), 32 + 22 * (1 + down)
        d.circle(px, py, 9, "tint", hue(value - 1))
        d.circle(px, py, 9, "ring", hue(value - 1))
        d.text(px, py + 3.6, value, "", 10, "middle")
    d.text(x + 236, 50, "row 11 of A: the point (3, 1)", "quiet", 10)
    y = 132.0
    for field, array, note in (
        ("data", packed.data.reshape(3, 3), "one coefficient per offset, 0 where there is none"),
        ("data_left", packed.data_left, "on request: along y, a row per term"),
        ("data_right", packed.data_right, "on request: along x, a row per term"),
    ):
        y = heading(d, x, y, field, array if field != "data" else packed.data, note)
        with d.group(data_array=field, **({"data_values": "1"} if field == "data" else {})):
            for r, row in enumerate(array):
                for c, value in enumerate(row):
                    known = field == "data" and value
                    d.rect(
                        x + 30 * c,
                        y + 18 * r,
                        30,
                        18,
                        "tint frame" if known else "paper faint",
                        hue(int(value) - 1) if known else "",
                        str(int(value)) if known else "",
                    )
                    d.text(x + 30 * c + 15, y + 18 * r + 12.5, f"{value:.3g}", "mono", 9, "middle")
        y += 18 * len(array) + 10
    return d


def draw(name: str) -> Drawing:
    """The picture of a format; raises ``LookupError`` for a format without one."""
    if name not in FAMILIES:
        raise LookupError(
            f"docs/pictures/formats.py draws no format {name!r}: add it to the family of its layout, or write a "
            "function for a new one"
        )
    return FAMILIES[name](name)
