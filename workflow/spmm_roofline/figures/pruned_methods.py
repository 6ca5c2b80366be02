"""Kernels of the attention study by method of pruning, beside dense products
Speed-up over the best of cuSPARSE in FP32 over the sparsity of the model, a column a method, at the shortest and at
the longest sequence N: the study's kernels, and cuBLAS' dense product in FP32 and TF32, which does not see the zeros
(Lagos 2025, tables 5.1 to 5.5, which have no dense product). A layer may be sparser than its model."""

from __future__ import annotations

from .ladders import ordered, shaded
from .numbers import counted, percent, times
from .pruned import means, named, spoken
from .style import INK, canvas, legend, plain_log

STUDY, DENSE = "attention", "cublas"
SECTION, PLACE, PER = "study", 2, ("device", "suite", "l2")


def _shown(tables):
    cases = tables["cases"]
    rows = cases[(cases["kind"] == "pruned") & cases["speedup"].notna()]
    own = rows["study"] == STUDY
    dense = (rows["study"] == DENSE) & rows["precision"].isin(["float32", "tf32"])
    rows = named(rows[(own | dense) & own.any()])
    if rows["sparsity"].nunique() < 2:
        return rows.head(0)
    return means(rows, "speedup", ["kernel", "study", "method", "sparsity", "n"])


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted({rows["n"].min(), rows["n"].max()})
    methods = sorted(rows["method"].unique())
    own = ordered(tables["ladder"], rows.loc[rows["study"] == STUDY, "kernel"])
    styles = {name: look for name, look in styles.items() if name not in own} | shaded(styles, own, STUDY)
    figure, axes = canvas(len(widths), len(methods), 0.9 + 2.1 * len(widths), sharex=True, sharey=True)
    for place, ax in enumerate(axes):
        n, method = widths[place // len(methods)], methods[place % len(methods)]
        part = rows[(rows["n"] == n) & (rows["method"] == method)]
        for kernel in styles:
            line = part[part["kernel"] == kernel].sort_values("sparsity")
            dashed = {} if (line["study"] == STUDY).all() else {"linestyle": "--", "linewidth": 2}
            ax.plot(
                100 * line["sparsity"],
                line["speedup"],
                **{"markersize": 4, "markeredgewidth": 0, "linewidth": 1.2} | styles[kernel] | dashed,
            )
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(yscale="log")
        if place < len(methods):
            ax.set(title=spoken(method))
        if place >= len(axes) - len(methods):
            ax.set(xlabel="sparsity (%)")
        if method == methods[0]:
            ax.set(ylabel=f"over cuSPARSE, N = {n}")
    plain_log(axes[0].yaxis, room=6)
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[rows["study"] == STUDY]
    best = own.loc[own.groupby(["method", "sparsity", "n"])["speedup"].idxmax()]
    wins = int((best["speedup"] > 1).sum())
    top = best.sort_values(["speedup", "kernel"]).iloc[-1]
    leaders = best["kernel"].value_counts().sort_index().sort_values(kind="stable")
    return (
        f"In {wins} of {counted(len(best), 'combination')} of method, sparsity and N a kernel of the study is faster "
        f"than the best of cuSPARSE, at most {times(top['speedup'])} ({top['kernel']}, {spoken(top['method'])}, "
        f"{percent(top['sparsity'])}, N = {top['n']}). The fastest of them is {leaders.index[-1]} in "
        f"{leaders.iloc[-1]}, and one of {len(leaders)} kernels over all."
    )
