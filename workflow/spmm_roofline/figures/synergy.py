"""Modelled intensity and throughput
Useful rate over 512·α, the FLOP per shared-memory transaction in cuTeSpMM's model of a matrix with brick density α
(Xiang et al. 2024, equation 4 and figure 7). A mark is one matrix; the kernel with the highest mean speed-up of each
study is shown. Dotted: the borders of the classes of synergy, α of 12.5 and 25 %, hence 64 and 128; the paper's
text has 32 and 64 for them, which is not 512·α."""

from __future__ import annotations

from .labels import plain_log
from .numbers import significant
from .rivals import shown
from .sentences import population, uneven
from .style import INK, canvas, legend, marks, tie

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 2, ("device", "suite", "l2")
PAPER = "figure 7"


def draw(tables, styles):
    rows = shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    figure, axes = canvas(1, len(widths), 3.4, sharex=True, sharey=True)
    for ax, n in zip(axes, widths, strict=True):
        for kernel in filter(set(rows["kernel"]).__contains__, styles):
            subset = rows[(rows["n"] == n) & (rows["kernel"] == kernel)]
            x, y = subset["oi_shmem"], subset["useful_gflops"]
            tie(marks(ax, x, y, s=18, zorder=3, label=kernel, **styles[kernel]), subset)
        for limit in (64, 128):
            ax.axvline(limit, color=INK, linewidth=0.8, linestyle=":", zorder=2)
        ax.set(xscale="log", yscale="log", title=f"N = {n}", xlabel="512 α (FLOP a transaction)")
    axes[0].set_ylabel("useful GFLOP/s")
    plain_log(axes[0].xaxis, room=6)
    plain_log(axes[0].yaxis)
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = shown(tables)
    if rows.empty:
        return ""
    where = population(tables, rows["matrix"])
    table = tables["synergy_classes"]
    ranked = table[(table["synergy"] == "all") & table["spearman"].notna() & table["kernel"].isin(rows["kernel"])]
    if ranked.empty:
        return f"There is no rank correlation on {where}: fewer than five, or all of one intensity or one rate."
    ranked = ranked.sort_values(["spearman", "kernel", "n"])
    low, high = ranked.iloc[0], ranked.iloc[-1]
    both = (
        f"lies between {significant(low['spearman'], 2)} ({low['kernel']} at N = {low['n']}) and "
        f"{significant(high['spearman'], 2)} ({high['kernel']} at N = {high['n']})"
        if len(ranked) > 1
        else f"is {significant(high['spearman'], 2)} ({high['kernel']} at N = {high['n']})"
    )
    return f"On {where}, Spearman's rank correlation of modelled intensity and rate {both}.{uneven(rows)}"
