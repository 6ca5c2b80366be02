"""Speed-up over the best of cuSPARSE
Each small mark is one matrix. The large mark is the geometric mean over the matrices on which the kernel and cuSPARSE
have a time, with its 95 % bootstrap interval if there are four or more. Left of 1 the kernel loses to cuSPARSE. The
baseline is the fastest of cuSPARSE's CSR and COO algorithms that ran on the same case in the same precision (TF32 is
compared with FP32)."""

from __future__ import annotations

from .labels import fitting, short
from .numbers import times
from .sentences import LEAST_OF_INTERVAL, named, population
from .style import INK, MOST_MARKS, call, canvas, marks

SECTION, ORDER, PER = "suite", 2, ("device", "suite", "l2", "precision")


def _shown(tables):
    cases = tables["cases"]
    rows = cases[cases["speedup"].notna() & ~cases["kernel"].str.startswith("cusparse_best_")]
    # A library with one variant is its own baseline: nothing to see.
    return rows if (rows["speedup"] != 1).any() else rows.head(0)


def draw(tables, styles):
    rows, means = _shown(tables), tables["speedup"]
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    order = list(means.groupby("kernel")["geomean"].max().sort_values().index)
    figure, axes = canvas(1, len(widths), 1.1 + 0.34 * max(3, len(order)), sharey=True, sharex=True)
    many = len(rows) > MOST_MARKS
    ratios_of = dict(list(rows.sort_values("speedup").groupby(["n", "kernel"])["speedup"]))
    means_of = {(mean.n, mean.kernel): mean for mean in means.itertuples()}
    # Once for all axes, which share both.
    axes[0].set(xscale="log", ylim=(-0.6, len(order) - 0.4))
    axes[0].set_yticks(range(len(order)), order)
    for ax, n in zip(axes, widths, strict=True):
        ax.axvline(1, color=INK, linewidth=1, zorder=1)
        spans = []
        for position, kernel in enumerate(order):
            style = styles[kernel]
            ratios = ratios_of.get((n, kernel), ())
            # Below the mean, with neighbours in rank at different heights, so that equal values do not overlap.
            heights = [position - 0.25 + 0.05 * ((rank * 2) % 5 - 2) for rank in range(len(ratios))]
            marks(ax, ratios, heights, s=12, zorder=2, rasterized=many, label=kernel, **style)
            mean = means_of.get((n, kernel))
            if mean:
                span = [mean.geomean_low, mean.geomean_high]
                spans.append((span, position, style["color"]))
                look = {"markeredgecolor": INK, "label": f"{kernel}, mean", **style}
                marks(ax, [mean.geomean], [position], s=58, edge=0.8, zorder=4, **look)
        if spans:
            ends, places, colours = zip(*spans, strict=True)
            look = {"linewidth": 2.2, "zorder": 3, "capstyle": "projecting"}
            call(ax.hlines(places, *zip(*ends, strict=True), color=colours, **look), "95 % interval of the mean")
        ax.set(title=f"N = {n}", xmargin=0.08)
    fitting(axes[0].xaxis, _ticks(rows["speedup"].min(), rows["speedup"].max()), _ratio)
    figure.supxlabel("speed-up over cusparse_best")
    return figure


def _ticks(low: float, high: float) -> list[list[float]]:
    """Lists of round ratios that contain 1, the finest first: powers of two, preceded by finer steps if the ratios span
    less than a factor of 3."""
    choices = []
    if high / low < 3:
        fine = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.8, 2, 2.5, 3)
        near = [value for value in fine if 0.95 * low <= value <= 1.05 * high or value == 1]
        one = near.index(1)
        choices += [[v for position, v in enumerate(near) if (position - one) % step == 0] for step in (1, 2, 3)]
    powers = [power for power in range(-16, 17) if low / 1.5 <= 2.0**power <= high * 1.5 or power == 0]
    return choices + [[2.0**power for power in powers if power % step == 0] for step in (1, 2, 3, 4, 6, 8, 16)]


def _ratio(value: float) -> str:
    """Powers of two below 1 as fractions: 1/64 is shorter than 0.0156."""
    return f"1/{short(1 / value)}" if value <= 0.25 and (1 / value).is_integer() else short(value)


def says(tables):
    means, cases, name = tables["speedup"], tables["cases"], named(tables)
    if means.empty:
        return ""
    own = means[means["study"] != "cusparse"]
    where = population(tables, _shown(tables)["matrix"])
    if own.empty:
        ran = ((cases["study"] != "cusparse") & (cases["status"] == "ok")).any()
        alone = "No other kernel has a time on a case of cuSPARSE" if ran else "Only cuSPARSE has a time"
        ranked = means.sort_values(["geomean", "kernel", "n"])
        worst, closest = ranked.iloc[0], ranked.iloc[-1]
        said = (
            f"{alone}. On {where}, {closest['kernel']} at N = {closest['n']} comes closest to the best of its "
            f"algorithms, at {times(closest['geomean'])} in the geometric mean"
        )
        last = f", and {worst['kernel']} at N = {worst['n']} stays furthest behind, at {times(worst['geomean'])}"
        return f"{said}{last if len(ranked) > 1 else ''}."
    best = own.sort_values(["geomean", "kernel", "n"], ascending=[False, True, True]).iloc[0]
    interval = best["matrices"] >= LEAST_OF_INTERVAL and best[["geomean_low", "geomean_high"]].notna().all()
    spread = f" (95 % interval {times(best['geomean_low'])} to {times(best['geomean_high'])})" if interval else ""
    said = (
        f"On {where}, {name(best['kernel'])} at N = {best['n']} has the highest mean, "
        f"{times(best['geomean'])}{spread}, and is faster than cuSPARSE on {best['wins']} of {best['matrices']}"
    )
    if len(own) > 1:
        worst = own.sort_values(["geomean", "kernel", "n"]).iloc[0]
        said += (
            f"; {name(worst['kernel'])} at N = {worst['n']} has the lowest, {times(worst['geomean'])}, and is faster "
            f"on {worst['wins']} of {worst['matrices']}"
        )
    low, high = own["matrices"].min(), own["matrices"].max()
    over = f" Each mean is over the matrices that its kernel ran, {low} to {high}." if low < high else ""
    return f"{said}.{over}"
