"""Where each kernel wins and loses
Speed-up over the fastest of cuSPARSE's CSR and COO algorithms for each kernel and matrix, one panel per width N. Orange
is faster than cuSPARSE, purple slower; colours reach to the largest factor shown, but no further than 8. A hatched cell
has no value, because the kernel or cuSPARSE has no time. Matrices are sorted by the fill of their 16×16 tiles, the
fullest on top."""

from __future__ import annotations

from .cells import hatch_empty, key, tell
from .labels import short_names
from .numbers import counted, significant, times
from .sentences import named, population
from .style import WIDTH, panels

SECTION, ORDER, PER = "suite", 3, ("device", "suite", "l2", "precision")


def _shown(tables):
    cases = tables["cases"]
    return cases[cases["speedup"].notna() & (cases["study"] != "cusparse")]


def draw(tables, styles):
    import numpy as np

    rows = _shown(tables)[["matrix", "n", "kernel", "speedup"]]
    if rows.empty or rows["matrix"].nunique() < 2:
        return None
    widths = sorted(rows["n"].unique())
    ran = set(rows["kernel"])
    kernels = [name for name in styles if name in ran]
    fill = tables["matrices"].set_index("matrix")["tile_fill_16x16_fraction"]
    matrices = sorted(rows["matrix"].unique(), key=lambda name: (-fill.get(name, 0.0), name))
    limit = float(np.clip(np.abs(np.log2(rows["speedup"])).max(), 1, 3))
    labels = short_names(matrices)
    # Inches left for cells beside the matrix names and the colour bar, and inches that the name of a kernel needs.
    room, column = WIDTH - 1.1 - 0.06 * max(map(len, labels)), 0.105
    columns = max(1, min(len(widths), int(room / (column * len(kernels) + 0.2))))
    lines = -(-len(widths) // columns)
    cell = room / (-(-len(widths) // lines) * len(kernels))
    written = len(matrices) <= 45 and cell >= 0.26
    names = 0.07 * max(map(len, kernels))
    row = 0.23 if written or lines * len(matrices) <= 20 else 0.14 if len(matrices) <= 45 else 0.115
    around = 0.3 + names + 0.25 * lines
    tilt = 40 if cell >= 0.4 else 70 if cell >= 0.2 else 90
    above = {"rotation": tilt, "ha": "right", "va": "center" if tilt == 90 else "baseline", "rotation_mode": "anchor"}
    figure, axes = panels(len(widths), columns, row * len(matrices), around)
    columns = -(-len(widths) // lines)
    for position, (ax, n) in enumerate(zip(axes, widths, strict=True)):
        left, lowest = position % columns == 0, position + columns >= len(widths)
        grid = rows[rows["n"] == n].pivot(index="matrix", columns="kernel", values="speedup")
        grid = grid.reindex(index=matrices, columns=kernels)
        # Not through seaborn, which measures all labels to check whether they overlap.
        logs = np.ma.masked_invalid(np.log2(grid.to_numpy(dtype=float)))
        colours = {"vmin": -limit, "vmax": limit, "cmap": "PuOr_r"}
        if not written:  # an image of one pixel a cell
            extent = (0, len(kernels), len(matrices), 0)
            mesh = ax.imshow(logs, extent=extent, aspect="auto", interpolation="none", **colours)
        else:
            mesh = ax.pcolormesh(logs, linewidth=0.4, edgecolor="#ffffff00", **colours)
            _write(ax, mesh, grid.to_numpy(dtype=float), 7.5 if cell >= 0.33 else 6.5)
        ax.set(title=f"N = {n}", xlim=(0, len(kernels)), ylim=(len(matrices), 0), xticks=[], yticks=[])
        tell(mesh, kernels, matrices, "speed-up over cuSPARSE")
        hatch_empty(ax)
        for spine in ax.spines.values():
            spine.set_visible(False)
        if left:
            size = 8 if row > 0.2 else 7 if row > 0.12 else 6.5
            ax.set_yticks([position + 0.5 for position in range(len(labels))], labels, fontsize=size)
        if lowest:
            size = 8 if cell > 0.14 else 7 if cell > 0.11 else 6.5
            ax.set_xticks([position + 0.5 for position in range(len(kernels))], kernels, fontsize=size, **above)
            if position // columns < lines - 1:
                _hang(ax)
        ax.tick_params(length=0)
        ax.grid(False)
    powers = range(-int(limit), int(limit) + 1, max(1, round(limit / 4)))
    key(figure, mesh, axes, powers, shrink=min(0.8, 3.5 / figure.get_figheight()))
    return figure


def _write(ax, mesh, speedups, size: float) -> None:
    """Write each speed-up into its cell, dark on pale colours and white on dark ones."""
    import numpy as np

    colours = mesh.to_rgba(mesh.get_array()).reshape(*speedups.shape, 4)
    linear = colours[..., :3] ** 2.2  # luminance of the sRGB colours, nearly
    pale = linear @ [0.2126, 0.7152, 0.0722] > 0.408
    for (row, column), value in np.ndenumerate(speedups):
        if value == value:
            colour = ".15" if pale[row, column] else "w"
            said = significant(value, 2)
            text = ax.text(column + 0.5, row + 0.5, said, ha="center", va="center", color=colour, fontsize=size)
            text.set_in_layout(False)  # it needs no place beside its cell


def _hang(ax) -> None:
    """Let the names below an axes use the empty space under it; as tick labels they would take space in the layout."""
    for tick, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True):
        text = ax.annotate(
            label.get_text(), (tick, 0), (0, -3), ("data", "axes fraction"), "offset points", fontsize=label.get_size(),
            rotation=label.get_rotation(), ha="right", va=label.get_va(), rotation_mode="anchor",
        )  # fmt: skip
        text.set_in_layout(False)
    ax.set_xticks([])


def says(tables):
    rows, name = _shown(tables), named(tables)
    if rows.empty:
        return ""

    def case(row):
        return f"{times(row['speedup'])} ({name(row['kernel'])} on {row['matrix']}, N = {row['n']})"

    wins = rows[rows["speedup"] > 1]
    narrow = int((wins["dtype_accumulator"] == "float16").sum())
    sums = f", {narrow:,} of them with FP16 sums" if narrow and len(wins) > narrow else ""
    sums = ", all with FP16 sums" if narrow and len(wins) == narrow else sums
    best, worst = rows.loc[rows["speedup"].idxmax()], rows.loc[rows["speedup"].idxmin()]
    ends = f"the extremes are {case(best)} and {case(worst)}" if len(rows) > 1 else f"the speed-up is {case(best)}"
    verb = "is" if len(wins) == 1 else "are"
    return (
        f"{len(wins):,} of {counted(len(rows), 'cell')} on {population(tables, rows['matrix'])} {verb} faster than "
        f"cuSPARSE{sums}; {ends}."
    )
