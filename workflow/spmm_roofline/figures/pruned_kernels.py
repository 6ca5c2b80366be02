"""Kernels of the attention study one by one, over sparsity and over sequence length
Speed-up over cuSPARSE as the thesis called it (its CSR algorithm 1 with both operands transposed) on weights pruned by
L0 regularisation. Each column is a kernel; thin lines are kernels made from it here. Top: over the sparsity at the
longest sequence N of the thesis. Bottom: over N at the lowest sparsity (Lagos 2025, figures 4.2, 4.7, 4.8, 4.12, 4.14
and 4.16, from its tables 5.1 to 5.5)."""

from __future__ import annotations

from .labels import plain_log
from .ladders import ordered
from .numbers import counted, percent, times
from .pruned import means, named, spoken
from .sentences import population
from .style import INK, STUDIES, canvas

STUDY = "attention"
SECTION, ORDER, PER = "study", 1, ("device", "suite", "l2")
PAPER = "figures 4.2 to 4.16"

#: The method that the thesis's figures show.
METHOD = "l0_regularization"


def _rows(tables):
    """Cases of the study's kernels that have a speed-up over the thesis's call, on weights of several sparsities pruned
    by one method."""
    cases = tables["cases"]
    rows = cases[(cases["kind"] == "pruned") & (cases["study"] == STUDY) & cases["over_own_call"].notna()]
    rows = named(rows.assign(speedup=rows["over_own_call"]))
    if rows["sparsity"].nunique() < 2:
        return rows.head(0)
    return rows[rows["method"] == (METHOD if (rows["method"] == METHOD).any() else rows["method"].min())]


def _shown(tables):
    """Speed-ups of the study's kernels measured here and in the thesis, and the method of pruning."""
    rows = _rows(tables)
    if rows.empty:
        return rows, rows, ""
    method = rows["method"].iloc[0]
    paper = tables["published"]
    paper = named(paper[(paper["quantity"] == "over_own_call") & (paper["study"] == STUDY)])
    by = ["kernel", "sparsity", "n"]
    ours, theirs = means(rows, "speedup", by), paper[paper["method"] == method]
    return ours, means(theirs.rename(columns={"published": "speedup"}), "speedup", by), method


def _longest(ours, theirs) -> int:
    """The longest sequence that the thesis has too; the longest of ours if it has none of them."""
    both = set(ours["n"]) & set(theirs["n"])
    return max(both or set(ours["n"]))


def _drawn(ours, theirs):
    """The thesis's speed-ups that the panels have a place for."""
    at_end = (theirs["n"] == _longest(ours, theirs)) & theirs["sparsity"].isin(ours["sparsity"])
    densest = (theirs["sparsity"] == ours["sparsity"].min()) & theirs["n"].isin(ours["n"])
    return theirs[theirs["kernel"].isin(_columns(ours["kernel"].unique())) & (at_end | densest)]


def _columns(kernels) -> dict[str, list[str]]:
    """Kernel → itself and the kernels whose names extend its own."""
    first = [name for name in kernels if not any(name.startswith(f"{other}_") for other in kernels)]
    return {name: [name, *(other for other in kernels if other.startswith(f"{name}_"))] for name in first}


def draw(tables, styles):
    ours, theirs, _ = _shown(tables)
    if ours.empty:
        return None
    longest, densest = _longest(ours, theirs), ours["sparsity"].min()
    columns = _columns(ordered(tables["ladder"], ours["kernel"]))
    figure, axes = canvas(2, len(columns), 4.0, sharey=True)
    for position, (kernel, family) in enumerate(columns.items()):
        over_sparsity, over_n = axes[position], axes[len(columns) + position]
        for name in reversed(family):
            own = ours[ours["kernel"] == name]
            look = styles[kernel] | {
                "color": STUDIES[STUDY],
                "linewidth": 1.6 if name == kernel else 0.6,
                "markersize": 4 if name == kernel else 3,
                "markeredgewidth": 0,
                "label": name,
            }
            subset = own[own["n"] == longest]
            over_sparsity.plot(100 * subset["sparsity"], subset["speedup"], **look)
            subset = own[own["sparsity"] == densest]
            over_n.plot(subset["n"], subset["speedup"], **look)
        told = _drawn(ours, theirs)
        told = told[told["kernel"] == kernel]
        sparsities, widths = sorted(ours["sparsity"].unique()), sorted(ours["n"].unique())
        line = {"color": INK, "linewidth": 1.1, "linestyle": "--", "marker": "x", "markersize": 3.5}
        line["label"] = f"{kernel}, in the thesis"
        subset = told[told["n"] == longest].set_index("sparsity")["speedup"].reindex(sparsities)
        over_sparsity.plot([100 * value for value in sparsities], subset, **line)
        subset = told[told["sparsity"] == densest].set_index("n")["speedup"].reindex(widths)
        over_n.plot(widths, subset, **line)
        over_sparsity.set(title=kernel, xlabel="sparsity (%)")
        over_n.set(xscale="log", xlabel="N")
        few = widths[:: max(1, len(widths) // 2)]
        plain_log(over_n.xaxis, ticks=few)
        over_n.set_xticks(few, labels=[str(n) for n in few])
    for ax in axes:
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(yscale="log")
    plain_log(axes[0].yaxis, room=6)
    axes[0].set(ylabel=f"over its cuSPARSE call\nN = {longest}")
    axes[len(columns)].set(ylabel=f"over its cuSPARSE call\n{percent(densest)} sparsity")
    return figure


def says(tables):
    ours, theirs, method = _shown(tables)
    if ours.empty:
        return ""
    rows = _rows(tables)
    longest = ours[ours["n"] == _longest(ours, theirs)]
    said = []
    for sparsity in sorted({longest["sparsity"].min(), longest["sparsity"].max()}):
        best = longest[longest["sparsity"] == sparsity].sort_values(["speedup", "kernel"]).iloc[-1]
        told = theirs[
            (theirs["kernel"] == best["kernel"]) & (theirs["sparsity"] == sparsity) & (theirs["n"] == best["n"])
        ]
        paper = f", {times(told['speedup'].item())} in the thesis" if len(told) else ""
        said.append(f"{best['kernel']} at {percent(sparsity)} sparsity ({times(best['speedup'])}{paper})")
    both = ours.merge(theirs, on=["kernel", "sparsity", "n"], suffixes=("", "_told"))
    above = int((both["speedup_told"] > both["speedup"]).sum())
    verb = "is" if above == 1 else "are"
    dashed = (
        " Dashed are the thesis's numbers for an RTX 4070 Ti Super, with a gap where its text gives none."
        if len(_drawn(ours, theirs))
        else ""
    )
    compared = f" Of {counted(len(both), 'ratio')} that the thesis prints too, {above} {verb} above ours."
    return (
        f"On {population(tables, rows['matrix'])}, pruned by {spoken(method)}, the fastest of these kernels at "
        f"N = {longest['n'].iloc[0]} {'is' if len(said) == 1 else 'are'} {' and '.join(said)}, over cuSPARSE as the "
        f"thesis called it.{compared if len(both) else ''}{dashed}"
    )
