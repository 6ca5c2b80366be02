"""One look for all figures: a hue per study, a marker per kernel, grey for cuSPARSE, colours that a page can replace.

If one axes has many kernels of one study, each gets its own hue and keeps its marker. The hues follow Okabe and Ito
(2008), who chose them for any colour vision, in tones that are readable on a light and on a dark page. Markers repeat
the distinction.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STUDIES = {
    "smat": "#0072b2",
    "sptc": "#d55e00",
    "cutespmm": "#009e73",
    "attention": "#cc79a7",
    "gemm24": "#b8860b",
    "scalar": "#2f9cd4",
    "tcgnn": "#7a5cc0",
    "memory_bound": "#a0522d",
    "flagship": "#d1265c",
    "cusparse": "#7a7f88",
    "cusparselt": "#90949f",
    "cublas": "#64686f",
}
OTHER = "#5f7f3f"
LIBRARIES = ("cusparse", "cusparselt", "cublas")
#: Hues for categories that are no studies, each far from its neighbours.
HUES = (*(hue for study, hue in STUDIES.items() if study not in LIBRARIES), OTHER)
#: One hue per precision, most of them Okabe and Ito's, whose orange is too pale for a light page.
PRECISION_HUES = {
    "float8_e4m3": "#9b40e0",
    "float16": "#d55e00",
    "bfloat16": "#cc79a7",
    "tf32": "#009e73",
    "float32": "#0072b2",
    "float64": "#6b7079",
}
MARKERS = "osD^vPX*h<>p"
#: Relative luminance of the darkest and the palest tone of a mark. Both have a contrast of at least 3:1 (WCAG 2,
#: success criterion 1.4.11) to the light and to the dark card of a page, which report/style.css defines.
DARKEST, PALEST = 0.14, 0.295

#: Placeholders that :mod:`inlining` replaces by the page's own colours; a figure in its own file keeps them.
INK, FAINT, PAPER = "#14171e", "#c9ced7", "#fdfdfe"

#: Matplotlib settings; the salt and the absent date keep the bytes of an SVG stable.
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "spmm-roofline",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titley": 1.0,  # no figure has ticks above, for which Matplotlib would measure all ticks of an axes again
    "axes.labelsize": 8.5,
    "figure.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "grid.color": FAINT,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "patch.linewidth": 0.5,
}
WIDTH = 9.2  # inches of every figure
MOST_MARKS = 5000  # more marks than this are rasterized, because the page would become too large
RASTER_DPI = 144  # of rasterized marks: two pixels a point, as many as screens show
#: What follows the hundredths of a number inside a tag.
_LONG = re.compile(r"(?<=\.\d\d)\d+(?=[^<>]*>)")


def canvas(rows: int, columns: int, height: float, **options) -> tuple[Figure, list]:
    """A figure of the common width and its axes, row by row."""
    from matplotlib.figure import Figure

    from .axes import Axes

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, subplot_kw={"axes_class": Axes}, **options)
    return figure, list(axes.flat)


def panels(count: int, columns: int, height: float, around: float, **options) -> tuple[Figure, list]:
    """A figure of ``count`` axes, at most ``columns`` in a row, each row ``height`` inches high.

    ``around`` is the height of titles and legends. The lowest axes of each column carry the labels of a shared x axis.
    """
    rows = -(-count // columns)
    columns = -(-count // rows)
    figure, axes = canvas(rows, columns, around + rows * height, **options)
    for ax in axes[count:]:
        ax.remove()
    for ax in axes[max(0, count - columns) : count]:
        ax.tick_params(labelbottom=True)
    return figure, axes[:count]


def kernel_styles(rows: pd.DataFrame) -> dict[str, dict]:
    """Kernel → ``color`` and ``marker``, from rows with ``kernel`` and ``study``; libraries come first.

    Made once from all rows of a report, so that a kernel looks the same in every figure. A study keeps its hue, in as
    many tones as give each of its kernels its own combination of tone and marker.
    """
    pairs = rows[["study", "kernel"]].drop_duplicates().sort_values(["study", "kernel"])
    order = sorted(pairs["study"].unique(), key=lambda study: (study not in LIBRARIES, study))
    styles: dict[str, dict] = {}
    for study in order:
        kernels = list(pairs.loc[pairs["study"] == study, "kernel"])
        tones = _tones(STUDIES.get(study, OTHER), -(-len(kernels) // len(MARKERS)))
        for number, kernel in enumerate(kernels):
            # Neighbours differ in both; a marker that repeats has another tone.
            repeats, position = divmod(number, len(MARKERS))
            tone = tones[(position + repeats) % len(tones)]
            styles[kernel] = {"color": tone, "marker": MARKERS[len(styles) % len(MARKERS)]}
    return styles


def _tones(hue: str, count: int = 3) -> list[tuple[float, float, float]]:
    """``count`` tones of a hue, at least three: first itself, then those that differ most from it in luminance. They
    are shifted to its neighbouring hues, by turns to either side, so that they are easy to distinguish."""
    import colorsys

    import numpy as np
    from matplotlib.colors import to_rgb

    at, _, saturation = colorsys.rgb_to_hls(*to_rgb(hue))
    own, count = luminance(hue), max(3, count)
    levels = sorted(np.linspace(DARKEST, PALEST, count + 1).tolist(), key=lambda level: -abs(level - own))
    tones = [to_rgb(hue)]
    for number, level in enumerate(levels[: count - 1]):
        shift = 0.06 * (-1) ** number * (1 - number // 2 / count)
        tones.append(_lit((at + shift) % 1, level, saturation))
    return tones


def luminance(colour: Any) -> float:
    """Relative luminance of a colour, as WCAG 2 defines it: 0 is black, 1 is white."""
    from matplotlib.colors import to_rgb

    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in to_rgb(colour)]
    return sum(share * value for share, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _lit(hue: float, wanted: float, saturation: float) -> tuple[float, float, float]:
    """The tone of a hue, from 0 to 1, that has the luminance ``wanted``."""
    import colorsys

    dark, pale = 0.0, 1.0
    for _ in range(20):
        middle = (dark + pale) / 2
        if luminance(colorsys.hls_to_rgb(hue, middle, saturation)) < wanted:
            dark = middle
        else:
            pale = middle
    return colorsys.hls_to_rgb(hue, pale, saturation)


def apart(styles: Mapping[str, Mapping], rows: pd.DataFrame) -> dict[str, dict]:
    """Colour and marker of the kernels in ``rows`` for axes that show all of them, in the order of ``styles``.

    If a study has more kernels than its hue has tones, every kernel gets its own hue, whatever its study, and keeps its
    marker unless another kernel of the same hue has it. Libraries stay grey, in distinct tones.
    """
    studies = rows.drop_duplicates("kernel").set_index("kernel")["study"]
    shown = [kernel for kernel in styles if kernel in studies]
    own = [kernel for kernel in shown if studies[kernel] not in LIBRARIES]
    crowded = max((sum(studies[own] == study) for study in set(studies[own])), default=0) > 3
    looks: dict[str, dict] = {}
    taken = set()
    colours: dict[str, Iterator] = {study: itertools.cycle(_tones(STUDIES[study])) for study in LIBRARIES}
    hues = itertools.cycle(HUES)
    for kernel in shown:
        marker, colour = styles[kernel]["marker"], styles[kernel]["color"]
        if studies[kernel] in LIBRARIES or crowded:
            colour = next(colours.get(studies[kernel], hues))
            first = MARKERS.index(marker)
            marker = next(name for name in MARKERS[first:] + MARKERS[:first] if (colour, name) not in taken)
        taken.add((colour, marker))
        looks[kernel] = {"color": colour, "marker": marker}
    return looks


def groups_of(styles: Mapping[str, Mapping], rows: pd.DataFrame, most: int = 12) -> list[list[str]]:
    """The kernels of ``rows`` in panels of at most ``most``; the kernels of a study stay together if they fit."""
    studies = rows.drop_duplicates("kernel").set_index("kernel")["study"]
    groups: list[list[str]] = [[]]
    for study in dict.fromkeys(studies[kernel] for kernel in styles if kernel in studies):
        own = [kernel for kernel in styles if kernel in studies and studies[kernel] == study]
        chunks = -(-len(own) // most)
        for number in range(chunks):
            chunk = own[number * len(own) // chunks : (number + 1) * len(own) // chunks]
            if len(groups[-1]) + len(chunk) <= most:
                groups[-1] = groups[-1] + chunk
            else:
                groups.append(chunk)
    return groups


def timed(cases: pd.DataFrame) -> pd.DataFrame:
    """The rows whose time is compared: verified, and not noisy."""
    return cases[(cases["status"] == "ok") & ~cases["noisy"].fillna(False).astype(bool)]


def without_variants(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without cuSPARSE's variants if another kernel ran and the derived cusparse_best represents them; otherwise
    rows without cusparse_best."""
    is_best = rows["kernel"].str.startswith("cusparse_best_")
    variants = (rows["study"] == "cusparse") & ~is_best
    if is_best.any() and (rows["study"] != "cusparse").any():
        return rows[~variants]
    return rows[~is_best]


def tie(marks: Artist, rows: pd.DataFrame) -> None:
    """Tie the marks of one artist to their rows, so that the page can describe each mark and link to its row.

    ``rows`` are the drawn rows in drawing order; their column ``case`` is the number of the row in ``cases``.
    Rasterized marks are not tied.
    """
    if "kernel" in rows and rows["kernel"].nunique() == 1:
        call(marks, rows["kernel"].iloc[0])
    if "case" in rows and not marks.get_rasterized():
        marks.set_gid("_".join(["case", *_runs(rows["case"])]))


def call(marks: Artist, series: str) -> None:
    """Name the series of marks in the numbers behind the figure, where their label is another or none."""
    marks.series = series  # type: ignore[attr-defined]


def tell(shape: Artist, text: str) -> None:
    """Show ``text`` when the pointer is on an invisible shape."""
    shape.set(alpha=0.001, gid=f"tell_{text}")


def _runs(numbers: Iterable[int]) -> list[str]:
    """``3, 4, 5, 9`` as ``3-5, 9``: rows of a kernel are often consecutive."""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ["-".join(map(str, run)) for run in runs]


def marks(ax: Axes, x, y, s: float, edge: float = 0.0, **look) -> Artist:
    """Like ``ax.scatter(x, y, s)`` in one colour, but ten times as fast: a figure has hundreds of such calls."""
    import numpy as np
    from matplotlib.lines import Line2D

    places = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    line = Line2D(*places, linestyle="none", markersize=s**0.5, markeredgewidth=edge, **look)
    ax.add_line(line)
    ax.autoscale(cast(Any, None))  # limits that follow the data follow these too
    return line


def legend(figure: Figure, styles: Mapping[str, Mapping], kernels: Iterable[str]) -> None:
    """One legend below all axes, in the order of ``styles``, in at most five columns."""
    handles = _handles(styles, kernels)
    columns = fitting_columns(handles, 72 * figure.get_figwidth() - 8, 5)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, handletextpad=0.3)


def key(ax: Axes, styles: Mapping[str, Mapping], kernels: Iterable[str], below: float) -> None:
    """A legend under one of several axes, in one or two columns; ``below`` is its distance as a fraction of the axes'
    height."""
    handles = _handles(styles, kernels)
    look = {"handletextpad": 0.2, "columnspacing": 0.8, "handlelength": 1.2}
    grid, figure = ax.get_gridspec(), cast(Any, ax.figure)
    room = 72 * figure.get_figwidth() / (grid.ncols if grid else 1)
    ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.46, -below), fontsize=7, borderpad=0, labelspacing=0.35,
        ncols=fitting_columns(handles, room, 2, size=7, **look), **look,
    )  # fmt: skip


def fitting_columns(
    handles: Sequence[Artist],
    room: float,
    most: int,
    size: float = RC["legend.fontsize"],
    handlelength: float = 2.0,
    handletextpad: float = 0.3,
    columnspacing: float = 2.0,
) -> int:
    """How many columns of a legend, at most ``most``, fit into ``room`` points; the lengths have Matplotlib's unit, the
    size of the text."""
    import numpy as np
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=RC["font.sans-serif"], size=size)
    names = [str(handle.get_label()) for handle in handles]
    widths = [text_to_path.get_text_width_height_descent(name, font, ismath=False)[0] for name in names]
    for columns in range(min(most, len(widths)), 1, -1):
        # A legend fills its columns one after the other.
        texts = sum(max(column) for column in np.array_split(widths, columns))
        if texts + size * (columns * (handlelength + handletextpad) + (columns - 1) * columnspacing) <= room:
            return columns
    return 1


def _handles(styles: Mapping[str, Mapping], kernels: Iterable[str]) -> list[Artist]:
    from matplotlib.lines import Line2D

    kernels = set(kernels)
    return [
        Line2D([], [], linestyle="none", markersize=6, markeredgewidth=0, label=name, **style)
        for name, style in styles.items()
        if name in kernels
    ]


def _leave_ticks_to_neighbour(ax: Axes) -> None:
    """No ticks at rows of which a neighbour that shares them has the labels."""
    from matplotlib.ticker import FixedLocator

    shares = len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    labelled = ax.yaxis.get_tick_params().get("labelleft", True)
    rows = ax.get_yscale() == "linear" and isinstance(ax.yaxis.get_major_locator(), FixedLocator)
    if shares and rows and not labelled:
        ax.tick_params(axis="y", left=False)


def svg(figure: Figure) -> str:
    """The figure as SVG text; equal figures give equal bytes."""
    from .measured_text import measured_once
    from .renderer import rendered

    for ax in figure.axes:
        inside = [artist for artist in (*ax.lines, *ax.collections, *ax.patches) if artist.get_clip_on()]
        for artist in (*inside, *ax.spines.values()):
            artist.set_in_layout(False)  # the axes have a place for it
        _leave_ticks_to_neighbour(ax)
        for axis in (ax.xaxis, ax.yaxis):
            if not axis.get_label_text():
                axis.set_label_coords(0, 0)  # or all tick labels are measured to find a place for no label
    with measured_once():
        text = rendered(figure, dpi=RASTER_DPI)
    # Hundredths of a point are finer than any screen, and a page holds a hundred thousand coordinates.
    text = _LONG.sub("", text)
    return re.sub(r'<g id="tell_([^"]*)">', r"<g><title>\1</title>", text)
