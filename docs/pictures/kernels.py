"""Kernels as pictures: who reads which section of A and B and writes which of C.

A panel is drawn from what its ``.cu`` file does; its name, predecessor and idea and the sizes in its text come from the
head. :data:`SHEETS` says which panels make a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from spmm_roofline.formats.hrpb import virtual_panels
from spmm_roofline.kernels.head import Head

from .ladders import kernels
from .scheme import (
    APART,
    CTA,
    GROUP,
    OTHER_GROUP,
    PANEL,
    PATTERN,
    SHARED,
    SIDE,
    THIRD_GROUP,
    THREAD,
    Scene,
    bars,
    notes,
    panel,
)
from .svg import HUES, WIDTH, Drawing

#: Draws a panel at (x, y) below its name and idea; returns the lower edge.
Panel = Callable[[Drawing, float, float, Head], float]
PANELS: dict[str, Panel] = {}

#: Picture → its title and kernels, in reading order.
SHEETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "scalar": (
        "Kernels on CUDA cores: GE-SpMM, Sputnik, RoDe",
        (
            "gespmm_seq_row",
            "gespmm_par_row",
            "gespmm_cached_row",
            "gespmm_cached_nnz",
            "gespmm_seq_nnz",
            "gespmm_par_nnz",
            "sputnik",
            "rode",
        ),
    ),
    "smat": ("SMaT: the T and BT families", ("mma_t", "mma_bt", "mma_cbt", "mma_obt")),
    "sptc": (
        "Sparse tensor cores in SMaT's ladder",
        (
            "mma_st",
            "mma_obts",
            "mma_obts_large_separate",
            "mma_obt_tiled",
            "mma_obts_large_tiled",
            "mma_obts_large_tiled_listed",
            "wgmma_obt",
            "wgmma_obts",
        ),
    ),
    "cutespmm": ("cuTeSpMM: bricks and virtual panels", ("cutespmm_unsplit", "cutespmm")),
    "attention": (
        "Dense times sparse: the kernels X·W of attention",
        (
            "xw_row",
            "xw_nonzeros",
            "xw_unstaged",
            "xw_columns",
            "xw_vectors",
            "xw_tiles",
            "xw_tiles_split",
            "xw_tiles_swizzled",
        ),
    ),
    "tcgnn": ("TC-GNN", ("tcgnn",)),
    "flagship": (
        "The flagship kernels",
        (
            "window_f16",
            "staged_f16",
            "panel_f16",
            "window_fma",
            "window_tf32",
            "window_tf32_tall",
            "rows_fma",
            "short_rows_fma",
            "dealt_rows_fma",
            "even_rows_fma",
            "spread_rows_fma",
            "split_fma",
            "split_f16",
            "narrow_fma",
            "strips_f16",
            "panel_tf32",
        ),
    ),
    "gemm24": ("2:4 GEMM", ("gemm24", "gemm24_wgmma_bf16")),
    "memory_bound": (
        "One vector, stencils and SCALE, on CUDA cores and on tensor cores",
        (
            "scale_cc",
            "scale_tc",
            "spmv_csr_cc",
            "spmv_dasp_tc",
            "stencil_cc",
            "stencil_tc",
            "stencil_cc_blocked",
            "stencil_lowrank_tc",
            "stencil_tc_blocked",
        ),
    ),
}


def shows(*names: str) -> Callable[[Panel], Panel]:
    """The decorated function draws the panels of these kernels."""

    def register(function: Panel) -> Panel:
        PANELS.update(dict.fromkeys(names, function))
        return function

    return register


def beside(s: Scene, d: Drawing, y: float, *told: tuple[str, str]) -> float:
    """Notes at the right of a scene; returns the lower edge of both."""
    return max(s.bottom, notes(d, s.right + 22, y + 8, PANEL - (s.right - s.at[s.names[0]][0]) - 22, *told) - 10)


def aside(d: Drawing, x: float, y: float, title: str) -> float:
    """A title in the free corner above A; returns where a detail may begin."""
    d.text(x, y + 9, title, "quiet", 9)
    return y + 14


def group_of_row(s: Scene, row: int, in_flight: int | None = None) -> None:
    """A lane group with a row of A, and one of its threads: its columns of C, and the rows of B that it has in flight,
    those of the first entries or of all.
    """
    s.row(row, GROUP)
    for j in PATTERN[row][:in_flight]:
        s.area("B", (j, j + 1), (2, 3), THREAD, "fill")
    s.area("C", (row, row + 1), (0, SIDE), GROUP)
    s.area("C", (row, row + 1), (2, 3), THREAD, "fill")


def longest_first(d: Drawing, x: float, y: float) -> float:
    """The first rows in the order of their length, of which a group has the first; returns where they begin."""
    top = aside(d, x, y, "order: longest first")
    order = sorted(range(12), key=lambda row: -len(PATTERN[row]))
    for index, row in enumerate(order[:8]):
        d.rect(x + 12 * index, top, 12, 12, "tint frame" if not index else "paper faint", GROUP if not index else "")
        d.text(x + 12 * index + 6, top + 9, row, "", 8, "middle")
    return top


# --- CUDA cores -------------------------------------------------------------------------------------------------------


@shows("gespmm_seq_row")
def seq_row(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    group_of_row(s, 3)
    s.cta("C", (2, 6), (0, SIDE))
    return beside(
        s,
        d,
        y,
        (THREAD, "a thread: four columns of one row of C, a 16-byte load of B per entry"),
        (GROUP, "32 threads: a slab of 128 columns; the entries of the row one after the other"),
        (CTA, "a CTA: four rows; if n is below 128, more rows with fewer threads each"),
    )


@shows("gespmm_par_row")
def par_row(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    for index, j in enumerate(PATTERN[5]):
        s.mark("A", 5, j, HUES[index])
        s.area("B", (j, j + 1), (2, 3), HUES[index], "fill")
    s.area("C", (5, 6), (2, 3), GROUP)
    s.cta("C", (3, 7), (2, 3))
    return beside(
        s,
        d,
        y,
        ("", "a hue is a lane: lane i takes the entries i, i + 32, … of the row"),
        (GROUP, "a warp: four columns of one row; shuffles add up its 32 sums"),
        (CTA, "a CTA: four rows"),
    )


@shows("gespmm_cached_row")
def cached_row(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    group_of_row(s, 5)
    s.cta("C", (3, 7), (0, SIDE))
    top = aside(d, x, y, "32 entries, staged")
    for index in range(12):
        d.rect(
            x + 8 * index,
            top,
            8,
            12,
            "tint frame" if index < len(PATTERN[5]) else "paper faint",
            SHARED if index < len(PATTERN[5]) else "",
        )
    d.line(x + 24, s.at["A"][1] + 36, x + 24, top + 16, arrow=True)
    return beside(
        s,
        d,
        y,
        (SHARED, "shared memory: 32 entries of the row, loaded once by the warp"),
        (THREAD, "a lane: one, two or four columns, by n"),
        (GROUP, "a warp: one row of C"),
        (CTA, "a CTA: four rows"),
    )


def _partition(
    s: Scene, first: int, stop: int, colour: str, columns: tuple[float, float] = (0, SIDE), read: bool = True
) -> list[int]:
    """Entries ``first`` to ``stop`` - 1 in row order in a colour; returns the rows that they lie in."""
    entries = [(i, j) for i, others in enumerate(PATTERN) for j in others][first:stop]
    for i, j in entries:
        s.mark("A", i, j, colour)
        if read:
            s.area("B", (j, j + 1), columns, colour)
    rows = sorted({i for i, _ in entries})
    for i in rows:
        s.area("C", (i, i + 1), columns, colour)
    return rows


def _atomics(d: Drawing, s: Scene, rows: Sequence[int], column: float = 11) -> None:
    """A plus where several add to a row."""
    x, y, across, down = s.at["C"]
    for row in rows:
        d.text(x + (column + 0.5) * across, y + (row + 0.5) * down + 3, "+", "bold", 9, "middle", THREAD)


@shows("gespmm_seq_nnz", "gespmm_cached_nnz")
def seq_nnz(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    _partition(s, 8, 16, GROUP)
    _partition(s, 16, 24, OTHER_GROUP, read=False)
    _atomics(d, s, (3, 5, 8))
    if head.name == "gespmm_cached_nnz":
        top = aside(d, x, y, "32 entries, staged")
        for index in range(8):
            d.rect(x + 8 * index, top, 8, 12, "tint frame", SHARED)
        first = (SHARED, "shared memory: the 32 entries of a partition, whatever their rows")
    else:
        first = ("", f"a partition is {head.tile['entries']} entries, whatever their rows")
    return beside(
        s,
        d,
        y,
        first,
        (GROUP, "a warp or lane group takes one partition"),
        (OTHER_GROUP, "its neighbour the next"),
        (THREAD, "+: a row of two partitions is added to C atomically; C is cleared first"),
    )


@shows("gespmm_par_nnz")
def par_nnz(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    entries = [(i, j) for i, others in enumerate(PATTERN) for j in others][7:15]
    for index, (i, j) in enumerate(entries):
        s.mark("A", i, j, HUES[index])
        s.area("B", (j, j + 1), (0, 4), HUES[index])
    for i in {i for i, _ in entries}:
        s.area("C", (i, i + 1), (0, 4), GROUP)
    _atomics(d, s, (3, 4, 5), 3)
    top = aside(d, x, y, "one entry per lane")
    for index, (i, _) in enumerate(entries):
        d.rect(x + 11 * index, top, 11, 12, "tint frame", HUES[index])
        d.text(x + 11 * index + 5.5, top + 9, i, "", 7.5, "middle")
    d.text(x, top + 24, "then a scan by rows", "quiet", 9)
    return beside(
        s,
        d,
        y,
        ("", "a hue is a lane, the number its row"),
        (GROUP, "a warp: 32 entries by 32 columns, four columns at a time"),
        (THREAD, "+: the first lane of each run adds to C atomically; C is cleared first"),
    )


@shows("sputnik")
def sputnik(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    group_of_row(s, 5)
    top = longest_first(d, x, y)
    d.text(x, top + 26, "aligned fours", "quiet", 9)
    for index in range(12):
        inside = 2 <= index < 8
        d.rect(x + 8 * index, top + 30, 8, 9, "tint frame" if inside else "hole frame", GROUP if inside else "")
    for index in range(0, 13, 4):
        d.line(x + 8 * index, top + 27, x + 8 * index, top + 42, "rule")
    return beside(
        s,
        d,
        y,
        (GROUP, f"threads of a row: {head.tile['width']} columns each, four entries per load"),
        (THREAD, f"a thread: one packet of 16 bytes of B per entry, {4 * head.tile['fours']} in flight"),
        ("", "CTAs take rows in order, so that long rows begin first"),
    )


@shows("rode")
def rode(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    for columns, colour in ((PATTERN[5][:4], GROUP), (PATTERN[5][4:], OTHER_GROUP), (PATTERN[3], THIRD_GROUP)):
        row = 3 if colour == THIRD_GROUP else 5
        s.row(row, colour, some=columns)
        s.area("C", (row, row + 1), (0, SIDE), colour)
    _atomics(d, s, (5,))
    top = aside(d, x, y, "segments")
    for index, (colour, width) in enumerate(((GROUP, 44), (OTHER_GROUP, 22), (THIRD_GROUP, 26))):
        d.rect(x, top + 14 * index, width, 11, "tint frame", colour)
    return beside(
        s,
        d,
        y,
        (GROUP, f"a full segment of a long row: {head.format_options['segment']} entries; these come first"),
        (OTHER_GROUP, "the residue of the same row"),
        (THIRD_GROUP, "a short row is one segment and is stored"),
        (THREAD, "+: a long row is cleared by a first launch and added atomically"),
    )


# --- SMaT -------------------------------------------------------------------------------------------------------------

#: Tiles of a row of tiles that are stored: 16×16 elements are 2×2 cells. The second is 2:4.
STORED = (0, 3, 5)


def _tile_row(s: Scene, stored: Sequence[int] = STORED) -> None:
    """A row of six tiles of A, of which some are stored, and their slices of eight columns of B."""
    for t in stored:
        s.area("A", (4, 6), (2 * t, 2 * t + 2), GROUP)
        s.area("B", (2 * t, 2 * t + 2), (3, 4), GROUP)
    s.area("C", (4, 6), (3, 4), GROUP)
    s.cta("C", (4, 6), (3, 4))


@shows("mma_t")
def mma_t(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    s.d.grid(s.at["A"][0], s.at["A"][1], 6, 6, 16, 14)
    _tile_row(s)
    left, top, across, down = s.at["A"]
    for t in set(range(6)) - {*STORED}:
        d.text(left + (2 * t + 1) * across, top + 5 * down + 4, "?", "quiet", 11, "middle")
    y0 = aside(d, x, y, "block_map, one row")
    for t in range(6):
        stored = t in STORED
        d.rect(x + 16 * t, y0, 16, 13, "tint frame" if stored else "paper faint", GROUP if stored else "")
        d.text(x + 16 * t + 8, y0 + 9.8, STORED.index(t) if stored else "-1", "mono", 8, "middle")
    return beside(
        s,
        d,
        y,
        (
            GROUP,
            f"a warp: one {head.tile['m']}×{head.tile['n']} tile of C, over the "
            f"{head.tile['m']}×{head.tile['k']} tiles of its row of A",
        ),
        ("", "?: it also looks up every tile that is zero, and skips it"),
        (CTA, "a CTA is one warp"),
    )


@shows("mma_bt")
def mma_bt(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    s.d.grid(s.at["A"][0], s.at["A"][1], 6, 6, 16, 14)
    _tile_row(s)
    y0 = aside(d, x, y, "indices of the row")
    for index, t in enumerate(STORED):
        d.rect(x + 16 * index, y0, 16, 13, "tint frame", GROUP)
        d.text(x + 16 * index + 8, y0 + 9.8, t, "mono", 8, "middle")
    return beside(
        s,
        d,
        y,
        (GROUP, "a warp walks the stored tiles only: a row of three tiles takes three turns"),
        ("", "both operands go through registers to shared memory, from there to fragments"),
    )


LOAD, MULTIPLY = OTHER_GROUP, GROUP


@shows("mma_cbt")
def mma_cbt(d: Drawing, x: float, y: float, head: Head) -> float:
    d.text(x, y + 9, "mma_bt: load, store to shared memory, multiply", "", 9.5)
    serial = [(70 * i, 70 * i + 25, LOAD, "load") for i in range(4)] + [
        (70 * i + 25, 70 * i + 45, SHARED, "st") for i in range(4)
    ]
    y = bars(d, x, y + 16, [("warp", [*serial, *[(70 * i + 45, 70 * i + 70, MULTIPLY, "mma") for i in range(4)]])])
    d.text(x, y + 12, "mma_cbt: the copies of A and B overlap each other", "", 9.5)
    rows = [
        ("copy A", [(58 * i, 58 * i + 30, LOAD, "A") for i in range(4)]),
        ("copy B", [(58 * i, 58 * i + 24, LOAD, "B") for i in range(4)]),
        ("tensor", [(58 * i + 32, 58 * i + 57, MULTIPLY, "mma") for i in range(4)]),
    ]
    y = bars(d, x, y + 19, rows)
    return notes(
        d,
        x,
        y + 14,
        PANEL,
        (LOAD, "cp.async, 16 bytes per lane, past the registers"),
        (MULTIPLY, "then a wait, then the product: nothing is in flight meanwhile"),
    )


@shows("mma_obt")
def mma_obt(d: Drawing, x: float, y: float, head: Head) -> float:
    rows = [
        ("stage 0", [(0, 38, LOAD, "tile 0"), (76, 114, LOAD, "tile 2"), (152, 190, LOAD, "tile 4")]),
        ("stage 1", [(38, 76, LOAD, "tile 1"), (114, 152, LOAD, "tile 3"), (190, 228, LOAD, "tile 5")]),
        ("tensor", [(38 + 38 * i, 68 + 38 * i, MULTIPLY, f"mma {i}") for i in range(5)]),
    ]
    d.text(x, y + 9, "two stages of operands in shared memory", "", 9.5)
    y = bars(d, x, y + 16, rows)
    return notes(
        d,
        x,
        y + 14,
        PANEL,
        (LOAD, "the next tile is copied while this one is multiplied"),
        ("", "the warp waits until one group of copies is left, not none (cp.async.wait_group 1)"),
        ("", f"mma_obt_large: tiles of {kernels()['mma_obt_large'].tile['k']} columns, half the turns"),
    )


def _two_four_tile(d: Drawing, x: float, y: float) -> None:
    """A 2:4 tile beside what is stored of it."""
    d.rect(x, y, 32, 32, "tint dashed frame", GROUP)
    d.line(x + 35, y + 16, x + 45, y + 16, arrow=True)
    d.rect(x + 48, y, 16, 32, "tint frame", GROUP)
    d.rect(x + 67, y, 5, 32, "tint frame", SHARED)
    d.text(x, y + 44, "half the values, and ids", "quiet", 8.5)


@shows("mma_st")
def mma_st(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    s.d.grid(s.at["A"][0], s.at["A"][1], 6, 6, 16, 14)
    _tile_row(s, (0, 5))
    s.area("A", (4, 6), (6, 8), GROUP, "light tint dashed frame")
    s.area("B", (6, 8), (3, 4), GROUP)
    left, top, across, down = s.at["A"]
    for t in (1, 2, 4):
        d.text(left + (2 * t + 1) * across, top + 5 * down + 4, "?", "quiet", 11, "middle")
    _two_four_tile(d, x, aside(d, x, y, "a 2:4 tile (dashed)"))
    return beside(
        s,
        d,
        y,
        (GROUP, "dense tile: mma m16n8k16; the warp tests every tile, as in mma_t"),
        (SHARED, "2:4 tile: mma.sp reads half of the values and, for each, its column in two bits"),
        ("", "mma_st_large: 16×32 tiles, one mma.sp or two mma"),
    )


@shows("mma_obts")
def mma_obts(d: Drawing, x: float, y: float, head: Head) -> float:
    kinds = ("mma", "sp", "sp", "mma", "sp")
    rows = [
        (
            "stages",
            [(38 * i, 38 * i + (38 if i < 5 and kinds[i] == "mma" else 28), LOAD, f"tile {i}") for i in range(6)],
        ),
        ("class?", [(38 + 38 * i, 45 + 38 * i, SHARED, "") for i in range(5)]),
        (
            "tensor",
            [
                (45 + 38 * i, 45 + 38 * i + (28 if kind == "mma" else 20), MULTIPLY, kind)
                for i, kind in enumerate(kinds)
            ],
        ),
    ]
    d.text(x, y + 9, "the pipeline of mma_obt, with tiles of two classes mixed", "", 9.5)
    y = bars(d, x, y + 16, rows)
    return notes(
        d,
        x,
        y + 14,
        PANEL,
        (LOAD, "a 2:4 tile is half as many bytes of A"),
        (SHARED, "every turn tests the class of its tile"),
        ("", "mma_obts_large: 16×32 tiles, one mma.sp or two mma"),
    )


@shows("mma_obts_large_separate")
def separate(d: Drawing, x: float, y: float, head: Head) -> float:
    rows = [
        (
            "stages",
            [(40 * i, 40 * i + (40 if i > 2 else 28), LOAD, f"tile {i}") for i in range(3)]
            + [(128 + 40 * i, 166 + 40 * i, LOAD, f"tile {i}") for i in range(2)],
        ),
        (
            "tensor",
            [(40 + 30 * i, 60 + 30 * i, MULTIPLY, "sp") for i in range(3)]
            + [(168 + 40 * i, 202 + 40 * i, MULTIPLY, "2 mma") for i in range(2)],
        ),
    ]
    d.text(x + 52, y + 9, "loop over 2:4 tiles", "quiet", 9.5)
    d.text(x + 180, y + 9, "loop over dense tiles", "quiet", 9.5)
    y = bars(d, x, y + 15, rows)
    return notes(
        d,
        x,
        y + 14,
        PANEL,
        (MULTIPLY, "no turn tests a class: the format lists the row's 2:4 tiles and its dense tiles separately"),
        ("", "the sums stay in registers from one loop to the next"),
    )


@shows("mma_obt_tiled", "mma_obts_large_tiled", "mma_obts_large_tiled_listed")
def super_tiles(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    s.d.grid(s.at["A"][0], s.at["A"][1], 6, 6, 16, 14)
    dense, listed = head.name == "mma_obt_tiled", head.name.endswith("listed")
    present = [(r, c) for r in range(4) for c in range(0, 4, 1 if dense else 2)]
    if not dense:
        present = [(0, 0), (1, 2), (3, 2)] if not listed else [(1, 2), (2, 2)]
    s.area("A", (2, 10), (4, 12), GROUP, "light tint frame" if dense else "dashed frame")
    for r, c in present:
        sparse = not dense and r == 1
        s.area(
            "A",
            (2 + 2 * r, 4 + 2 * r),
            (4 + 2 * c, 6 + 2 * c + (0 if dense else 2)),
            GROUP,
            "tint dashed frame" if sparse else "tint frame",
        )
    s.area("B", (8 if listed else 4, 12), (4, 8), GROUP)
    if listed:
        s.area("B", (4, 8), (4, 8), GROUP, "dashed frame")
    for r in range(4):
        for c in range(4):
            s.area("C", (2 + 2 * r, 4 + 2 * r), (4 + c, 5 + c), GROUP)
    s.area("C", (4, 6), (5, 6), THREAD, "fill")
    s.cta("C", (2, 10), (4, 8))
    if dense:
        of_a, of_b = f"{head.tile['m']}×{head.tile['k']} of A", f"{head.tile['k']}×{head.tile['n']} of B"
        copied = f"a super-tile: {of_a}, {of_b}, copied once for 16 warps"
    elif listed:
        copied = "the CTA walks a list of tiles; of B it copies only the slices of 32 rows that the list names"
    else:
        copied = "only the 16×32 tiles that hold an entry are copied and multiplied (dashed: 2:4); B is copied whole"
    return beside(
        s,
        d,
        y,
        (GROUP, copied),
        (THREAD, "a warp: one 16×8 tile of C"),
        (CTA, "a CTA: 64×32 of C, two stages"),
    )


@shows("wgmma_obt", "wgmma_obts")
def tall_blocks(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    s.d.grid(s.at["A"][0], s.at["A"][1], 6, 6, 16, 14)
    sparse = head.name == "wgmma_obts"
    # Blocks of four tiles, of which the first lies in the stage at hand; rows of tiles, and which of them are 2:4.
    for first, colour, tiles in ((4, GROUP, ((0, sparse), (2, False))), (8, OTHER_GROUP, ((3, sparse),))):
        s.area("A", (2, 10), (first, first + 2), colour, "light tint frame")
        for row, is_24 in tiles:
            style = "tint dashed frame" if is_24 else "tint frame"
            s.area("A", (2 + 2 * row, 4 + 2 * row), (first, first + 2), colour, style)
        s.area("B", (first, first + 2), (0, 8), colour)
    for warp in range(4):
        s.area("C", (2 + 2 * warp, 4 + 2 * warp), (0, 8), GROUP)
    s.cta("C", (2, 10), (0, 8))
    tile = head.tile
    both = "2:4 tiles take one wgmma.sp, blocks with a dense tile a second one: columns 2 and 3 of each group of four"
    dense = "a block takes two wgmma, whatever its number of tiles; a warp without a tile multiplies zeros"
    return beside(
        s,
        d,
        y,
        (
            GROUP,
            f"the copy engine brings the tiles of a block of {tile['m']}×{tile['k']}, and its {tile['k']} rows of B",
        ),
        (OTHER_GROUP, f"the next of {tile['stages']} stages"),
        (CTA, f"a CTA: a warpgroup, {tile['m']}×{tile['n']} of C; a warp holds 16 rows of A in registers"),
        ("", both if sparse else dense),
    )


# --- cuTeSpMM and TC-GNN ----------------------------------------------------------------------------------------------


@shows("cutespmm_unsplit")
def cutespmm(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    rows = range(4, 8)
    active = sorted({j for i in rows for j in PATTERN[i]})
    for i in rows:
        for j in PATTERN[i]:
            s.mark("A", i, j, GROUP)
    for j in active:
        s.area("B", (j, j + 1), (3, 6), GROUP)
        for warp in (0, 2, 3):
            s.area("B", (j, j + 1), (3 * warp, 3 * warp + 3), GROUP, "light tint")
    for warp in range(4):
        s.area("C", (4, 8), (3 * warp, 3 * warp + 3), GROUP, "tint frame" if warp == 1 else "light tint frame")
    s.cta("C", (4, 8), (0, SIDE))
    s.area("A", (4, 8), (0, SIDE), CTA, "dashed frame")
    top = aside(d, x, y, "brick 16×4, 64 bits")
    for bit in range(64):
        own = bit in (13, 45)
        # Sixteen rows of four columns, drawn on their side: a row is a column of four cells.
        d.rect(x + 6 * (bit // 4), top + 6 * (bit % 4), 6, 6, "fill" if own else "paper faint", THREAD if own else "")
    d.text(x, top + 36, "lane 13: bits 13, 45", "quiet", 9)
    return beside(
        s,
        d,
        y,
        (
            GROUP,
            f"a warp: a panel of {head.tile['m']} rows by {head.tile['n']} columns; it copies its columns "
            f"of the rows of B that the panel needs",
        ),
        (THREAD, "lane l decodes bits l and l + 32: a set bit reads the value that as many set bits precede"),
        (CTA, "a CTA: one panel, four warps"),
    )


@shows("cutespmm")
def schedule(d: Drawing, x: float, y: float, head: Head) -> float:
    loads, slots = np.array((6, 18, 5, 7, 40, 6, 4, 8)), 4
    begins = np.concatenate([[0], np.cumsum(loads)])
    for title, kind in (("whole panels (cutespmm_unsplit)", "whole"), ("virtual panels (cutespmm)", "waves")):
        d.text(x, y + 10, title, "", 9.5)
        y += 16
        owner, first, stop, _ = virtual_panels(begins, kind, waves=-(-len(loads) // slots))
        ends = [0.0] * slots
        for p, load in zip(np.where(owner < 0, ~owner, owner).tolist(), (stop - first).tolist(), strict=True):
            slot, width = ends.index(min(ends)), 5.6 * load
            d.rect(
                x + 52 + ends[slot],
                y + 14 * slot,
                width - 1,
                11,
                "tint frame",
                THREAD if loads[p] == max(loads) else GROUP,
            )
            d.text(x + 52 + ends[slot] + width / 2, y + 14 * slot + 8.8, p, "", 8, "middle")
            ends[slot] += width
        for slot in range(slots):
            d.text(x, y + 14 * slot + 9, f"slot {slot}", "quiet", 9.5)
        y += 64
    return notes(
        d,
        x,
        y + 4,
        PANEL,
        (THREAD, "a panel with many blocks: one CTA works on while all others have ended"),
        (
            "",
            "cut in as many chunks as its load over the average, over the number of waves; the sums of a "
            "cut panel are added atomically",
        ),
    )


@shows("tcgnn")
def tcgnn(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    rows = range(4, 8)
    active = sorted({j for i in rows for j in PATTERN[i]})
    tile_columns = active[4:8]
    for i in rows:
        for j in PATTERN[i]:
            s.mark("A", i, j, GROUP if j in tile_columns else SHARED)
    for j in tile_columns:
        s.area("B", (j, j + 1), (0, SIDE), GROUP, "light tint")
        s.area("B", (j, j + 1), (2, 4), GROUP)
    for warp in range(6):
        s.area("C", (4, 8), (2 * warp, 2 * warp + 2), GROUP, "tint frame" if warp == 1 else "light tint frame")
    s.cta("C", (4, 8), (0, SIDE))
    top = aside(d, x, y, "condensed: 16×8 tiles")
    for t in range(3):
        for r, i in enumerate(rows):
            for c in range(4):
                j = active[4 * t + c] if 4 * t + c < len(active) else -1
                held = j in PATTERN[i]
                d.rect(
                    x + 32 * t + 7 * c,
                    top + 8 * r,
                    7,
                    8,
                    "tint frame" if held else "paper faint",
                    (GROUP if t == 1 else SHARED) if held else "",
                )
    return beside(
        s,
        d,
        y,
        (SHARED, "for every tile the CTA searches all entries of its window of 16 rows"),
        (
            GROUP,
            f"those of the tile go to shared memory; a warp multiplies them by {head.tile['n']} columns of "
            f"{head.tile['k']} rows of B",
        ),
        (CTA, "a CTA: one window, up to 32 warps"),
    )


# --- attention: Y = X·W -----------------------------------------------------------------------------------------------


def _column(s: Scene, column: int, colours: Sequence[str]) -> None:
    """The entries of a column of W in these hues, in turn."""
    for index, j in enumerate(PATTERN[column]):
        s.mark("W", j, column, colours[index % len(colours)])


@shows("xw_row")
def xw_row(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, "XWY", "W")
    s.area("X", (3, 4), (0, SIDE), SHARED)
    s.area("Y", (3, 4), (0, SIDE), GROUP)
    _column(s, 5, [THREAD])
    s.area("Y", (3, 4), (5, 6), THREAD, "fill")
    s.cta("Y", (3, 4), (0, SIDE))
    return beside(
        s,
        d,
        y,
        (SHARED, "the row of X, in shared memory"),
        (THREAD, "a thread: one element; it walks the column of W alone"),
        (CTA, f"a CTA: {head.tile['m']} elements of a row"),
    )


@shows("xw_nonzeros", "xw_unstaged")
def xw_nonzeros(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, "XWY", "W")
    staged = head.name == "xw_nonzeros"
    hues = [GROUP, OTHER_GROUP, THIRD_GROUP, THREAD]
    if staged:
        s.area("X", (3, 4), (0, SIDE), SHARED)
    for index, j in enumerate(PATTERN[5]):
        s.area("X", (3, 4), (j, j + 1), hues[index % 4], "fill")
    _column(s, 5, hues)
    s.area("Y", (3, 4), (5, 6), GROUP, "fill")
    s.cta("Y", (3, 4), (5, 6))
    return beside(
        s,
        d,
        y,
        (SHARED, "the whole row of X, staged")
        if staged
        else ("", "only the values of X that entries need are read, through L1"),
        ("", "a hue is a thread: 64 threads read neighbouring entries of the column"),
        (CTA, "a CTA: one element; its sums are added by shuffles and in shared memory"),
    )


@shows("xw_columns")
def xw_columns(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, "XWY", "W")
    for column in range(4, 8):
        _column(s, column, [GROUP] if column != 5 else [THREAD])
    s.area("X", (3, 4), (0, SIDE), GROUP, "light tint frame")
    s.area("Y", (3, 4), (4, 8), GROUP)
    s.area("Y", (3, 4), (5, 6), THREAD, "fill")
    s.cta("Y", (3, 4), (4, 8))
    return beside(
        s,
        d,
        y,
        (GROUP, f"a warp: {head.tile['m']} elements of a row; its row of X stays in L1"),
        (THREAD, "one column of W after the other, all lanes on its entries"),
        ("", "the sums are stored together"),
    )


@shows("xw_vectors")
def xw_vectors(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, "XWY", "W")
    _column(s, 5, [GROUP])
    for j in PATTERN[5]:
        s.area("X", (3, 4), (j, j + 1), GROUP, "fill")
    s.area("Y", (3, 4), (5, 6), GROUP, "fill")
    top = aside(d, x, y, "head, fours, tail")
    for index in range(12):
        inside = 1 <= index < 11
        four = 4 <= index < 8
        d.rect(
            x + 8 * index,
            top,
            8,
            11,
            "tint frame" if inside else "paper faint",
            (GROUP if four else THREAD) if inside else "",
        )
    d.rect(x + 32, top - 2, 32, 15, "thick frame", GROUP)
    return beside(
        s,
        d,
        y,
        (GROUP, "a lane: four entries in two 16-byte loads"),
        (THREAD, "the unaligned ends: one lane of the first block"),
        (
            CTA,
            f"a CTA is one warp; a column has one per {head.tile['k']} rows of W (z1 to z8: one to eight), "
            f"which add atomically",
        ),
    )


@shows("xw_tiles", "xw_tiles_split", "xw_tiles_swizzled")
def xw_tiles(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, "XWY", "W")
    swizzled, split = head.name.endswith("swizzled"), head.name.endswith("split")
    order = sorted(range(12), key=lambda column: -len(PATTERN[column]))
    columns = order[:4] if swizzled else list(range(4, 8))
    for column in columns:
        _column(s, column, [GROUP])
    own = 5
    if split:
        for index, j in enumerate(PATTERN[own]):
            s.mark("W", j, own, OTHER_GROUP if index >= 4 else THREAD)
    else:
        _column(s, own, [THREAD])
    s.area("X", (2, 6), (0, SIDE), GROUP, "light tint frame")
    s.area("X", (4, 5), (0, SIDE), THREAD, "tint")
    for column in columns:
        s.area("Y", (2, 6), (column, column + 1), GROUP)
    s.area("Y", (4, 5), (own, own + 1), THREAD, "fill")
    if not swizzled:
        s.cta("Y", (2, 6), (4, 8))
    told = {
        "xw_tiles": (GROUP, f"{head.tile['n']} rows of X and {head.tile['m']} columns of W are each used eight times"),
        "xw_tiles_split": (
            OTHER_GROUP,
            "a column of more than 128 entries is cut into segments: another thread has this one",
        ),
        "xw_tiles_swizzled": (GROUP, "a CTA takes columns in order, longest first, so that its threads end together"),
    }[head.name]
    last = (
        (THREAD, "+: the sums of a cut column are added atomically")
        if split
        else (CTA, "a CTA: a tile of 8×8 elements")
    )
    if split:
        x0, y0, across, down = s.at["Y"]
        d.text(x0 + 5.5 * across, y0 + 4.5 * down + 4, "+", "bold", 11, "middle")
    if swizzled:
        last = (CTA, "a CTA: 8×8 elements, of columns from anywhere")
    return beside(s, d, y, (THREAD, "a thread: one element, a row of X by a column of W"), told, last)


# --- flagship ---------------------------------------------------------------------------------------------------------


def _window(s: Scene, rows: range, columns: tuple[float, float], result: bool = True) -> list[int]:
    """A window of A, the columns of its first tile, and the rows of B that it reads; returns those columns."""
    active = sorted({j for i in rows for j in PATTERN[i]})
    for i in rows:
        for j in PATTERN[i]:
            s.mark("A", i, j, GROUP if j in active[:4] else OTHER_GROUP)
    for j in active[:4]:
        s.area("B", (j, j + 1), columns, GROUP)
    s.area("A", (rows.start, rows.stop), (0, SIDE), GROUP, "dashed frame")
    if result:
        s.area("C", (rows.start, rows.stop), columns, GROUP)
    return active[:4]


@shows("window_f16", "window_tf32")
def window(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    _window(s, range(4, 6), (3, 6))
    half = head.name == "window_f16"
    top = aside(d, x, y, "a load of one warp")
    rows, per_row = (8, 4) if half else (4, 8)
    for r in range(rows):
        for c in range(per_row):
            d.rect(
                x + (16 if half else 10) * c,
                top + (5.5 if half else 9) * r,
                16 if half else 10,
                5.5 if half else 9,
                "tint frame",
                THREAD if r == 1 else GROUP,
            )
    d.text(x + (68 if half else 84), top + 15, "64 B" if half else "", "quiet", 8.5)
    lanes_told = (
        "four lanes read 64 neighbouring bytes of a row of B; movmatrix transposes between lanes"
        if half
        else "eight lanes read a line of a row of B; shuffles exchange whole numbers"
    )
    return beside(
        s,
        d,
        y,
        (GROUP, f"a warp: windows of 8 rows, tiles of 16 columns, a slab of {head.tile['slab']} columns of B"),
        (THREAD, lanes_told),
        ("", "the window is the narrow operand of mma: C comes out transposed"),
        (OTHER_GROUP, "the next tile of the window"),
    )


@shows("staged_f16")
def staged(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    _window(s, range(4, 6), (0, SIDE))
    top = aside(d, x, y, "the ring of a warp")
    for stage in range(head.tile["stages"]):
        d.rect(x + 50 * stage, top, 44, 30, "tint frame", SHARED)
        d.text(x + 50 * stage + 22, top + 13, "16 rows", "", 8.5, "middle")
        d.text(x + 50 * stage + 22, top + 24, "of B", "", 8.5, "middle")
    d.path([(x + 22, top + 33), (x + 22, top + 40), (x + 72, top + 40), (x + 72, top + 33)], arrow=True)
    return beside(
        s,
        d,
        y,
        (
            SHARED,
            f"{head.tile['stages']} stages per warp: asynchronous copies read whole lines, ldmatrix makes "
            f"fragments of them",
        ),
        (
            GROUP,
            f"a slab of {head.tile['slab']} columns; {head.tile['warps']} warps, one CTA per "
            f"multiprocessor, the rest of L1 stays a cache",
        ),
        (OTHER_GROUP, "the next tile is in flight"),
    )


@shows("panel_f16", "panel_tf32")
def row_panel(d: Drawing, x: float, y: float, head: Head) -> float:
    by_engine = "cp_async_bulk" in head.features
    copy = "have the copy engine bring" if by_engine else "copy"
    s = Scene(d, x, y)
    _window(s, range(2, 10), (0, SIDE))
    top = aside(d, x, y, "the ring of a CTA")
    tile = head.tile
    wide = 96 / tile["stages"]
    for stage in range(tile["stages"]):
        left, colour = x + wide * stage, SHARED if stage else GROUP
        for name, down, high in (("B", 0, 26), ("A", 27, 13)):
            d.rect(left, top + down, wide - 3, high, "tint frame", colour)
            d.text(left + (wide - 3) / 2, top + down + high / 2 + 3, name, "", 8.5, "middle")
    return beside(
        s,
        d,
        y,
        (
            SHARED,
            f"{tile['stages']} stages: {tile['producers']} producer warps {copy} the 32 rows of B of a tile, and write "
            "the tile of A: zeros, then its list of entries",
        ),
        (
            GROUP,
            "a warpgroup for 128 columns: an instruction multiplies 64, in registers, by 64 rows"
            if by_engine
            else f"a warpgroup: one instruction multiplies 64 rows by {tile['slab']} columns",
        ),
        (OTHER_GROUP, "the next tiles"),
        ("", "parts of a long panel: the last to arrive adds"),
    )


@shows("window_tf32_tall")
def tall(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    active = _window(s, range(4, 8), (3, 6), result=False)
    s.area("C", (4, 6), (3, 6), GROUP)
    s.area("C", (6, 8), (3, 6), THIRD_GROUP)
    for i in (6, 7):
        for j in PATTERN[i]:
            if j in active:
                s.mark("A", i, j, THIRD_GROUP)
    return beside(
        s,
        d,
        y,
        (GROUP, "rows 0 to 7 of the window: one product"),
        (THIRD_GROUP, f"rows 8 to {head.tile['rows'] - 1}: a second product with the same rows of B, read once"),
        ("", "it pays where neighbouring rows share columns"),
    )


@shows("window_fma")
def window_fma(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    active = _window(s, range(4, 6), (0, SIDE))
    s.area("B", (active[1], active[1] + 1), (2, 3), THREAD, "fill")
    s.area("C", (4, 6), (2, 3), THREAD, "fill")
    return beside(
        s,
        d,
        y,
        (
            GROUP,
            f"a warp reads the slab of a row of B as whole lines: {head.tile['slab']} columns, "
            f"{4 * head.tile['slab']} bytes",
        ),
        (
            THREAD,
            "a lane: four columns of all eight rows; each value of B is multiplied by the eight values of its vector",
        ),
        ("", "CUDA cores, full FP32"),
    )


@shows("rows_fma")
def rows_fma(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    for row, colour in ((3, GROUP), (4, OTHER_GROUP), (5, THIRD_GROUP)):
        s.row(row, colour)
        s.area("C", (row, row + 1), (0, SIDE), colour)
    s.cta("C", (3, 9), (0, SIDE))
    s.area("A", (3, 9), (0, SIDE), CTA, "dashed frame")
    top = aside(d, x, y, "queue of segments")
    for index, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP, "", "", "")):
        d.rect(x + 16 * index, top, 16, 13, "tint frame" if colour else "paper faint", colour)
        d.text(x + 16 * index + 8, top + 9.8, index + 3, "", 8.5, "middle")
    d.line(x + 56, top + 26, x + 56, top + 16, arrow=True)
    d.text(x + 24, top + 36, "next free group", "quiet", 9)
    return beside(
        s,
        d,
        y,
        (
            "",
            f"a hue is a lane group: a segment by a slab of {head.tile['slab']} columns, "
            f"{head.tile['batch']} rows of B in flight",
        ),
        (CTA, f"a CTA: {head.tile['warps']} warps on neighbouring segments, whose rows of B meet in L1"),
        ("", "sections of a long row: the last group to arrive adds their partial sums"),
    )


@shows("short_rows_fma")
def short_rows(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    group_of_row(s, 3, 2)
    s.cta("C", (2, 6), (0, SIDE))
    warps = head.tile["threads"] // 32
    return beside(
        s,
        d,
        y,
        (GROUP, f"a lane group: one row, a slab of {head.tile['slab']} columns; all lanes read each entry of A"),
        (THREAD, "a lane: four columns of one row of C, two rows of B in flight"),
        (
            CTA,
            f"a CTA: {warps} warps, of which a multiprocessor holds {warps * head.tile['ctas']}; more rows if n < 128",
        ),
    )


@shows("dealt_rows_fma")
def dealt_rows(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    sets = HUES[:4]
    for index, j in enumerate(PATTERN[5]):
        s.mark("A", 5, j, sets[index % len(sets)])
        s.area("B", (j, j + 1), (0, 2), sets[index % len(sets)], "fill")
    s.area("C", (5, 6), (0, 2), GROUP)
    s.area("A", (5, 6), (0, SIDE), GROUP, "dashed frame")
    s.cta("C", (4, 8), (0, 2))
    top = aside(d, x, y, "sums of four sets")
    for number, colour in enumerate(sets):
        d.rect(x + 25 * number, top, 19, 13, "tint frame", colour)
        if number:
            d.text(x + 25 * number - 3, top + 10, "+", "bold", 9, "middle")
    columns, share = head.tile["columns"], head.tile["share"]
    return beside(
        s,
        d,
        y,
        ("", f"a hue is a set of lanes, each with {columns} columns; n decides how many lanes a set has"),
        (GROUP, f"a row: its sets take its entries in turn, {share} a lane if it is of average length"),
        (CTA, f"a CTA: {head.tile['threads']} threads, and the rows that they make; shuffles add up the sets of a row"),
    )


@shows("even_rows_fma")
def even_rows(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    group_of_row(s, 5, 3)
    top = longest_first(d, x, y)
    d.text(x, top + 26, "two steps of entries", "quiet", 9)
    fours = head.tile["fours"]
    for index in range(12):
        flying = 5 <= index < 5 + fours
        d.rect(x + 8 * index, top + 30, 8, 9, "fill" if flying else "tint frame", THREAD if flying else SHARED)
    d.line(x + 48, top + 28, x + 48, top + 42, "rule")
    return beside(
        s,
        d,
        y,
        (GROUP, f"a lane group: one row, a slab of {4 * head.tile['lanes']} columns"),
        (SHARED, "entries of this step and of the next one, four of them copied by each lane"),
        (
            THREAD,
            f"a lane: four columns, {4 * fours} rows of B in flight, which go on into the next step",
        ),
    )


@shows("spread_rows_fma")
def spread_rows(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    # The longest row has two lane groups, the next one another, in one CTA.
    parts = ((5, PATTERN[5][:3], HUES[0]), (5, PATTERN[5][3:], HUES[1]), (3, PATTERN[3], HUES[3]))
    for row, entries, colour in parts:
        for j in entries:
            s.mark("A", row, j, colour)
            s.area("B", (j, j + 1), (0, SIDE), colour, "tint")
        s.area("C", (row, row + 1), (0, SIDE), GROUP if row == 5 else colour)
    s.area("A", (5, 6), (0, SIDE), GROUP, "dashed frame")
    top = longest_first(d, x, y)
    for number, colour in enumerate((HUES[0], HUES[1])):
        d.rect(x + 25 * number, top + 26, 19, 13, "tint frame", colour)
    d.text(x + 22, top + 36, "+", "bold", 9, "middle")
    columns = head.tile["columns"] * head.tile["lanes"]
    return beside(
        s,
        d,
        y,
        ("", f"a hue is a lane group: its share of a row, a slab of {columns} columns"),
        (
            GROUP,
            "a long row: two, four or more groups of a CTA; the first one adds up the sums of all",
        ),
        ("", "a share is what fills the device, at most an average row"),
    )


@shows("strips_f16")
def strips(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    s.area("B", (0, SIDE), (3, 4), SHARED)
    for i in (4, 5):
        for j in PATTERN[i]:
            s.mark("A", i, j, OTHER_GROUP if i == 4 else GROUP)
    for j in PATTERN[5]:
        s.area("B", (j, j + 1), (3, 4), GROUP, "fill")
    s.area("A", (4, 6), (0, SIDE), GROUP, "dashed frame")
    s.area("C", (4, 6), (3, 4), GROUP)
    s.cta("C", (0, 6), (3, 4))
    s.area("A", (0, 6), (0, SIDE), CTA, "dashed frame")
    top = aside(d, x, y, "32 slots of a row")
    for turn in range(4):
        for bank, colour in enumerate(HUES):
            d.rect(x + 12 * bank, top + 7 * turn, 12, 7, "tint frame", colour)
    d.text(x, top + 38, "a line: all banks", "quiet", 9)
    return beside(
        s,
        d,
        y,
        (SHARED, "shared memory: eight columns of all rows of B"),
        (CTA, "a CTA: one strip, and all rows of A or its part of them"),
        (GROUP, "a warp: a panel of eight rows, one after the other; ldmatrix gathers 32 rows of the strip"),
        (OTHER_GROUP, "another row: its slots of the fragment of A are zero"),
    )


@shows("split_fma", "split_f16")
def split(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    columns = (3.0, 6.0)
    for number, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        _partition(s, 6 + 6 * number, 12 + 6 * number, colour, columns)
    top = aside(d, x, y, "equal batches")
    for number, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        for lane in range(8):
            d.rect(x + 33 * number + lane % 4 * 8, top + lane // 4 * 8, 8, 8, "tint frame", colour)
    half = head.name == "split_f16"
    per = 4 if half else 8
    return beside(
        s,
        d,
        y,
        (
            "",
            f"a hue is a group of {per} lanes: equally many batches of {head.tile['batch']} entries for "
            f"all groups of a warp",
        ),
        (GROUP, f"it reads a slab of {head.tile['slab']} columns of a row of B at a time"),
        (CTA, "a row of several groups: its sums meet in shared memory; one of several CTAs: the last to arrive adds"),
    )


@shows("narrow_fma")
def narrow(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y)
    for number, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        _partition(s, 6 + 4 * number, 10 + 4 * number, colour, (0.0, 1.0))
    top = aside(d, x, y, "sums of three lanes")
    for number, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        d.rect(x + 33 * number, top, 26, 13, "tint frame", colour)
        if number:
            d.line(x + 33 * number - 7, top + 6.5, x + 33 * number, top + 6.5, arrow=True)
    return beside(
        s,
        d,
        y,
        ("", f"a hue is a lane: four neighbouring entries, by all {head.tile['slab']} columns of rows of B"),
        (GROUP, "a row that begins in an earlier lane: a scan over the warp brings the sums of the lanes before"),
        (CTA, "equally many entries for each warp; rows of several warps and CTAs are added as those of split_fma"),
    )


# --- 2:4 GEMM ---------------------------------------------------------------------------------------------------------


@shows("gemm24")
def gemm24(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    tile = head.tile
    s.area("A", (4, 8), (4, 6), GROUP, "tint frame")
    s.area("B", (4, 6), (4, 8), GROUP)
    for r in range(2):
        for c in range(2):
            s.area("C", (4 + 2 * r, 6 + 2 * r), (4 + 2 * c, 6 + 2 * c), GROUP if (r, c) != (0, 1) else THREAD)
    s.area("A", (4, 6), (4, 6), THREAD)
    s.area("B", (4, 6), (6, 8), THREAD)
    s.cta("C", (4, 8), (4, 8))
    top = aside(d, x, y, f"{tile['stages']} stages")
    for stage in range(tile["stages"]):
        d.rect(x + 33 * stage, top, 12, 22, "tint frame", SHARED)
        d.rect(x + 33 * stage + 12, top, 3, 22, "fill", SHARED)
        d.rect(x + 33 * stage + 17, top, 13, 22, "tint frame", SHARED)
    d.text(x, top + 35, "half of A, ids, B", "quiet", 8.8)
    return beside(
        s,
        d,
        y,
        (CTA, f"a CTA: {tile['m']}×{tile['n']} of C, {tile['k']} columns of A per step, of which half are stored"),
        (THREAD, f"a warp: {tile['m'] // tile['warps_m']}×{tile['n'] // tile['warps_n']} of C by mma.sp m16n8k32"),
        (SHARED, "one ldmatrix.x4 brings the metadata of 64×64 of A, packed in its order"),
    )


@shows("gemm24_wgmma_bf16")
def wgmma(d: Drawing, x: float, y: float, head: Head) -> float:
    s = Scene(d, x, y, entries=False)
    tile = head.tile
    for r, colour in ((0, GROUP), (1, OTHER_GROUP)):
        s.area("C", (3 + 3 * r, 6 + 3 * r), (3, 9), colour)
        s.cta("C", (3 + 3 * r, 6 + 3 * r), (3, 9))
        s.area("A", (3 + 3 * r, 6 + 3 * r), (4, 6), colour)
        s.area("B", (4, 6), (3 + 3 * r, 6 + 3 * r), colour)
    top = aside(d, x, y, "warpgroups of a CTA")
    for index, (colour, word) in enumerate(
        ((SHARED, "TMA brings B"), (GROUP, "wgmma, 64 rows"), (GROUP, "wgmma, 64 rows"))
    ):
        d.rect(x, top + 16 * index, 96, 13, "tint frame", colour)
        d.text(x + 4, top + 16 * index + 9.8, word, "", 8.8)
    return beside(
        s,
        d,
        y,
        (CTA, f"a cluster: {tile['ctas']} CTAs one above the other, each {tile['m']}×{tile['n']} of C"),
        (SHARED, "each CTA loads half of the boxes of B and multicasts them into the shared memory of both"),
        (GROUP, "A goes from memory to registers: at full rate B alone takes what shared memory delivers"),
    )


# --- memory-bound: one vector, grids, SCALE --------------------------------------------------------------------------


def _operand(
    d: Drawing,
    x: float,
    y: float,
    rows: int,
    columns: int,
    colour: Callable[[int, int], str],
    cell: float,
    label: str,
) -> float:
    """A small dense operand, a hue per element, "" for a zero; returns its right edge."""
    d.text(x, y + 9, label, "quiet", 9.5)
    for r in range(rows):
        for c in range(columns):
            hue = colour(r, c)
            d.rect(x + c * cell, y + 14 + r * cell, cell, cell, "tint frame" if hue else "paper faint", hue)
    return x + columns * cell


@shows("scale_cc")
def scale_cc(d: Drawing, x: float, y: float, head: Head) -> float:
    d.text(x, y + 9, "B, and C alike: the pairs of a CTA", "quiet", 9.5)
    for index in range(32):
        own = index % 8 == 2
        d.rect(x + 10 * index, y + 14, 10, 14, "tint frame", THREAD if own else GROUP)
    return notes(
        d,
        x,
        y + 46,
        PANEL,
        (THREAD, "a thread: four pairs of 16 bytes, all loaded before the first is stored"),
        (CTA, "a CTA: 2,048 values of 256 threads, evict-first"),
    )


@shows("scale_tc")
def scale_tc(d: Drawing, x: float, y: float, head: Head) -> float:
    right = _operand(d, x, y, 8, 4, lambda r, c: GROUP, 9, "X, 8×4")
    d.text(right + 8, y + 54, "·", "bold", 14)
    right = _operand(d, right + 20, y, 4, 8, lambda r, c: SHARED if c % 4 == r else "", 9, "q·I, twice")
    d.text(right + 7, y + 54, "=", "bold", 12)
    _operand(d, right + 22, y, 8, 8, lambda r, c: GROUP if c < 4 else OTHER_GROUP, 9, "q·X, twice")
    return notes(
        d,
        x,
        y + 106,
        PANEL,
        (GROUP, "a warp: 64 values at a time; a lane holds one of each of two tiles"),
        (SHARED, "one of eight products counts; q·I stands twice so that every lane gets a result to store"),
    )


@shows("spmv_csr_cc")
def spmv_csr_cc(d: Drawing, x: float, y: float, head: Head) -> float:
    lengths = (3, 1, 6, 0, 2, 9, 1, 1, 4, 2)
    points, at, row = [(x, y + 8)], x, y + 8
    for length in lengths:
        at += 9.5 * length
        points.append((at, row))
        row += 8
        points.append((at, row))
    flat: list[tuple[float, float]] = [points[0]]
    for begin, end in pairwise(points):
        steps = max(round(abs(end[0] - begin[0]) / 9.5 + abs(end[1] - begin[1]) / 8), 1)
        flat += [
            (begin[0] + (end[0] - begin[0]) * i / steps, begin[1] + (end[1] - begin[1]) * i / steps)
            for i in range(1, steps + 1)
        ]
    chunk = -(-len(flat) // 3)
    for number, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        d.path(flat[number * chunk : (number + 1) * chunk + 1], "thick", colour)
    d.text(x + 290, y + 22, "entries →", "quiet", 9.5)
    d.text(x, y + 86, "rows ↓", "quiet", 9.5)
    return notes(
        d,
        x,
        y + 106,
        PANEL,
        (GROUP, f"a hue is a chunk: equally many entries and rows, for one CTA of {head.tile['threads']} threads"),
        (SHARED, "products of a tile lie in shared memory while the next tile is loaded; free lanes add up rows"),
        ("", "a row of several chunks: the chunk in which it begins waits for the sums of the others"),
    )


@shows("spmv_dasp_tc")
def spmv_dasp_tc(d: Drawing, x: float, y: float, head: Head) -> float:
    right = _operand(d, x, y, 8, 4, lambda r, c: THREAD if r == 3 else GROUP, 9, "A, 8×4")
    d.text(right + 8, y + 54, "·", "bold", 14)
    right = _operand(d, right + 20, y, 4, 8, lambda r, c: THREAD if c == 3 else GROUP, 9, "values of B")
    d.text(right + 7, y + 54, "=", "bold", 12)
    _operand(d, right + 22, y, 8, 8, lambda r, c: (THREAD if r == 3 else GROUP) if r == c else "", 9, "sums")
    return notes(
        d,
        x,
        y + 106,
        PANEL,
        (THREAD, "column j of the second operand: the values of B that the four entries of row j need"),
        (GROUP, "row j's sum is element (j, j); the other 56 are discarded"),
    )


def _layers(d: Drawing, x: float, y: float, thread: bool) -> None:
    """A plane grid of layers, the walk of a thread and the sums that it keeps."""
    for layer in range(9):
        for point in range(14):
            kept = layer in (4, 5)
            d.rect(
                x + 12 * point, y + 10 * layer, 12, 10, "tint frame" if kept else "paper faint", GROUP if kept else ""
            )
    if thread:
        for layer in (3, 4, 5):
            d.rect(x + 60, y + 10 * layer, 12, 10, "fill", THREAD)
    d.line(x + 66, y - 6, x + 66, y + 24, "rule thick", arrow=True)


@shows("stencil_cc")
def stencil_cc(d: Drawing, x: float, y: float, head: Head) -> float:
    _layers(d, x, y + 10, True)
    return max(
        y + 104,
        notes(
            d,
            x + 188,
            y + 18,
            PANEL - 188,
            (THREAD, "a thread walks down its column of points"),
            (
                GROUP,
                "a value that it reads goes to all sums that need it: those of the layers above and below "
                "stay in registers",
            ),
        ),
    )


@shows("stencil_cc_blocked", "stencil_tc_blocked")
def stencil_blocked(d: Drawing, x: float, y: float, head: Head) -> float:
    for step, colour in enumerate((GROUP, OTHER_GROUP, THIRD_GROUP)):
        for point in range(14):
            inside = step + 1 <= point < 13 - step
            d.rect(
                x + 12 * point,
                y + 62 - 20 * step,
                12,
                12,
                "tint frame" if inside else "hole frame",
                colour if inside else "",
            )
        if step < 2:
            d.line(x + 84, y + 61 - 20 * step, x + 84, y + 56 - 20 * step, arrow=True)
    d.text(x, y + 92, "fetched layer ↓", "quiet", 9.5)
    each = "a warp computes 64 points as products" if head.name == "stencil_tc_blocked" else "a thread one point"
    return max(
        y + 96,
        notes(
            d,
            x + 188,
            y + 14,
            PANEL - 188,
            (
                GROUP,
                "the first step on the layer just fetched; the second (green) and third (orange) each a "
                "layer later, through shared memory",
            ),
            ("", f"grey: the margin, wrong by then and never used; {each}"),
        ),
    )


@shows("stencil_tc")
def stencil_tc(d: Drawing, x: float, y: float, head: Head) -> float:
    right = _operand(d, x, y, 8, 10, lambda r, c: THREAD if r == 2 else GROUP, 9, "windows, 8×10")
    d.text(right + 7, y + 54, "·", "bold", 14)
    right = _operand(d, right + 18, y, 10, 8, lambda r, c: SHARED if 0 <= r - c <= 2 else "", 9, "band, 10×8")
    d.text(right + 6, y + 54, "=", "bold", 12)
    _operand(d, right + 20, y, 8, 8, lambda r, c: THREAD if r == 2 else GROUP, 9, "64 points")
    return notes(
        d,
        x,
        y + 122,
        PANEL,
        (THREAD, "a window: the ten values of a grid row that eight neighbouring results need (radius 1)"),
        (SHARED, "a column of the band: the three coefficients along the row, shifted by one"),
    )


@shows("stencil_lowrank_tc")
def stencil_lowrank(d: Drawing, x: float, y: float, head: Head) -> float:
    right = _operand(d, x, y, 8, 10, lambda r, c: SHARED if 0 <= c - r <= 2 else "", 7, "band along x")
    d.text(right + 6, y + 44, "·", "bold", 14)
    right = _operand(d, right + 16, y, 10, 8, lambda r, c: GROUP, 7, "8 layers")
    d.text(right + 6, y + 44, "→", "bold", 12)
    right = _operand(d, right + 24, y, 8, 8, lambda r, c: THIRD_GROUP if 0 <= abs(r - c) <= 1 else "", 7, "band across")
    d.text(right + 6, y + 44, "·", "bold", 14)
    _operand(d, right + 16, y, 8, 8, lambda r, c: GROUP, 7, "result")
    return notes(
        d,
        x,
        y + 104,
        PANEL,
        (SHARED, "for each outer product: first along rows, with eight layers side by side"),
        (THIRD_GROUP, "then across layers: the registers of the first result are the operand of the second"),
    )


def key() -> Drawing:
    """How to read a panel."""
    d = Drawing(
        "How to read the pictures of kernels",
        "A is left, B above, C between them. A dashed frame is a CTA, blue a warp or lane group, red a thread, violet "
        "shared memory, grey an entry that nobody reads now.",
    )
    s = Scene(d, 20, 4)
    group_of_row(s, 3)
    s.cta("C", (2, 6), (0, SIDE))
    notes(
        d,
        280,
        22,
        WIDTH - 280,
        ("", "A is left, with its entries as squares; B above; C between them."),
        ("", "A row of C lies beside its row of A, a column of C below its column of B."),
        (CTA, "what a CTA covers"),
        (GROUP, "a warp, or a lane group: the entries that it takes, the rows of B that they need, its sums"),
        (THREAD, "one thread of it, or what only one thread does"),
        (SHARED, "shared memory"),
        (OTHER_GROUP, "a second and (orange) a third group"),
    )
    return d


def draw(sheet: str) -> Drawing:
    """The kernels of a study side by side."""
    title, names = SHEETS[sheet]
    everything = kernels()
    d = Drawing(title, " ".join(f"{name}: {everything[name].idea}." for name in names))
    y = 0.0
    for first in range(0, len(names), 2):
        pair = names[first : first + 2]
        begins = [panel(d, i * (PANEL + APART), y, everything[name]) for i, name in enumerate(pair)]
        y = max(PANELS[name](d, i * (PANEL + APART), max(begins), everything[name]) for i, name in enumerate(pair)) + 26
    return d
