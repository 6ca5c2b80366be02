"""Where the non-zeros lie
A spy plot: each cell is one of at most 64 × 64 equal blocks of A, row 1 at the top, and the stronger its colour, the
more non-zeros it holds, on a scale that doubles. Neighbouring rows of a dark cell share columns, so that caches and
tiles reuse rows of B; an even tint is a matrix whose rows have little in common."""

from __future__ import annotations

from .numbers import counted, percent
from .style import STUDIES, canvas

SECTION, ORDER, PER = "own", 1, ("matrix",)
#: The table whose combinations of ``PER`` have a figure each.
OF = "predicted"


def _bits(tables):
    """The number of bits of the count of each cell, cell row by cell row; None for a matrix without a grid."""
    about = tables["matrices"]
    if "occupancy" not in about or about.empty or not isinstance(text := about["occupancy"].iloc[0], str) or not text:
        return None
    return [[int(digit, 36) for digit in line] for line in text.split("/")]


def draw(tables, styles):
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, to_rgb
    from matplotlib.ticker import MaxNLocator

    bits = _bits(tables)
    if bits is None:
        return None
    about = tables["matrices"].iloc[0]
    cells = np.ma.masked_equal(bits, 0)
    figure, (ax,) = canvas(1, 1, 5.6)
    figure.set_figwidth(5.6)
    # One hue of which the weakest tone still shows, on a light and on a dark ground.
    hue = to_rgb(STUDIES["smat"])
    colours = LinearSegmentedColormap.from_list("spy", [(*hue, 0.25), (*hue, 1.0)])
    extent = (0.5, about["k"] + 0.5, about["m"] + 0.5, 0.5)  # row 1 and column 1 are centred on 1
    ax.imshow(cells, colours, interpolation="none", extent=extent, aspect="auto", vmin=0, vmax=max(1, np.max(bits)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.grid(visible=False)
    ax.set(xlabel="column", ylabel="row")
    for spine in ax.spines.values():
        spine.set_visible(True)
    return figure


def says(tables):
    bits = _bits(tables)
    if bits is None:
        return ""
    cells = [bit for line in bits for bit in line]
    filled = sum(bit > 0 for bit in cells)
    near = sum(
        bit > 0 and abs((row + 0.5) / len(bits) - (column + 0.5) / len(line)) < 0.05
        for row, line in enumerate(bits)
        for column, bit in enumerate(line)
    )
    lies = f"; {percent(near / filled)} of these lie within a twentieth of the diagonal" if filled > 1 else ""
    return f"{filled:,} of {counted(len(cells), 'cell')} {'holds' if filled == 1 else 'hold'} a non-zero{lies}."
