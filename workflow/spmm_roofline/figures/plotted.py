"""What a figure has drawn, as rows: a reader of the page can download the numbers behind every figure.

The rows are read off the artists, so that they cannot differ from the picture.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Columns of the rows. ``x`` and ``y`` are numbers, or names on an axis of categories; ``value`` is the length of a
#: bar, the number behind the colour of a cell, or a text.
COLUMNS = ("panel", "mark", "series", "x", "y", "value")


def plotted(figure: Figure) -> str:
    """CSV with a row for each point, bar, cell and text of all panels, in the order of drawing."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    told = _told(figure)
    for number, ax in enumerate(figure.axes, start=1):
        if not hasattr(ax, "_colorbar"):
            panel = ax.get_title() or str(number)
            lines.writerows((panel, *row) for row in _of(ax, told))
    return out.getvalue()


def _of(ax: Axes, told: dict[Any, str]) -> Iterator[tuple[Any, ...]]:
    import numpy as np
    from matplotlib.patches import Rectangle

    across, up = _names(ax, "x"), _names(ax, "y")
    for line in ax.lines:
        if line.get_transform() == ax.transData:
            mark = "point" if line.get_linestyle() in ("None", "none", "") else "line"
            for x, y in np.asarray(line.get_xydata(), dtype=float):
                yield mark, _series(line, told), across(x), up(y), ""
    for bar in ax.patches:
        if isinstance(bar, Rectangle) and bar.get_transform() != ax.transAxes:
            x, y, width, height = bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()
            lying = up(y + height / 2) != _short(y + height / 2)  # the categories are on the vertical axis
            place = (_short(x), up(y + height / 2)) if lying else (across(x + width / 2), _short(y))
            yield "bar", _series(bar, told), *place, _short(width if lying else height)
    for drawn in ax.collections:
        yield from _of_collection(drawn, told, across, up)
    for image in ax.images:
        left, right, bottom, top = image.get_extent()
        cells: Any = np.ma.asarray(image.get_array())
        high, wide = cells.shape
        for row, column in np.ndindex(high, wide):
            if cells[row, column] is not np.ma.masked:
                x = left + (column + 0.5) * (right - left) / wide
                y = top + (row + 0.5) * (bottom - top) / high
                yield "cell", "", across(x), up(y), _short(cells[row, column])
    for text in ax.texts:
        if text.get_text() and text.get_transform() == ax.transData:
            yield (
                "text",
                "",
                *(name(at) for name, at in zip((across, up), text.get_position(), strict=True)),
                text.get_text(),
            )


def _of_collection(drawn: Any, told: dict[Any, str], across: Any, up: Any) -> Iterator[tuple[Any, ...]]:
    import numpy as np

    cells = drawn.get_array()
    if hasattr(drawn, "get_coordinates"):  # a mesh of cells
        corners = drawn.get_coordinates()
        for row, column in np.ndindex(*np.ma.asarray(cells).shape):
            if cells[row, column] is not np.ma.masked:
                x, y = corners[row : row + 2, column : column + 2].reshape(-1, 2).mean(axis=0)
                yield "cell", "", across(x), up(y), _short(cells[row, column])
    elif hasattr(drawn, "get_segments"):
        for segment in drawn.get_segments():
            for x, y in segment:
                yield "line", _series(drawn, told), across(x), up(y), ""
    else:
        values = [""] * len(drawn.get_offsets()) if cells is None else [_short(value) for value in cells]
        for (x, y), value in zip(np.ma.filled(drawn.get_offsets(), np.nan), values, strict=False):
            yield "point", _series(drawn, told), across(x), up(y), value


def _series(artist: Any, told: dict[Any, str]) -> str:
    """The kernel that :func:`.style.tie` noted, the artist's label, or what a legend says of its look."""
    label = getattr(artist, "series", "") or str(artist.get_label() or "")
    return told.get(_look(artist), "") if not label or label.startswith("_") else label


def _told(figure: Figure) -> dict[Any, str]:
    """Look of a mark → its words in the legends of a figure."""
    legends = [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]
    pairs = (
        (mark, text)
        for legend in legends
        for mark, text in zip(legend.legend_handles, legend.get_texts(), strict=False)
    )
    return {_look(mark): text.get_text() for mark, text in pairs}


def _look(artist: Any) -> Any:
    """The colour of an artist, and its marker if it is a line with one."""
    from matplotlib.colors import to_hex

    colour = artist.get_facecolor() if hasattr(artist, "get_facecolor") else artist.get_color()
    if getattr(colour, "ndim", 1) == 2:
        colour = colour[0] if len(colour) else "none"
    return to_hex(colour), artist.get_marker() if hasattr(artist, "get_marker") else ""


def _names(ax: Axes, which: str) -> Any:
    """Function from a place on an axis to the label of a tick there, or to the number as text."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    axis = getattr(ax, f"{which}axis")
    named: dict[float, str] = {}
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    told = isinstance(locator, FixedLocator) and isinstance(formatter, FixedFormatter | FuncFormatter)
    if told and axis.get_scale() == "linear":
        labels = map(str, formatter.format_ticks(locator.locs))
        named = dict(zip(map(float, locator.locs), labels, strict=False))
    if any(_number(label) for label in named.values()):
        named = {}
    names = sorted(named)

    def name(at: float) -> str:
        near = min(names, key=lambda tick: abs(tick - at), default=None)
        return named[near] if near is not None and abs(near - at) <= 0.5 and named[near] else _short(at)

    return name


def _number(label: str) -> bool:
    try:
        float(label.replace(",", ""))
    except ValueError:
        return False
    return True


def _short(value: Any) -> str:
    return f"{float(value):.6g}"
