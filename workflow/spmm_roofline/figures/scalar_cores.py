"""Tensor cores against scalar cores, matrix by matrix
Useful rate of a kernel on TF32 tensor cores against best_sc, the best on scalar cores in FP32 of the kernels that the
paper compares with: cuSPARSE for CSR and COO, six variants of GE-SpMM, Sputnik. A mark is a matrix; above the line
tensor cores win. A hollow mark is the same matrix against the best of all FP32 kernels without tensor cores today. The
kernel with the highest mean speed-up of each study is shown; the paper shows TC-GNN alone (Xiang et al. 2024, figure 2,
N = 128). Colours are the classes of synergy."""

from __future__ import annotations

from .labels import plain_log
from .numbers import times
from .rivals import leading, shown
from .sentences import population
from .style import INK, call, canvas, tie

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 1, ("device", "suite", "l2")
PAPER = "figure 2"

WIDTH_OF_PAPER = 128
LOOKS = {"high": ("#009e73", "^"), "medium": ("#d55e00", "s"), "low": ("#0072b2", "o")}


def _shown(tables):
    rows = shown(tables).dropna(subset="best_sc_gflops")
    widths = sorted(rows["n"].unique())
    n = WIDTH_OF_PAPER if WIDTH_OF_PAPER in widths else widths[len(widths) // 2] if widths else 0
    return rows[rows["n"] == n]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    kernels = leading(rows)
    figure, axes = canvas(1, len(kernels), 3.9, sharex=True, sharey=True)
    rates = rows[["best_sc_gflops", "best_today_gflops", "useful_gflops"]].astype(float)
    ends = [rates.min().min(), rates.max().max()]
    for ax, kernel in zip(axes, kernels, strict=True):
        own = rows[rows["kernel"] == kernel]
        for synergy, (colour, marker) in LOOKS.items():
            subset = own[own["synergy"] == synergy]
            later = subset[subset["best_today_gflops"] > subset["best_sc_gflops"]]
            hollow = ax.scatter(
                later["best_today_gflops"], later["useful_gflops"], s=16, facecolor="none", edgecolor=colour,
                marker=marker, linewidth=0.6, zorder=2,
            )  # fmt: skip
            filled = ax.scatter(
                subset["best_sc_gflops"], subset["useful_gflops"], s=20, color=colour, marker=marker, linewidth=0,
                label=f"{synergy} synergy", zorder=3,
            )  # fmt: skip
            for drawn, own_rows, rival in ((hollow, later, "today"), (filled, subset, "sc")):
                tie(drawn, own_rows)
                call(drawn, f"{synergy} synergy, best_{rival}")
        call(ax.plot(ends, ends, color=INK, linewidth=1)[0], "equal rates")
        ax.set(xscale="log", yscale="log", title=f"{kernel}, N = {own['n'].iloc[0]}")
        ax.set(xlabel="best on scalar cores (GFLOP/s)")
        ax.set_xlim(rates.iloc[:, :2].min().min() / 1.3, rates.iloc[:, :2].max().max() * 1.3)
        ax.set_ylim(rates["useful_gflops"].min() / 1.3, rates["useful_gflops"].max() * 1.3)
    axes[0].set(ylabel="tensor cores (GFLOP/s)")
    plain_log(axes[0].xaxis)
    plain_log(axes[0].yaxis)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOKS))
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    said = []
    for kernel in leading(rows):
        own = rows[rows["kernel"] == kernel]
        most = own.loc[own["speedup"].idxmax()]
        said.append(
            f"{kernel} is faster on {int((own['speedup'] > 1).sum())} of {population(tables, own['matrix'])}, at most "
            f"{times(most['speedup'])} ({most['matrix']}){_today(own)}"
        )
    return f"At N = {rows['n'].iloc[0]}, TF32 over best_sc in FP32: {'; '.join(said)}."


def _today(own):
    """On how many of the matrices a kernel is faster than the best of all scalar kernels today."""
    known = own["speedup_today"].dropna()
    return f", and on {int((known > 1).sum())} faster than the best of all today" if len(known) else ""
