"""Roofline
Each mark is one kernel on one matrix at one width: useful rate over compulsory intensity, which is 2·nnz·N over the
bytes of A in CSR (without its structure if the format stores none), the touched rows of B, and C, each moved once.
Slopes are the highest measured rates of DRAM and, if measured, of L2; levels are measured ceilings of the units that
multiply (solid) or datasheet peaks (dashed). Many kernels are spread over several panels. A mark below the slope of
DRAM either moves more bytes than it must or waits; a mark above it found operands in L2 or left its result there. The
limit that a row is compared with allows for that."""

from __future__ import annotations

from . import limits
from .labels import plain_log
from .numbers import counted, listed, percent
from .sentences import BOUNDS, named, population
from .style import MOST_MARKS, apart, groups_of, key, marks, panels, tie, timed, without_variants

SECTION, ORDER, PER = "suite", 4, ("device", "suite", "l2")

#: Panel → precisions of its rows, and those whose ceilings are drawn: FP16 and BF16 have the same.
PANELS = {
    "FP8 values": (("float8_e4m3",), ("float8_e4m3",)),
    "FP16 and BF16 values": (("float16", "bfloat16"), ("float16",)),
    "FP32 and TF32 values": (("float32", "tf32"), ("tf32", "float32")),
    "FP64 values": (("float64",), ("float64",)),
}


def _shown(tables):
    cases = timed(tables["cases"])
    rows = cases[(cases["intensity_flop_per_byte"] > 0) & (cases["useful_gflops"] > 0)]
    return without_variants(rows)


def draw(tables, styles):
    rows = _shown(tables)
    shown = []
    for title, (precisions, drawn) in PANELS.items():
        own = rows[rows["precision"].isin(precisions)]
        groups = groups_of(styles, own) if len(own) else []
        for number, group in enumerate(groups, start=1):
            which = f", {number} of {len(groups)}" if len(groups) > 1 else ""
            shown.append((f"{title}{which}", drawn, own[own["kernel"].isin(group)]))
    if not shown:
        return None
    slopes = limits.slopes(tables["ceilings"])
    across = [limits.levels(tables["ceilings"], *drawn) for _, drawn, _ in shown]
    longest = max(subset["kernel"].nunique() for _, _, subset in shown)
    height = 3.3 + 0.16 * -(-longest // 2)
    figure, axes = panels(len(shown), 2 if len(shown) in (2, 4) else 3, height, 0.1, sharex=True, sharey=True)
    tops = [max([rows["useful_gflops"].max(), *(level.value for level in levels)]) for levels in across]
    left, right = rows["intensity_flop_per_byte"].min() / 2, rows["intensity_flop_per_byte"].max() * 4
    if slopes:
        right = max(right, 3 * max(tops) / min(slopes.values()))  # shows where every level crosses the slopes
    low = rows["useful_gflops"].min() / 2
    high = max(limits.highest(levels, low, top) for levels, top in zip(across, tops, strict=True))
    axes[0].set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, high))
    many = len(rows) > MOST_MARKS
    for ax, (title, _, subset), levels, top in zip(axes, shown, across, tops, strict=True):
        ax.set(title=title)
        ax.tick_params(labelbottom=True)  # the key of the panel separates it from those below
        drawn_slopes = limits.lines(ax, slopes, levels, top)
        looks = apart(styles, subset)
        for kernel, of_kernel in subset.groupby("kernel"):
            x, y = of_kernel["intensity_flop_per_byte"], of_kernel["useful_gflops"]
            tie(marks(ax, x, y, s=24, zorder=3, rasterized=many, label=kernel, **looks[kernel]), of_kernel)
        key(ax, looks, looks, 0.1)
    limits.name_slopes(figure, drawn_slopes)
    plain_log(axes[0].xaxis, room=9)
    figure.supxlabel("compulsory intensity (FLOP/B)")
    figure.supylabel("useful GFLOP/s")
    plain_log(axes[0].yaxis, ticks=[10.0**power for power in range(-1, 8)])
    return figure


def says(tables):
    rows, name = _shown(tables), named(tables)
    if rows.empty:
        return ""
    known = rows[rows["bound_fraction"].notna()]
    if known.empty:
        return "No limit is known for these rows: the device has no measured DRAM rate or no datasheet here."
    of = known["bound"].value_counts()
    binds = listed([f"{BOUNDS[bound]} for {of[bound]:,}" for bound in BOUNDS if bound in of])
    fastest = rows.sort_values(["time_ms", "kernel"]).drop_duplicates(["matrix", "n", "precision"])
    fastest = fastest[fastest["bound_fraction"].notna()]
    reached = (
        f"; the fastest kernel of a case reaches {percent(fastest['bound_fraction'].median())} of its limit in the "
        f"median of {counted(len(fastest), 'case')}"
        if len(fastest)
        else ""
    )
    top = known.loc[known["bound_fraction"].idxmax()]
    share = percent(top["bound_fraction"])
    closest = f"; {name(top['kernel'])} on {top['matrix']} at N = {top['n']} comes closest, at {share}"
    return (
        f"On {population(tables, known['matrix'])} the lowest limit is {binds} of {counted(len(known), 'row')}"
        f"{reached}{closest}."
    )
