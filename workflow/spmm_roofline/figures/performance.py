"""How often a kernel is the best, and how far off it is where it is not
Performance profiles after Dolan and Moré (2002): the share of cases on which a kernel takes at most a multiple of the
time of the fastest kernel. A case is a matrix at a width. A line that starts higher wins more often; a line that
reaches the top sooner is the safer choice; a line that stays below the top has no time on the other cases. The cases
are those that kernels of the most studies were asked for; a kernel is shown if it was asked for at least half of them.
Thick and named: the best kernel of each study, with the largest area below its line."""

from __future__ import annotations

from .labels import label_ends, plain_log
from .numbers import PRECISIONS, counted, listed
from .sentences import few, leaders, named, population
from .style import canvas

SECTION, ORDER, PER = "together", 1, ("device", "l2")


def _shown(tables):
    """Precision classes in which studies compete, those with the most cases first: name, profiles, and the best kernel
    of each study."""
    rows = tables["performance"]
    order = rows.groupby("precision_class")["cases"].max().sort_values(ascending=False, kind="stable").index
    panels = []
    for name in order:
        lines = rows[rows["precision_class"] == name].pivot(index="tau", columns="kernel", values="share_fraction")
        studies = rows[rows["precision_class"] == name].drop_duplicates("kernel").set_index("kernel")["study"]
        # The factors rise in equal steps, so the mean is proportional to the area below the line.
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
                lines.index, 100 * lines[kernel], color=styles[kernel]["color"], linewidth=2.2 if named else 0.5,
                drawstyle="steps-post", label=kernel,
            )  # fmt: skip
        matrices = counted(about["matrices"], "matrix", "matrices")
        title = f"{PRECISIONS[name]}: {counted(about['cases'], 'case')} of {matrices}"
        ax.set(xscale="log", xlim=(1, lines.index[-1]), ylim=(0, 102), title=title)
        ax.set(xlabel="time over that of the fastest kernel", ylabel="cases (%)")
        label_ends(ax, 100 * lines.iloc[-1][best], styles, 2.6)
        plain_log(ax.xaxis, ticks=(1, 1.5, 2, 3, 5, 10, 20))
    return figure


def _most(counts, name) -> tuple[str, str]:
    """The kernels with the highest count, and the verb that follows them."""
    best = leaders(counts)
    return few([name(kernel) for kernel in best]), "is" if len(best) == 1 else "are each"


def says(tables):
    rows, name = tables["performance"], named(tables)
    told = []
    for precision, lines, _ in _shown(tables):
        own = rows[rows["precision_class"] == precision]
        asked = tables["together"].query("precision_class == @precision")
        where = population(tables, asked.loc[asked["shared"].astype(bool), "matrix"])
        cases = int(own["cases"].iloc[0])
        first, safe = ((lines.loc[tau] * cases).round().astype(int) for tau in (1.0, 2.0))
        (quick, runs), (sure, stays) = _most(first, name), _most(safe, name)
        sure, stays = ("", runs.removesuffix(" each")) if sure == quick else (f"{sure} ", stays)
        told.append(
            f"In {PRECISIONS[precision]}, on {counted(cases, 'case')} of {where}, {quick} {runs} most often the "
            f"fastest, in {first.max():,}, and {sure}{stays} most often within twice the least time, in {safe.max():,}."
        )
        elsewhere = sorted(set(asked["study"]) - set(own["study"]))
        if elsewhere:
            told[-1] += f" Kernels of {listed(elsewhere)} were asked for fewer than half of these cases."
    return " ".join(told)
