"""What drawings of formats are made of: a matrix, an array as a strip of cells, a tile, each cell in an entry's hue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .svg import HUES, MONOSPACED, Drawing, number

#: The hue of the entry with a value; values number the entries.
Colours = Callable[[int], str]


def matrix(
    d: Drawing,
    x: float,
    y: float,
    a: Any,
    pitch: float,
    colours: Colours,
    numbers: bool = True,
    row_pitch: float = 0,
    every: int = 1,
    label: str = "A",
) -> tuple[float, float]:
    """The dense picture of ``a`` (CSR), each entry in its hue; returns right and lower edge.

    ``every``: a faint line after that many rows and columns.
    """
    m, k = a.shape
    down = row_pitch or pitch
    d.text(x, y + 10, f"{label}, {m}×{k}", "bold", 11.5)
    y += 17
    d.rect(x, y, k * pitch, m * down, "paper frame")
    d.grid(x, y, k, m, pitch, down, every)
    size = min(0.66 * pitch, 8.5)
    with d.cells(size, data_matrix=f"{number(x)} {number(y)} {pitch} {down}"):
        for row in range(m):
            for at in range(a.indptr[row], a.indptr[row + 1]):
                left, top, value = x + a.indices[at] * pitch, y + row * down, int(a.data[at])
                kind = "tint frame" if numbers else "fill"
                d.rect(left, top, pitch, down, kind, colours(value), str(value))
                if numbers:
                    d.text(left + pitch / 2, top + down / 2 + 0.36 * size, value, "mono", size, "middle")
    return x + k * pitch, y + m * down


def outline(d: Drawing, a: Any, pitch: float, first: int, rows: int) -> None:
    """A dashed frame around ``rows`` rows of a matrix, or those left, that :func:`matrix` drew at the origin."""
    m, k = a.shape
    d.rect(0, 17 + first * pitch, k * pitch, (min(first + rows, m) - first) * pitch, "thick dashed frame", HUES[5])


def strip(
    d: Drawing,
    x: float,
    y: float,
    width: float,
    name: str,
    array: Any,
    colours: Sequence[str] | None = None,
    values: bool = False,
    cell: float = 0,
    note: str = "",
    written: Callable[[Any], str] = str,
    of: str = "",
) -> float:
    """An array as numbered cells, in lines of at most ``width``; returns the lower edge.

    ``colours``: a hue per cell, "" for none. ``values``: the cells are slots of entries, whose value is their number.
    ``of``: the array of which this is a section.
    """
    flat = np.asarray(array).reshape(-1)
    told = [written(int(value)) for value in flat]
    size = 8.5
    cell = cell or max(15.0, size * MONOSPACED * max(map(len, told), default=1) + 4)
    d.text(x, y + 9, name, "mono bold", 10.5)
    extent = "×".join(map(str, np.shape(array)))
    d.text(
        x + 10.5 * MONOSPACED * len(name) + 7, y + 9, f"{array.dtype.name}[{extent}]{note and '  '}{note}", "quiet", 9.5
    )
    y += 14
    # The rows of a table of two to four columns stand apart.
    inner = array.shape[1] if np.ndim(array) == 2 and 2 <= array.shape[1] <= 4 else 0
    gap = 5 if inner else 0
    per_line = int((width + 0.01 + gap) // (inner * cell + gap)) * inner if inner else int((width + 0.01) // cell)
    per_line, height = max(per_line, inner, 1), 15.0
    with d.cells(size, data_array=of or name, **({"data_values": "1"} if values else {})):
        for index, (value, text) in enumerate(zip(flat, told, strict=True)):
            left = x + index % per_line * cell + (index % per_line // inner * gap if inner else 0)
            top = y + index // per_line * (height + 3)
            colour = colours[index] if colours else ""
            entry = str(int(value)) if values and value else ""
            d.rect(left, top, cell, height, "tint frame" if colour else "paper faint", colour, entry)
            d.text(left + cell / 2, top + 10.6, text, "mono", size, "middle")
    if not len(flat):
        d.text(x, y + 10.6, "empty", "quiet", 9.5)
    return y + max(-(-len(flat) // per_line), 1) * (height + 3) + 6


def tile(
    d: Drawing,
    x: float,
    y: float,
    values: Any,
    pitch: float,
    colours: Colours,
    numbers: bool = False,
    down: float = 0,
    every: int = 0,
    frame: str = "",
) -> None:
    """A dense tile, values[rows, columns]: its entries in their hues, padding empty."""
    rows, columns = values.shape
    down = down or pitch
    d.rect(x, y, columns * pitch, rows * down, "paper faint")
    if every:
        d.grid(x, y, columns, rows, pitch, down, every)
    for row, column in zip(*np.nonzero(values), strict=True):
        value = int(values[row, column])
        left, top = x + column * pitch, y + row * down
        d.rect(left, top, pitch, down, "tint frame" if numbers else "fill", colours(value), str(value))
        if numbers:
            size = min(0.66 * pitch, 8)
            d.text(left + pitch / 2, top + down / 2 + 0.36 * size, value, "mono", size, "middle")
    d.rect(x, y, columns * pitch, rows * down, "frame", frame)


def heading(d: Drawing, x: float, y: float, name: str, array: Any, note: str = "") -> float:
    """Name, dtype and shape of an array that is drawn as tiles; returns where the tiles begin."""
    extent = "×".join(map(str, np.shape(array)))
    d.text(x, y + 9, name, "mono bold", 10.5)
    d.text(
        x + 10.5 * MONOSPACED * len(name) + 7, y + 9, f"{array.dtype.name}[{extent}]{note and '  '}{note}", "quiet", 9.5
    )
    return y + 15
