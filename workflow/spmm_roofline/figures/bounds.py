"""Gain of tensor cores and its limit
Each mark is a case of a kernel on tensor cores. Vertical axis: its speed-up over the fastest kernel on CUDA cores in
the same class of precision, cuSPARSE included. Horizontal axis: the largest gain that tensor cores can have at equal
traffic (Zhang et al. 2025, equations 17 and 22, with the intensity of the SpMM and the measured bandwidth). Above the
diagonal the gain is larger than arithmetic allows: the kernel moves fewer bytes than its rival, or the rival is far
from its own limit. Cases whose fastest rival is cuBLAS or cuSPARSELt, which may use tensor cores themselves, are left
out."""

from __future__ import annotations

from .labels import plain_log
from .numbers import counted, times
from .sentences import named, population
from .style import INK, MOST_MARKS, apart, call, canvas, legend, marks, tie

SECTION, ORDER, PER = "suite", 12, ("device", "suite", "l2")

#: Libraries of dense and of 2:4 products, which may use tensor cores and do not say so.
DENSE = ("cublas", "cusparselt")


def _shown(tables):
    """Cases whose rival multiplies on CUDA cores."""
    rows, cases = tables["bounds"], tables["cases"]
    dense = set(cases.loc[cases["study"].isin(DENSE), "kernel"])
    return rows[rows["gain"].notna() & ~rows["rival"].isin(dense)]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    figure, axes = canvas(1, len(widths), 3.6 + 0.2 * (rows["kernel"].nunique() // 5), sharex=True, sharey=True)
    looks = apart(styles, rows)
    low, high = rows["gain_limit"].min() / 1.15, rows["gain_limit"].max() * 1.15
    axes[0].set(xscale="log", yscale="log", xlim=(low, high))
    many = len(rows) > MOST_MARKS
    subsets = dict(list(rows.filter(["n", "kernel", "gain_limit", "gain", "case"]).groupby(["n", "kernel"])))
    for ax, n in zip(axes, widths, strict=True):
        for kernel, look in looks.items():
            subset = subsets.get((n, kernel), rows.head(0))
            x, y = subset["gain_limit"], subset["gain"]
            tie(marks(ax, x, y, s=16, zorder=3, rasterized=many, label=kernel, **look), subset)
        call(ax.plot([low, high], [low, high], color=INK, linewidth=1, zorder=2)[0], "limit")
        ax.axhline(1, color=INK, linewidth=0.6, linestyle=":", zorder=2)
        ax.set(title=f"N = {n}", xlabel="limit")
    axes[0].set_ylabel("gain over CUDA cores")
    plain_log(axes[0].xaxis, room=4)
    plain_log(axes[0].yaxis)
    legend(figure, looks, looks)
    return figure


def says(tables):
    rows, name = _shown(tables), named(tables)
    if rows.empty:
        return ""
    within = int((rows["verdict"] == "within_limit").sum())
    wins = int((rows["gain"] > 1).sum())
    top = rows.loc[rows["gain"].idxmax()]
    return (
        f"Of {counted(len(rows), 'case')} on {population(tables, rows['matrix'])}, {within:,} "
        f"{'keeps' if within == 1 else 'keep'} the limit and {wins:,} {'gains' if wins == 1 else 'gain'} at all; the "
        f"highest speed over CUDA cores is {times(top['gain'])} ({name(top['kernel'])} on {top['matrix']}, "
        f"N = {top['n']}), where the limit is {times(top['gain_limit'])}."
    )
