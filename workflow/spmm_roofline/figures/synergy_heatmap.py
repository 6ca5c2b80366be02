"""Speed-up over the best on scalar cores by rows and synergy
Geometric mean of the speed-up over best_sc, the best on scalar cores of the kernels that the paper compares with, for
matrices by their number of rows and class of synergy, with the number of matrices below each mean. Panels have a column
per width and a row per study, which is represented by its fastest kernel on TF32 tensor cores. Orange is faster than
best_sc, purple slower; colours saturate at a factor of 4. A hatched cell has no matrix (Xiang et al. 2024, figure
10)."""

from __future__ import annotations

from .cells import hatch_empty, key, tell
from .numbers import counted, times
from .rivals import leading, shown
from .sentences import population
from .style import canvas

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 4, ("device", "suite", "l2")
PAPER = "figure 10"

FULL = 2  # binary logarithm of the speed-up at which a colour saturates
NAMES = ("below 20k", "20k to 50k", "50k to 100k", "100k to 500k", "500k and more")


def _shown(tables):
    """Rows of the leading kernels with a bin of rows."""
    rows = shown(tables).dropna(subset="speedup")
    return rows.assign(size=rows["row_bin"].astype(str))


def draw(tables, styles):
    import numpy as np
    import seaborn as sns

    rows = _shown(tables)
    if rows.empty:
        return None
    kernels, widths = leading(rows), sorted(rows["n"].unique())
    sizes = [name for name in NAMES if (rows["size"] == name).any()]
    height = 0.7 + len(kernels) * (0.5 + 0.36 * len(sizes))
    figure, axes = canvas(len(kernels), len(widths), height, sharex=True, sharey=True)
    rows = rows.assign(log=np.log2(rows["speedup"].astype(float)))
    for position, ax in enumerate(axes):
        kernel, n = kernels[position // len(widths)], widths[position % len(widths)]
        subset = rows[(rows["n"] == n) & (rows["kernel"] == kernel)]
        grid = subset.pivot_table(index="size", columns="synergy", values="log", aggfunc="mean", observed=True)
        count = subset.pivot_table(index="size", columns="synergy", values="log", aggfunc="size", observed=True)
        grid, count = (x.reindex(index=sizes, columns=["low", "medium", "high"]) for x in (grid, count))
        text = [
            [f"{times(2**value)}\n{int(number)}" if value == value else "" for value, number in zip(*line, strict=True)]
            for line in zip(grid.to_numpy(), count.to_numpy(), strict=True)
        ]
        sns.heatmap(
            grid.astype(float), ax=ax, vmin=-FULL, vmax=FULL, cmap="PuOr_r", cbar=False, annot=np.array(text), fmt="",
            linewidths=0.6, linecolor="#ffffff00", annot_kws={"fontsize": 7.5},
        )  # fmt: skip
        ax.set(title=f"{kernel}, N = {n}", xlabel="", ylabel="rows" if position % len(widths) == 0 else "")
        if position >= len(axes) - len(widths):
            ax.set(xlabel="synergy")
        tell(ax.collections[0], grid.columns, grid.index, "speed-up over best_sc")
        hatch_empty(ax)
        ax.tick_params(length=0, rotation=0)
        ax.grid(False)
    key(figure, axes[0].collections[0], axes, range(-FULL, FULL + 1), shrink=min(0.8, 2.4 / height))
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    said = []
    for kernel in leading(rows):
        own = rows[rows["kernel"] == kernel]
        best = own.loc[own["speedup"].idxmax()]
        said.append(
            f"{kernel} is faster in {int((own['speedup'] > 1).sum())} of {counted(len(own), 'case')} on "
            f"{population(tables, own['matrix'])}, at most {times(best['speedup'])} ({best['matrix']}, N = {best['n']})"
        )
    return f"TF32 over best_sc in FP32: {'; '.join(said)}."
