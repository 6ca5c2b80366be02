"""Counters of the attention study's kernels, the thesis's beside ours
What Nsight Compute counts in one call at 50 % sparsity (L0 regularisation) and a sequence of 4,096, and at 98 % where
the thesis prints it. Crosses are the thesis's numbers for an RTX 4070 Ti Super, circles ours, hollow at 98 %; a kernel
without a cross has none in the thesis (Lagos 2025, section 5.3.2). Titles in bold: the number follows from the code and
the matrix, so that excess sectors, instructions, CTAs, threads that are not predicated off and divergent branches
should agree on any GPU, up to the compiler and the version of cuSPARSE. The other numbers depend on the GPU: cycles on
its clocks and memory, hit rates on the sizes of its caches, occupancy on its registers and warps."""

from __future__ import annotations

from typing import Any

from .labels import plain_log
from .ladders import ordered
from .numbers import counted, percent, significant
from .quantities import QUANTITIES, one_each
from .style import INK, LIBRARIES, STUDIES, call, panels

STUDY = "attention"
SECTION, ORDER, PER = "study", 4, ("device", "suite", "l2")
PAPER = "section 5.3.2"

#: A quantity that is printed for fewer kernels has no panel; the table has it.
LEAST_KERNELS = 3
#: Column of a count → whose it is.
WHO = {"published": "thesis", "ours": "here"}
#: Looks of the thesis's numbers and of ours, at the lowest sparsity and at others.
LOOKS: tuple[tuple[dict[str, Any], ...], ...] = (
    (
        {"marker": "x", "color": INK, "markersize": 5.5, "markeredgewidth": 1.2},
        {"marker": "o", "color": STUDIES[STUDY], "markersize": 5.5, "markeredgewidth": 0},
    ),
    (
        {"marker": "+", "color": INK, "markersize": 6.5, "markeredgewidth": 1},
        {"marker": "o", "color": STUDIES[STUDY], "markersize": 4.5, "markeredgewidth": 1, "markerfacecolor": "none"},
    ),
)
#: Two counts that differ by less than this agree.
AGREES = 0.1


def _shown(tables):
    rows = tables["paper_counters"]
    rows = rows[(rows["study"] == STUDY) & rows["ours"].notna()]
    return one_each(rows) if len(rows) else rows.assign(sparsity=0.0)


def draw(tables, styles):
    from matplotlib.lines import Line2D

    rows = _shown(tables)
    kernels_of = rows.groupby("quantity")["kernel"].nunique()
    names = [name for name in QUANTITIES if kernels_of.get(name, 0) >= LEAST_KERNELS]
    if not names:
        return None
    cases = tables["cases"]
    libraries = set(cases.loc[cases["study"].isin(LIBRARIES), "kernel"])
    kernels = sorted(ordered(tables["ladder"], rows["kernel"]), key=lambda kernel: kernel in libraries)
    heights = {kernel: -position for position, kernel in enumerate(kernels)}
    figure, axes = panels(len(names), 4, 0.55 + 0.17 * len(kernels), 0.6, sharey=True)
    looks = {
        (column, sparsity): {"linestyle": "none", "label": f"{who}, {percent(sparsity)} sparsity"} | look
        for number, sparsity in enumerate(sorted(rows["sparsity"].unique()))
        for (column, who), look in zip(WHO.items(), LOOKS[number > 0], strict=True)
    }
    for ax, name in zip(axes, names, strict=True):
        own = rows[rows["quantity"] == name]
        scale = 1 if QUANTITIES[name].text is not percent else 100
        for row in own.itertuples():
            ends = [scale * row.published, scale * row.ours]
            call(ax.plot(ends, [heights[row.kernel]] * 2, color=INK, linewidth=0.4)[0], "from the thesis to here")
        for (column, sparsity), look in looks.items():
            subset = own[own["sparsity"] == sparsity]
            ax.plot(scale * subset[column], subset["kernel"].map(heights), **look)
        weight = "bold" if own["comparable"].all() else "normal"
        ax.set_title(QUANTITIES[name].title + (" (%)" if scale == 100 else ""), fontweight=weight)
        ax.set_yticks([*heights.values()], [*heights], fontsize=7.5)
        ax.set(ylim=(-len(kernels) + 0.5, 0.5))
        if QUANTITIES[name].wide:
            ax.set(xscale="log")
            plain_log(ax.xaxis, room=4)
        else:
            ax.set(xlim=(0, 105 if scale == 100 else 33))
    handles = [Line2D([], [], **look) for look in looks.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    alike = rows[rows["comparable"].astype(bool)]
    off = (alike["ours"] / alike["published"] - 1).abs()
    said = f"Of {counted(len(rows), 'counter')} that the thesis prints and we counted too"
    if len(alike):
        far, close = alike.loc[off.idxmax()], int((off < AGREES).sum())
        text = QUANTITIES[far["quantity"]].text
        said += (
            f", {len(alike)} should not depend on the GPU; {close} of these {'differs' if close == 1 else 'differ'} "
            f"by less than {percent(AGREES)}. Farthest apart are the {QUANTITIES[far['quantity']].title} of "
            f"{far['kernel']}: {text(far['ours'])} here, {text(far['published'])} in the thesis."
        )
    else:
        said += ", none is independent of the GPU."
    return said + _over_sparsity(rows)


def _over_sparsity(rows) -> str:
    """How the cycles of an instruction change with sparsity, for a kernel that has both in the thesis."""
    cycles = rows[rows["quantity"] == "cycles_per_instruction"].sort_values("sparsity")
    both = cycles[cycles.groupby("kernel")["sparsity"].transform("nunique") > 1]
    if both.empty:
        return ""
    first, last = both.iloc[0], both.iloc[-1]
    return (
        f" A warp of {first['kernel']} takes {significant(first['ours'])} cycles for an instruction at "
        f"{percent(first['sparsity'])} sparsity and {significant(last['ours'])} at {percent(last['sparsity'])}, in the "
        f"thesis {significant(first['published'])} and {significant(last['published'])}."
    )
