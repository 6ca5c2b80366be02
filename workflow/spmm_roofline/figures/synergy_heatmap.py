"""Speed-up over the best on scalar cores by rows and synergy
Geometric mean of the speed-up over best_sc, for matrices by their number of rows and class of synergy, one panel a
width, for the kernel on TF32 tensor cores that is fastest over all (Xiang et al. 2024, figure 10); below it how many
matrices there are."""

from __future__ import annotations

from .numbers import times
from .style import canvas

SECTION, PLACE, PER = "suite", 8, ("device", "suite", "l2")

ROWS = (0, 20_000, 50_000, 100_000, 500_000, float("inf"))
NAMES = ("below 20k", "20k to 50k", "50k to 100k", "100k to 500k", "500k and more")


def _shown(tables):
    """Kernel that is fastest over all, and its rows with a bin of rows."""
    import numpy as np
    import pandas as pd

    rows = tables["synergy"].dropna(subset="speedup")
    if rows["matrix"].nunique() < 4:
        return "", rows.head(0)
    ranked = rows.groupby("kernel")["speedup"].agg(lambda ratios: float(np.exp(np.log(ratios.astype(float)).mean())))
    kernel = sorted(ranked[ranked == ranked.max()].index)[0]
    own = rows[rows["kernel"] == kernel]
    return kernel, own.assign(size=pd.cut(own["m"].astype(float), ROWS, right=False, labels=NAMES).astype(str))


def draw(tables, styles):
    import numpy as np
    import seaborn as sns

    kernel, rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    sizes = [name for name in NAMES if (rows["size"] == name).any()]
    figure, axes = canvas(1, len(widths), 1.4 + 0.42 * len(sizes), sharey=True)
    for ax, n in zip(axes, widths, strict=True):
        part = rows[rows["n"] == n].assign(log=np.log2(rows["speedup"].astype(float)))
        grid = part.pivot_table(index="size", columns="synergy", values="log", aggfunc="mean", observed=True)
        count = part.pivot_table(index="size", columns="synergy", values="log", aggfunc="size", observed=True)
        grid, count = (x.reindex(index=sizes, columns=["low", "medium", "high"]) for x in (grid, count))
        text = [
            [f"{times(2**value)}\n{int(number)}" if value == value else "" for value, number in zip(*line, strict=True)]
            for line in zip(grid.to_numpy(), count.to_numpy(), strict=True)
        ]
        sns.heatmap(
            grid.astype(float), ax=ax, vmin=-2, vmax=2, cmap="PuOr_r", cbar=False, annot=np.array(text), fmt="",
            linewidths=0.6, linecolor="#ffffff00", annot_kws={"fontsize": 8},
        )  # fmt: skip
        ax.set(title=f"{kernel}, N = {n}", xlabel="synergy", ylabel="rows" if ax is axes[0] else "")
        ax.tick_params(length=0, rotation=0)
        ax.grid(False)
    return figure


def says(tables):
    kernel, rows = _shown(tables)
    wins = int((rows["speedup"] > 1).sum())
    best = rows.loc[rows["speedup"].idxmax()]
    return (
        f"{kernel} is faster than the best on scalar cores in {wins} of {len(rows)} cases, at most "
        f"{times(best['speedup'])} ({best['matrix']}, N = {best['n']})."
    )
