"""Gain of tensor cores and its limit
Each mark is a case of a kernel on tensor cores: its speed over that of the fastest kernel on CUDA cores in the same
class of precision, over the most that tensor cores can gain at equal traffic (Zhang et al. 2025, equations 17 and 22,
with the intensity of the SpMM and the measured bandwidth). Left of the diagonal the gain is larger than arithmetic
allows: such a kernel moves fewer bytes than its rival."""

from __future__ import annotations

from .numbers import counted, percent, times
from .style import INK, MOST_MARKS, canvas, legend, plain_log, tie

SECTION, PLACE, PER = "suite", 12, ("device", "suite", "l2")


def _shown(tables):
    rows = tables["bounds"]
    return rows[rows["gain"].notna()]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    figure, axes = canvas(1, len(widths), 3.6 + 0.2 * (rows["kernel"].nunique() // 5), sharex=True, sharey=True)
    low, high = rows["gain_limit"].min() / 1.15, rows["gain_limit"].max() * 1.15
    for ax, n in zip(axes, widths, strict=True):
        for kernel in filter(set(rows["kernel"]).__contains__, styles):
            part = rows[(rows["n"] == n) & (rows["kernel"] == kernel)]
            many = len(rows) > MOST_MARKS
            marks = ax.scatter(
                part["gain_limit"], part["gain"], s=16, linewidth=0, alpha=0.8, zorder=3, rasterized=many,
                **styles[kernel],
            )  # fmt: skip
            tie(marks, part)
        ax.plot([low, high], [low, high], color=INK, linewidth=1, zorder=2)
        ax.axhline(1, color=INK, linewidth=0.6, linestyle=":", zorder=2)
        ax.set(xscale="log", yscale="log", title=f"N = {n}", xlabel="limit", xlim=(low, high))
    axes[0].set_ylabel("gain over CUDA cores")
    plain_log(axes[0].xaxis, room=4)
    plain_log(axes[0].yaxis)
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    within = (rows["verdict"] == "within_limit").mean()
    wins = (rows["gain"] > 1).mean()
    top = rows.loc[rows["gain"].idxmax()]
    return (
        f"Of {counted(len(rows), 'case')}, {percent(within)} keep the limit and {percent(wins)} gain at all; the "
        f"largest gain is {times(top['gain'])} ({top['kernel']} on {top['matrix']}, N = {top['n']}) where the limit is "
        f"{times(top['gain_limit'])}."
    )
