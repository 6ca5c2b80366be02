"""How often a kernel is the best, and how far off it is where it is not
Performance profiles after Dolan and Moré (2002): the share of cases, a matrix at a width, on which a kernel takes at
most so many times as long as the fastest kernel of that case. A line that starts higher wins more often; one that
reaches the top sooner is the safer choice; one that stays below it failed on the rest. The cases are those that
kernels of the most studies were asked for. Thick and named: the best kernel of each study, the one with the largest
area below its line."""

from __future__ import annotations

from .numbers import PRECISIONS, counted, listed, percent
from .style import canvas, plain_log

SECTION, PLACE, PER = "together", 1, ("device", "l2")


def _shown(tables):
    """Classes in which studies compete, those of most cases first: name, profiles, the best kernel of each study."""
    rows = tables["performance"]
    order = rows.groupby("precision_class")["cases"].max().sort_values(ascending=False, kind="stable").index
    panels = []
    for name in order:
        lines = rows[rows["precision_class"] == name].pivot(index="tau", columns="kernel", values="share_fraction")
        studies = rows[rows["precision_class"] == name].drop_duplicates("kernel").set_index("kernel")["study"]
        # The factors rise by equal steps, so that the mean is the area below the line.
        ranked = lines.mean().sort_values(ascending=False, kind="stable").index
        panels.append((name, lines, [own[0] for own in ranked.groupby(studies[ranked]).values()]))
    return panels


def draw(tables, styles):
    panels = _shown(tables)
    if not panels:
        return None
    columns = min(2, len(panels))
    figure, axes = canvas(-(-len(panels) // columns), columns, 3.4 * -(-len(panels) // columns), sharey=True)
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, (name, lines, best) in zip(axes, panels, strict=False):
        about = tables["performance"].query("precision_class == @name").iloc[0]
        for kernel in sorted(lines, key=lambda kernel: kernel in best):
            named = kernel in best
            ax.plot(
                lines.index, 100 * lines[kernel], color=styles[kernel]["color"], linewidth=2.2 if named else 0.8,
                alpha=1 if named else 0.45,
                drawstyle="steps-post",
            )  # fmt: skip
        last = lines.iloc[-1]
        heights = _apart([100 * last[kernel] for kernel in best], 6.0)
        for kernel, height in zip(best, heights, strict=True):
            ax.annotate(
                kernel, (lines.index[-1], height), xytext=(4, 0), textcoords="offset points", va="center",
                fontsize=7.5, color=styles[kernel]["color"], annotation_clip=False,
            )  # fmt: skip
        matrices = counted(about["matrices"], "matrix", "matrices")
        title = f"{PRECISIONS[name]}: {counted(about['cases'], 'case')} of {matrices}"
        ax.set(xscale="log", xlim=(1, lines.index[-1]), ylim=(0, 102), title=title)
        ax.set(xlabel="time over that of the fastest kernel", ylabel="cases (%)")
        plain_log(ax.xaxis, ticks=(1, 1.5, 2, 3, 5, 10, 20))
    return figure


def _apart(heights, gap):
    """Heights of labels, at least ``gap`` apart and as near to their lines as that allows, from the top down."""
    order = sorted(range(len(heights)), key=lambda at: -heights[at])
    placed, above = list(heights), float("inf")
    for at in order:
        placed[at] = above = min(heights[at], above - gap)
    return placed


def says(tables):
    rows = tables["performance"]
    told = []
    for name, lines, _ in _shown(tables):
        own = rows[rows["precision_class"] == name]
        first = lines.loc[1.0].idxmax()
        safe = lines.loc[2.0].idxmax()
        asked = tables["together"].query("precision_class == @name")
        elsewhere = sorted(set(asked["study"]) - set(own["study"]))
        more = f" (not asked for on these matrices: {listed(elsewhere)})" if elsewhere else ""
        told.append(
            f"In {PRECISIONS[name]} {first} is most often the fastest, on {percent(lines.loc[1.0, first])} of "
            f"{counted(int(own['cases'].iloc[0]), 'case')}, and {'it' if safe == first else safe} is most often within "
            f"twice the least time, on {percent(lines.loc[2.0, safe])}{more}."
        )
    return " ".join(told)
