"""Where each kernel wins and loses
Speed-up over the best of cuSPARSE for each kernel and matrix, one panel a width N. Orange is faster than cuSPARSE,
purple slower; colours are full at a factor of 8. An empty cell has no time. Matrices are sorted by the fill of their
16×16 tiles, the fullest on top."""

from __future__ import annotations

from .numbers import counted, significant, times
from .style import INK, canvas, short_names

SECTION, PLACE, PER = "suite", 3, ("device", "suite", "l2", "precision")


def _shown(tables):
    cases = tables["cases"]
    return cases[cases["speedup"].notna() & (cases["study"] != "cusparse")]


def draw(tables, styles):
    import numpy as np
    import seaborn as sns

    rows = _shown(tables)
    if rows.empty or rows["matrix"].nunique() < 2:
        return None
    widths = sorted(rows["n"].unique())
    kernels = [name for name in styles if (rows["kernel"] == name).any()]
    fill = tables["matrices"].set_index("matrix")["tile_fill_16x16_fraction"]
    matrices = sorted(rows["matrix"].unique(), key=lambda name: (-fill.get(name, 0.0), name))
    limit = float(np.clip(np.abs(np.log2(rows["speedup"])).max(), 1, 3))
    written = len(matrices) <= 45 and len(kernels) * len(widths) <= 30
    height = 1.5 + (0.23 * len(matrices) if len(matrices) <= 60 else 6.0)
    figure, axes = canvas(1, len(widths), height, sharey=True)
    for ax, n in zip(axes, widths, strict=True):
        grid = rows[rows["n"] == n].pivot(index="matrix", columns="kernel", values="speedup")
        grid = grid.reindex(index=matrices, columns=kernels)
        text = grid.map(lambda value: significant(value, 2) if value == value else "")
        sns.heatmap(
            np.log2(grid), ax=ax, vmin=-limit, vmax=limit, cmap="PuOr_r", cbar=False, linewidths=0.4 if written else 0,
            linecolor="#ffffff00", annot=text if written else None, fmt="", annot_kws={"fontsize": 7.5},
            yticklabels=short_names(matrices) if len(matrices) <= 60 else False,
            rasterized=not written,
        )  # fmt: skip
        ax.set(title=f"N = {n}", xlabel="", ylabel="")
        ax.tick_params(length=0)
        ax.tick_params(axis="y", rotation=0)
        ax.tick_params(axis="x", rotation=40 if len(kernels) * len(widths) <= 20 else 70)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
        ax.grid(False)
    bar = figure.colorbar(axes[-1].collections[0], ax=axes, shrink=0.8, aspect=30, pad=0.01)
    powers = range(-int(limit), int(limit) + 1, max(1, round(limit / 4)))
    bar.set_ticks([*powers], labels=[f"{2.0**power:.3g}×" for power in powers])
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=INK)
    return figure


def says(tables):
    rows = _shown(tables)
    wins = rows[rows["speedup"] > 1]
    best, worst = rows.loc[rows["speedup"].idxmax()], rows.loc[rows["speedup"].idxmin()]
    verb = "is" if len(wins) == 1 else "are"
    return (
        f"{len(wins):,} of {counted(len(rows), 'cell')} {verb} faster than cuSPARSE; the extremes are "
        f"{times(best['speedup'])} ({best['kernel']} on {best['matrix']}, N = {best['n']}) and "
        f"{times(worst['speedup'])} ({worst['kernel']} on {worst['matrix']}, N = {worst['n']})."
    )
