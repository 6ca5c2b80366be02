"""Kernels of the attention study by method of pruning, beside dense products
Speed-up over the fastest of cuSPARSE's CSR and COO algorithms in FP32 against the sparsity of the model. Each column of
panels is a method, each row a sequence N: the shortest, and the longest if there are several. Layers without entries
are left out; a layer may be sparser than its model (Lagos 2025, tables 5.1 to 5.5, which have no dense product)."""

from __future__ import annotations

from .labels import plain_log
from .ladders import ordered
from .numbers import counted, percent, times
from .pruned import means, named, spoken
from .sentences import BASELINE, lead, population
from .style import INK, apart, canvas, legend

STUDY, DENSE = "attention", "cublas"
SECTION, ORDER, PER = "study", 2, ("device", "suite", "l2")
PAPER = "tables 5.1 to 5.5"


def _rows(tables):
    cases = tables["cases"]
    rows = cases[(cases["kind"] == "pruned") & cases["speedup"].notna() & (cases["nnz"] > 0)]
    own = rows["study"] == STUDY
    dense = (rows["study"] == DENSE) & rows["precision"].isin(["float32", "tf32"])
    rows = named(rows[(own | dense) & own.any()])
    return rows if rows["sparsity"].nunique() > 1 else rows.head(0)


def _shown(tables):
    rows = _rows(tables)
    return means(rows, "speedup", ["kernel", "study", "method", "sparsity", "n"]) if len(rows) else rows


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted({rows["n"].min(), rows["n"].max()})
    methods = sorted(rows["method"].unique())
    own = ordered(tables["ladder"], rows.loc[rows["study"] == STUDY, "kernel"])
    found = apart(styles, rows)
    styles = {name: found[name] for name in [*(name for name in found if name not in own), *own]}
    figure, axes = canvas(len(widths), len(methods), 0.9 + 2.1 * len(widths), sharex=True, sharey=True)
    for position, ax in enumerate(axes):
        n, method = widths[position // len(methods)], methods[position % len(methods)]
        subset = rows[(rows["n"] == n) & (rows["method"] == method)]
        for kernel in styles:
            line = subset[subset["kernel"] == kernel].sort_values("sparsity")
            dashed = {} if (line["study"] == STUDY).all() else {"linestyle": "--", "linewidth": 2}
            ax.plot(
                100 * line["sparsity"],
                line["speedup"],
                **{"markersize": 4, "markeredgewidth": 0, "linewidth": 1.2, "label": kernel} | styles[kernel] | dashed,
            )
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(yscale="log")
        if position < len(methods):
            ax.set(title=spoken(method))
        if position >= len(axes) - len(methods):
            ax.set(xlabel="sparsity (%)")
        if method == methods[0]:
            ax.set(ylabel=f"over cuSPARSE, N = {n}")
    plain_log(axes[0].yaxis, room=6)
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[rows["study"] == STUDY]
    if own.empty:
        return ""
    best = own.loc[own.groupby(["method", "sparsity", "n"])["speedup"].idxmax()]
    wins = int((best["speedup"] > 1).sum())
    top = best.sort_values(["speedup", "kernel"]).iloc[-1]
    counts = best["kernel"].value_counts()
    others = f"; {len(counts)} kernels are the fastest in some" if len(counts) > 1 else ""
    leader = f" Of the study's kernels {lead(counts, 'the fastest in')}{others}." if own["kernel"].nunique() > 1 else ""
    dense = rows[rows["study"] == DENSE]["kernel"].nunique()
    dashed = " Dashed is cuBLAS's dense product, which also multiplies the zeros." if dense else ""
    return (
        f"On {population(tables, _rows(tables)['matrix'])}, in {wins} of {counted(len(best), 'combination')} of "
        f"method, sparsity and N a kernel of the study is faster than {BASELINE}, at most {times(top['speedup'])} "
        f"({top['kernel']}, {spoken(top['method'])}, {percent(top['sparsity'])}, N = {top['n']}).{leader}{dashed}"
    )
