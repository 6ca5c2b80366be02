"""Speed-up over the best of cuSPARSE
Each small mark is one matrix, the large one the geometric mean with its 95 % bootstrap interval over matrices. Left of
1 the kernel loses to cuSPARSE. The baseline is the fastest of cuSPARSE's CSR algorithms on the same case in the same
precision (TF32 is compared with FP32)."""

from __future__ import annotations

from .numbers import counted, times
from .style import INK, MOST_MARKS, canvas, marks, plain_log

SECTION, PLACE, PER = "suite", 2, ("device", "suite", "l2", "precision")


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
    for ax, n in zip(axes, widths, strict=True):
        ax.axvline(1, color=INK, linewidth=1, zorder=1)
        for place, kernel in enumerate(order):
            style = styles[kernel]
            ratios = ratios_of.get((n, kernel), ())
            # Below the mean, and neighbours in rank on different heights, so that equal values stay apart.
            heights = [place - 0.25 + 0.05 * ((rank * 2) % 5 - 2) for rank in range(len(ratios))]
            marks(ax, ratios, heights, s=12, alpha=0.7, zorder=2, rasterized=many, **style)
            mean = means_of.get((n, kernel))
            if mean:
                span = [mean.geomean_low, mean.geomean_high]
                ax.plot(span, [place] * 2, color=style["color"], linewidth=2.2, zorder=3)
                marks(ax, [mean.geomean], [place], s=58, edge=0.8, markeredgecolor=INK, zorder=4, **style)
        ax.set(xscale="log", title=f"N = {n}", xlabel="speed-up over cusparse_best", ylim=(-0.6, len(order) - 0.4))
        ax.set_yticks(range(len(order)), order)
        plain_log(ax.xaxis, ticks=_ticks(rows["speedup"].min(), rows["speedup"].max()))
    return figure


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios that contain 1: powers of two, or finer steps where the ratios span less than a factor of 3."""
    if high / low < 3:
        fine = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.8, 2, 2.5, 3)
        near = [value for value in fine if 0.95 * low <= value <= 1.05 * high or value == 1]
        return [value for place, value in enumerate(near) if (place - near.index(1)) % (1 + len(near) // 8) == 0]
    powers = [power for power in range(-16, 17) if low / 1.5 <= 2.0**power <= high * 1.5 or power == 0]
    step = 1 + len(powers) // 7
    return [2.0**power for power in powers if power % step == 0]


def says(tables):
    means = tables["speedup"]
    own = means[means["study"] != "cusparse"]
    if own.empty:
        closest = means.groupby("kernel")["geomean"].max().sort_values().index[-1]
        worst = means.sort_values(["geomean", "kernel"]).iloc[0]
        return (
            f"Only cuSPARSE ran: {closest} comes closest to the best of the variants, and {worst['kernel']} at "
            f"N = {worst['n']} stays furthest behind, at {times(worst['geomean'])} in the geometric mean."
        )
    best = own.sort_values(["geomean", "kernel"], ascending=[False, True]).iloc[0]
    worst = own.sort_values(["geomean", "kernel"]).iloc[0]
    low, high = times(best["geomean_low"]), times(best["geomean_high"])
    spread = f" (95 % interval {low} to {high})" if best["matrices"] > 1 else ""
    return (
        f"Highest mean: {best['kernel']} at N = {best['n']} with {times(best['geomean'])}{spread} over "
        f"{counted(best['matrices'], 'matrix', 'matrices')}, faster than cuSPARSE on {best['wins']}; lowest: "
        f"{worst['kernel']} at N = {worst['n']} with {times(worst['geomean'])}, faster on {worst['wins']} of "
        f"{worst['matrices']}."
    )
