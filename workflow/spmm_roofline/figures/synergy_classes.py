"""Rates by class of synergy
Distribution of the useful rate over the matrices of a class (median, quartiles, minimum and maximum): a box for the
fastest kernel of each study on TF32 tensor cores, and a grey one for best_sc, the best on scalar cores in FP32 of the
kernels that the paper compares with; the light one, best_today, is the best of all such kernels today (Xiang et al.
2024, figure 9). Low: α below 12.5 %; high: α of at least 25 %."""

from __future__ import annotations

from .labels import plain_log
from .numbers import counted, times
from .rivals import shown
from .style import INK, call, canvas

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 3, ("device", "suite", "l2")
PAPER = "figure 9"

#: The best on scalar cores: of the paper's set, and of all kernels today.
SCALAR = {"best_sc": "#64686f", "best_today": "#90949f"}


def _shown(tables):
    rows = tables["synergy_classes"]
    kernels = set(shown(tables)["kernel"])
    return rows[rows["kernel"].isin(kernels | set(SCALAR))] if kernels else rows.head(0)


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    kernels = [
        *(name for name in styles if (rows["kernel"] == name).any()),
        *(name for name in SCALAR if (rows["kernel"] == name).any()),
    ]
    names = ["high", "medium", "low"]
    found = [name for name in names if (rows["synergy"] == name).any()]
    figure, axes = canvas(
        len(found), len(widths), 0.8 + (0.5 + 0.22 * len(kernels)) * len(found), sharex=True, sharey=True
    )
    for position, ax in enumerate(axes):
        name, n = found[position // len(widths)], widths[position % len(widths)]
        subset = rows[(rows["synergy"] == name) & (rows["n"] == n)].set_index("kernel")
        for y, kernel in enumerate(reversed(kernels)):
            if kernel not in subset.index:
                continue
            row, colour = subset.loc[kernel], styles.get(kernel, {}).get("color", SCALAR.get(kernel))
            call(ax.hlines(y, row["least_gflops"], row["most_gflops"], color=colour, linewidth=1), f"{kernel}, range")
            box = row["upper_quartile_gflops"] - row["lower_quartile_gflops"]
            look = {"height": 0.62, "color": colour, "label": f"{kernel}, quartiles"}
            ax.barh(y, box, left=row["lower_quartile_gflops"], **look)
            # Longer than the box is high, because the page's ink may stand out little from a box.
            call(ax.vlines(row["median_gflops"], y - 0.4, y + 0.4, color=INK, linewidth=1.3), f"{kernel}, median")
        ax.set(xscale="log")
        ax.set_yticks(range(len(kernels)), reversed(kernels))
        ax.grid(axis="y", visible=False)
        if position < len(widths):
            ax.set_title(f"N = {n}")
        if position % len(widths) == 0:
            ax.set_ylabel(f"{name} ({subset['matrices'].max() if len(subset) else 0})")
        if position >= len(axes) - len(widths):
            ax.set_xlabel("useful GFLOP/s")
    plain_log(axes[0].xaxis, room=6)
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    own = rows[~rows["kernel"].isin(list(SCALAR)) & rows["geomean"].notna() & (rows["synergy"] != "all")]
    if own.empty:
        return "No kernel on scalar cores ran in FP32 to compare with."
    said = []
    for name in ("high", "medium", "low"):
        subset = own[own["synergy"] == name].sort_values(["geomean", "kernel", "n"])
        if len(subset):
            best = subset.iloc[-1]
            matrices = counted(best["matrices"], "matrix", "matrices")
            said.append(f"{times(best['geomean'])} on {matrices} of {name} synergy ({best['kernel']}, N = {best['n']})")
    return f"Highest geometric means of TF32 over best_sc in FP32: {', '.join(said)}."
