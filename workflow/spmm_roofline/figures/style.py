"""One look for all figures: a hue a study, a marker a kernel, cuSPARSE in grey, ink and paper that a page can replace.

The hues are those of Okabe and Ito (2008), told apart with any colour vision, in tones that stand on white and on
black; markers say the same a second time.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

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
    "scalar": "#2f9fd8",
    "tcgnn": "#7a5cc0",
    "memory_bound": "#a0522d",
    "flagship": "#d1265c",
    "cusparse": "#8a8f98",
    "cusparselt": "#a7abb2",
    "cublas": "#6b7079",
}
OTHER = "#5f7f3f"
LIBRARIES = ("cusparse", "cusparselt", "cublas")
MARKERS = "osD^vPX*h<>p"

#: Placeholders that :mod:`inlining` turns into the page's own colours; in a file of its own they are what they say.
INK, FAINT, PAPER = "#14171e", "#c9ced7", "#fdfdfe"

#: Matplotlib settings; the salt and the absent date keep the bytes of an SVG stable.
RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "spmm-roofline",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.labelsize": 8.5,
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
MOST_MARKS = 5000  # more marks than this are one picture inside the figure, or the page becomes too heavy


def canvas(rows: int, columns: int, height: float, **options) -> tuple[Figure, list]:
    """A figure of the common width and its axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def kernel_styles(rows: pd.DataFrame) -> dict[str, dict]:
    """Kernel → ``color`` and ``marker``, from rows with ``kernel`` and ``study``; libraries come first.

    Made once of all rows of a report, so that a kernel looks the same in every figure. A study keeps its hue and its
    kernels differ by lightness; markers change from kernel to kernel.
    """
    import seaborn as sns

    pairs = rows[["study", "kernel"]].drop_duplicates().sort_values(["study", "kernel"])
    order = sorted(pairs["study"].unique(), key=lambda study: (study not in LIBRARIES, study))
    styles = {}
    for study in order:
        kernels = list(pairs.loc[pairs["study"] == study, "kernel"])
        hue = STUDIES.get(study, OTHER)
        # The darker half of a palette that ends in the hue: light enough to differ, dark enough to be seen.
        shades = sns.light_palette(hue, 2 * len(kernels) + 1)[len(kernels) + 1 :] if len(kernels) > 1 else [hue]
        for kernel, shade in zip(kernels, reversed(shades), strict=True):
            styles[kernel] = {"color": shade, "marker": MARKERS[len(styles) % len(MARKERS)]}
    return styles


def without_variants(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without cuSPARSE's variants where another kernel runs and the derived cusparse_best stands for them."""
    is_best = rows["kernel"].str.startswith("cusparse_best_")
    variants = (rows["study"] == "cusparse") & ~is_best
    if is_best.any() and (rows["study"] != "cusparse").any():
        return rows[~variants]
    return rows[~is_best]


def tie(marks: Artist, rows: pd.DataFrame) -> None:
    """Tie the marks of one artist to their rows, so that the page can tell what each is and lead to it.

    ``rows`` are those that were drawn, in that order, none without a place; their column ``case`` is the number of
    the row in ``cases``. Marks that became a picture tell nothing.
    """
    if "case" in rows and not marks.get_rasterized():
        marks.set_gid("_".join(["case", *_runs(rows["case"])]))


def _runs(numbers: Iterable[int]) -> list[str]:
    """``3, 4, 5, 9`` as ``3-5, 9``: rows of a kernel follow each other."""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ["-".join(map(str, run)) for run in runs]


def marks(ax: Axes, x, y, s: float, edge: float = 0.0, **look) -> Artist:
    """As ``ax.scatter(x, y, s)`` in one colour, ten times as fast: a figure has hundreds of such calls."""
    return ax.plot(x, y, linestyle="none", markersize=s**0.5, markeredgewidth=edge, **look)[0]


def legend(figure: Figure, styles: dict[str, dict], kernels: Iterable[str]) -> None:
    """One legend below all axes, in the order of ``styles``."""
    from matplotlib.lines import Line2D

    kernels = set(kernels)
    handles = [
        Line2D([], [], linestyle="none", markersize=6, markeredgewidth=0, label=name, **style)
        for name, style in styles.items()
        if name in kernels
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), handletextpad=0.3)


def short_names(names: Iterable[str], most: int = 40) -> list[str]:
    """Names as labels: where those longer than ``most`` end alike, an ellipsis stands for that end."""
    names = list(names)
    long = {name for name in names if len(name) > most}
    words = zip(*(reversed(name.split("-")) for name in long), strict=False)
    shared = itertools.takewhile(lambda same: len(set(same)) == 1, words) if len(long) > 1 else ()
    end = "".join(f"-{same[0]}" for same in reversed([*shared]))
    return [f"{name.removesuffix(end)}…" if end and name in long else name for name in names]


def short(value: float) -> str:
    """A round number as a tick: 0.5, 20, 5k, 2M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}" if value >= 1 else f"{value:.3g}"


def plain_log(axis, room: int = 7, ticks: Iterable[float] | None = None) -> None:
    """Plain numbers on a logarithmic axis whose limits are final: ``ticks``, or the finest steps of which at most
    ``room`` fit."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if ticks is None:
        low, high = sorted(axis.get_view_interval())
        for steps in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            ticks = [
                step * 10.0**power for power in range(-9, 13) for step in steps if low <= step * 10.0**power <= high
            ]
            if len(ticks) <= room:
                break
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())


def svg(figure: Figure) -> str:
    """The figure as SVG text, the same bytes for the same figure."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # Not through savefig, which draws a figure with a layout engine twice, the first time for the layout alone.
    figure.set_dpi(200)
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    # Hundredths of a point are finer than any screen, and a page holds a hundred thousand coordinates.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag.group()), buffer.getvalue())
