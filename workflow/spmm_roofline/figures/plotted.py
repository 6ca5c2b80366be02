"""What a figure has drawn, as rows: a reader of the page can download the numbers behind every figure.

The rows are read off the artists, so that they cannot differ from the picture.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Columns of the rows. ``x`` and ``y`` are numbers, or names on an axis of categories; ``value`` is the length of a
#: bar, the number behind the colour of a cell, or a text. The others are the labels of the axes with their units, and
#: what ``value`` is.
COLUMNS = ("panel", "mark", "series", "x", "y", "value", "x_axis", "y_axis", "value_of")


def plotted(figure: Figure) -> str:
    """CSV with a row for each point, bar, cell and text of all panels, in the order of drawing."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for number, ax in enumerate(figure.axes, start=1):
        if not hasattr(ax, "_colorbar"):
            panel = _title(ax) or str(number)
            labels = _label(ax, "x"), _label(ax, "y")
            lines.writerows((panel, *row, *labels, value_of) for *row, value_of in _of(ax, _told(ax), *labels))
    return out.getvalue()


def _title(ax: Axes) -> str:
    """The title of axes, which may stand above the highest axes of their column."""
    figure: Any = ax.get_figure(root=True)
    column = [one for one in figure.axes if _at(one, "x") == _at(ax, "x") is not None]
    return next(filter(None, (one.get_title() for one in (ax, *column))), "")


def _label(ax: Axes, which: str) -> str:
    """The label of an axis in one line. It may stand at axes that share it, first at those of its row or column, or at
    the figure."""
    shared = getattr(ax, f"get_shared_{which}_axes")().get_siblings(ax)
    near = [one for one in shared if _at(one, which) == _at(ax, which)]
    found = [getattr(one, f"get_{which}label")() for one in (ax, *near, *shared)]
    figure: Any = ax.get_figure(root=True)
    label = next(filter(None, found), "") or getattr(figure, f"get_sup{which}label")()
    return ", ".join(label.splitlines())


def _at(ax: Axes, which: str) -> Any:
    """The column of axes in the grid of their figure, or the row if ``which`` is y; None for axes beside a grid."""
    spec = ax.get_subplotspec()
    return spec and (spec.colspan if which == "x" else spec.rowspan)


def _of(ax: Axes, told: dict[Any, str], x_label: str, y_label: str) -> Iterator[tuple[Any, ...]]:
    """The marks of an axes: all columns but the panel and the labels."""
    import numpy as np
    from matplotlib.patches import Rectangle

    across, up = _names(ax, "x"), _names(ax, "y")
    groups = {bar: str(group.get_label()) for group in ax.containers for bar in group.get_children()}
    for line in ax.lines:
        if line.get_transform() == ax.transData:
            mark = "point" if line.get_linestyle() in ("None", "none", "") else "line"
            for x, y in np.asarray(line.get_xydata(), dtype=float):
                if np.isfinite((x, y)).all():
                    yield mark, _series(line, told), across(x), up(y), "", ""
    for bar in ax.patches:
        if isinstance(bar, Rectangle) and bar.get_data_transform() == ax.transData:
            x, y, width, height = bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()
            lying = up(y + height / 2) != _short(y + height / 2)  # the categories are on the vertical axis
            place = (_short(x), up(y + height / 2)) if lying else (across(x + width / 2), _short(y))
            length = (width, x_label) if lying else (height, y_label)
            yield "bar", _series(bar, told, groups.get(bar, "")), *place, _short(length[0]), length[1]
    for drawn in ax.collections:
        yield from _of_told(drawn) if hasattr(drawn, "told") else _of_collection(drawn, told, across, up)
    for image in ax.images:
        if hasattr(image, "told"):
            yield from _of_told(image)
            continue
        left, right, bottom, top = image.get_extent()
        cells: Any = np.ma.asarray(image.get_array())
        high, wide = cells.shape
        for row, column in np.ndindex(high, wide):
            if cells[row, column] is not np.ma.masked:
                x = left + (column + 0.5) * (right - left) / wide
                y = top + (row + 0.5) * (bottom - top) / high
                yield "cell", "", across(x), up(y), _short(cells[row, column]), ""
    for text in () if any(hasattr(drawn, "told") for drawn in ax.collections) else ax.texts:
        if text.get_text() and text.get_transform() == ax.transData:
            x, y = text.get_position()
            yield "text", _series(text, told), across(x), up(y), text.get_text(), ""


def _of_told(drawn: Any) -> Iterator[tuple[Any, ...]]:
    """Cells that :func:`.cells.tell` has named; texts in them would repeat their values."""
    import numpy as np

    cells: Any = np.ma.asarray(drawn.get_array())
    for row, column in np.ndindex(cells.shape):
        if cells[row, column] is not np.ma.masked:
            names = drawn.told.columns[column], drawn.told.rows[row]
            yield "cell", "", *names, _short(2.0 ** cells[row, column]), drawn.told.quantity


def _of_collection(drawn: Any, told: dict[Any, str], across: Any, up: Any) -> Iterator[tuple[Any, ...]]:
    import numpy as np

    cells = drawn.get_array()
    if hasattr(drawn, "get_coordinates"):  # a mesh of cells
        corners = drawn.get_coordinates()
        for row, column in np.ndindex(*np.ma.asarray(cells).shape):
            if cells[row, column] is not np.ma.masked:
                x, y = corners[row : row + 2, column : column + 2].reshape(-1, 2).mean(axis=0)
                yield "cell", "", across(x), up(y), _short(cells[row, column]), ""
    elif hasattr(drawn, "get_segments"):
        for segment in drawn.get_segments():
            for x, y in segment:
                yield "line", _series(drawn, told), across(x), up(y), "", ""
    else:
        values = [""] * len(drawn.get_offsets()) if cells is None else [_short(value) for value in cells]
        for (x, y), value in zip(np.ma.filled(drawn.get_offsets(), np.nan), values, strict=False):
            yield "point", _series(drawn, told), across(x), up(y), value, ""


def _series(artist: Any, told: dict[Any, str], group: str = "") -> str:
    """What :func:`.style.tie` or :func:`.style.call` noted, the label of the artist or of its group, or what a legend
    says of its look."""
    label = getattr(artist, "series", "") or str(group or artist.get_label() or "")
    return told.get(_look(artist), "") if not label or label.startswith("_") else label


def _told(ax: Axes) -> dict[Any, str]:
    """Look of a mark of these axes → its words in a legend; a look with several words tells none of them.

    The legend is that of the axes or of the whole figure, else one of its neighbours.
    """
    figure: Any = ax.get_figure(root=True)
    own = [*figure.legends, *filter(None, [ax.get_legend()])]
    legends = own or [*filter(None, (other.get_legend() for other in figure.axes))]
    pairs = (
        (mark, text)
        for legend in legends
        for mark, text in zip(legend.legend_handles, legend.get_texts(), strict=False)
    )
    words: dict[Any, set[str]] = {}
    for mark, text in pairs:
        words.setdefault(_look(mark), set()).add(text.get_text())
    return {look: text for look, (text, *others) in words.items() if not others}


def _look(artist: Any) -> Any:
    """The colour of an artist, and its marker if it is a line with one."""
    from matplotlib.colors import to_hex

    colour = artist.get_facecolor() if hasattr(artist, "get_facecolor") else artist.get_color()
    if getattr(colour, "ndim", 1) == 2:
        colour = colour[0] if len(colour) else "none"
    return to_hex(colour), artist.get_marker() if hasattr(artist, "get_marker") else ""


def _names(ax: Axes, which: str) -> Any:
    """Function from a place on an axis to the label of a tick there, or to the number as text."""
    from matplotlib.category import StrCategoryLocator
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    axis = getattr(ax, f"{which}axis")
    named: dict[float, str] = {}
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    told = isinstance(locator, FixedLocator) and isinstance(formatter, FixedFormatter | FuncFormatter)
    if axis.get_scale() == "linear" and (told or isinstance(locator, StrCategoryLocator)):
        places = locator.locs if told else locator()
        named = dict(zip(map(float, places), map(str, formatter.format_ticks(places)), strict=False))
    names = sorted(named)
    # Numbers name categories, sizes for example, if these follow each other at a distance of 1 and not of the numbers.
    apart = {after - before for before, after in itertools.pairwise(names)}
    if any(_number(label) for label in named.values()) and (apart != {1.0} or _is_scale(named)):
        named, names = {}, []

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


def _is_scale(named: dict[float, str]) -> bool:
    """Whether every label is the number at which it stands."""
    return all(_number(label) and float(label.replace(",", "")) == at for at, label in named.items())


def _short(value: Any) -> str:
    """Whole numbers as they are, others with as many digits as the page's rows have."""
    number = float(value)
    return f"{number:.0f}" if number.is_integer() else f"{number:.5g}"
