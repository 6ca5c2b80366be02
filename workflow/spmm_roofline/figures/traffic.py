"""Traffic over what is compulsory
Bytes that Nsight Compute counted in one call, over A in CSR, the touched rows of B, and C, each moved once. A mark is a
matrix at one width, the bar is the median. Left: bytes between DRAM and L2. Right: bytes between multiprocessors and
L2, where every byte that a CTA fetches again counts; a mark is filled if its rate through L2 is more than half of the
highest rate here. A kernel far to the right in both panels moves more bytes than it must."""

from __future__ import annotations

from .labels import plain_log
from .numbers import bandwidth, counted, times
from .sentences import named, population, uneven
from .style import INK, call, canvas

SECTION, ORDER, PER = "suite", 11, ("device", "suite", "l2")


def _shown(tables):
    return tables["counters"].dropna(subset=["dram_over_compulsory", "cache_over_compulsory"])


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    order = list(rows.groupby("kernel")["cache_over_compulsory"].median().sort_values(ascending=False).index)
    figure, axes = canvas(1, 2, 1.3 + 0.3 * max(3, len(order)), sharey=True)
    busy = rows["cache_gb_per_s"] > rows["cache_gb_per_s"].max() / 2
    panels = ("dram_over_compulsory", "cache_over_compulsory")
    for ax, column, title in zip(axes, panels, ("DRAM", "L2"), strict=True):
        for position, kernel in enumerate(order):
            own = rows[rows["kernel"] == kernel].sort_values(["matrix", "n"])
            style = styles[kernel]
            heights = [position + 0.05 * (rank * 3 % 9 - 4) for rank in range(len(own))]
            filled = [style["color"] if title == "DRAM" or flag else "none" for flag in busy[own.index]]
            ax.scatter(
                own[column], heights, s=22, marker=style["marker"], facecolors=filled, edgecolors=[style["color"]],
                linewidth=0.9, zorder=3, label=kernel,
            )  # fmt: skip
            look = {"color": INK, "linewidth": 1.4, "zorder": 4}
            median = ax.vlines(own[column].median(), position - 0.34, position + 0.34, **look)
            call(median, f"{kernel}, median")
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":", zorder=2)
        ax.set(xscale="log", title=title, xlabel="bytes / compulsory bytes", ylim=(-0.6, len(order) - 0.4))
        ax.set_yticks(range(len(order)), order)
        plain_log(ax.xaxis, room=6)
    return figure


def says(tables):
    rows, name = _shown(tables), named(tables)
    if rows.empty:
        return ""
    medians = rows.groupby("kernel")["cache_over_compulsory"].median().sort_values(kind="stable")
    top = rows.loc[rows["cache_gb_per_s"].idxmax()]
    least = f", the most, and {name(medians.index[0])} {times(medians.iloc[0])}, the least" if len(medians) > 1 else ""
    return (
        f"{counted(len(medians), 'kernel')} on {population(tables, rows['matrix'])}: in the median "
        f"{name(medians.index[-1])} takes {times(medians.iloc[-1])} the compulsory bytes through L2{least}; the "
        f"highest rate through L2 is {bandwidth(top['cache_gb_per_s'])}, by {name(top['kernel'])} on {top['matrix']} "
        f"at N = {top['n']}.{uneven(rows, 'was profiled on', 'were profiled on')}"
    )
