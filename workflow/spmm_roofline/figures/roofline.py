"""Roofline
Each mark is one kernel on one matrix at one width: useful rate over compulsory intensity, 2·nnz·N over the bytes of A
in CSR (none where its format implies the structure), the touched rows of B, and C, each moved once. Slopes are the
highest measured rates of DRAM and, where it was measured, of L2; levels are measured ceilings of the units that
multiply (drawn through) or datasheet peaks (dashed). A mark below the slope of DRAM either moves more bytes than it
must or waits; a mark above it found operands in L2, which is no error."""

from __future__ import annotations

from . import limits
from .numbers import counted, percent
from .style import MOST_MARKS, canvas, legend, plain_log, tie, without_variants

SECTION, PLACE, PER = "suite", 4, ("device", "suite", "l2")

#: Panel → precisions of its rows, and those whose ceilings are drawn: FP16 and BF16 have the same.
PANELS = {
    "FP16 and BF16 values": (("float16", "bfloat16"), ("float16",)),
    "FP32 and TF32 values": (("float32", "tf32"), ("tf32", "float32")),
    "FP64 values": (("float64",), ("float64",)),
}


def _shown(tables):
    cases = tables["cases"]
    rows = cases[(cases["status"] == "ok") & (cases["intensity_flop_per_byte"] > 0) & (cases["useful_gflops"] > 0)]
    return without_variants(rows)


def draw(tables, styles):
    rows = _shown(tables)
    panels = {title: panel for title, panel in PANELS.items() if rows["precision"].isin(panel[0]).any()}
    if not panels:
        return None
    slopes = limits.slopes(tables["ceilings"])
    across = {title: limits.levels(tables["ceilings"], *drawn) for title, (_, drawn) in panels.items()}
    figure, axes = canvas(1, len(panels), 4.2 + 0.2 * (rows["kernel"].nunique() // 5), sharex=True, sharey=True)
    tops = {title: max([rows["useful_gflops"].max(), *(x.value for x in across[title])]) for title in panels}
    left, right = rows["intensity_flop_per_byte"].min() / 2, rows["intensity_flop_per_byte"].max() * 4
    if slopes:
        right = max(
            right, 3 * max(tops.values()) / min(slopes.values())
        )  # the knee of every level stands in the picture
    axes[0].set(ylabel="useful GFLOP/s", ylim=(rows["useful_gflops"].min() / 2, 4 * max(tops.values())))
    for ax, (title, (precisions, _)) in zip(axes, panels.items(), strict=True):
        part = rows[rows["precision"].isin(precisions)]
        ax.set(xscale="log", yscale="log", title=title, xlabel="compulsory intensity (FLOP/B)", xlim=(left, right))
        limits.lines(ax, slopes, across[title], tops[title])
        for kernel, of_kernel in part.groupby("kernel"):
            x, y = of_kernel["intensity_flop_per_byte"], of_kernel["useful_gflops"]
            many = len(rows) > MOST_MARKS
            marks = ax.scatter(x, y, s=24, linewidth=0, alpha=0.85, zorder=3, rasterized=many, **styles[kernel])
            tie(marks, of_kernel)
    for ax in axes:
        plain_log(ax.xaxis, room=11)
    plain_log(axes[0].yaxis, ticks=[10.0**power for power in range(-1, 8)])
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    known = rows[rows["bound_fraction"].notna()]
    if known.empty:
        return "No limit is known for these rows: the device has no measured DRAM rate or no datasheet here."
    closest = known.loc[known["bound_fraction"].idxmax()]
    memory = (known["bound"] == "memory").mean()
    fastest = known.sort_values("time_ms").drop_duplicates(["matrix", "n", "precision"])
    above = int(((known["bound_fraction"] > 1) & (known["bound"] == "memory")).sum())
    beyond = f" {counted(above, 'row lies', 'rows lie')} above the slope: L2 held operands." if above else ""
    return (
        f"The memory limit is the lower one for {percent(memory)} of the rows; the fastest kernel of a case reaches "
        f"{percent(fastest['bound_fraction'].median())} of its limit in the median, and the closest row "
        f"{percent(closest['bound_fraction'])} "
        f"({closest['kernel']} on {closest['matrix']}, N = {closest['n']}).{beyond}"
    )
