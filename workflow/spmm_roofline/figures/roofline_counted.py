"""Roofline at the bytes that were counted
Useful rate over the intensity at the bytes that Nsight Compute counted. Left: bytes between DRAM and L2, and as a
hollow mark at the other end of the line the compulsory ones. Right: bytes through L2. Slopes are the highest measured
rates of the level, other lines the ceilings of the units that multiply, dashed where only the datasheet is known. A
mark on a slope can gain only by moving fewer bytes there; one far below all lines waits for something else."""

from __future__ import annotations

from . import limits
from .numbers import counted, listed, percent, times
from .style import canvas, legend, plain_log, tie

SECTION, PLACE, PER = "suite", 5, ("device", "suite", "l2", "precision")

#: Level of memory → column of the intensity, and what the axis says.
PANELS = {
    "dram": ("dram_flop_per_byte", "intensity at DRAM (FLOP/B)"),
    "l2": ("cache_flop_per_byte", "intensity at L2 (FLOP/B)"),
}


def _shown(tables):
    rows = tables["roofline"]
    return rows[rows["counted"] & (rows["dram_flop_per_byte"] > 0) & (rows["cache_flop_per_byte"] > 0)]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    slopes = limits.slopes(tables["ceilings"])
    across = limits.levels(tables["ceilings"], *rows["precision"].unique())
    figure, axes = canvas(1, 2, 4.2 + 0.2 * (rows["kernel"].nunique() // 5), sharey=True)
    top = max([rows["useful_gflops"].max(), *(level.value for level in across)])
    axes[0].set(ylabel="useful GFLOP/s", ylim=(rows["useful_gflops"].min() / 2, 4 * top))
    for ax, (level, (column, label)) in zip(axes, PANELS.items(), strict=True):
        columns = [column, *(["intensity_flop_per_byte"] if level == "dram" else [])]
        left, right = rows[columns].min().min() / 2, rows[columns].max().max() * 4
        own = {level: slopes[level]} if level in slopes else {}
        right = max(right, *(3 * top / value for value in own.values()), 0)
        ax.set(xscale="log", yscale="log", title=limits.SLOPES[level][0], xlabel=label, xlim=(left, right))
        limits.lines(ax, own, across, top)
        for kernel, part in rows.groupby("kernel"):
            style = styles[kernel]
            x, y = part[column], part["useful_gflops"]
            if level == "dram":
                compulsory = part["intensity_flop_per_byte"]
                ax.hlines(y, x, compulsory, color=style["color"], linewidth=0.5, zorder=2)
                ax.scatter(
                    compulsory, y, s=12, marker=style["marker"], facecolors="none", edgecolors=[style["color"]],
                    linewidth=0.6, zorder=3,
                )  # fmt: skip
            marks = ax.scatter(x, y, s=24, linewidth=0, alpha=0.85, zorder=4, **style)
            tie(marks, part)
        plain_log(ax.xaxis, room=9)
    plain_log(axes[0].yaxis, ticks=[10.0**power for power in range(-1, 8)])
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    known = rows[rows["bound"] != ""]
    if known.empty:
        return f"{counted(len(rows), 'case')} counted; the device has no measured DRAM rate or no datasheet here."
    names = {"dram": "DRAM", "l2": "L2", "compute": "computation"}
    of = known["bound"].value_counts()
    binds = listed([f"{names[name]} for {percent(of[name] / len(known))}" for name in names if name in of])
    near = known.loc[known["bound_fraction"].idxmax()]
    beyond = known[(known[["save_dram_bytes", "save_l2_bytes", "save_flops"]].fillna(0) > 0).any(axis=1)]
    l2 = "" if known["l2_limit_gflops"].notna().any() else " The rate of L2 was not measured and limits nothing here."
    share, room = percent(known["bound_fraction"].median()), times(known["distance"].median())
    return (
        f"Of {counted(len(known), 'case')} the lowest limit is that of {binds}; in the median a case reaches {share} "
        f"of it, and the limits allow {room} its rate. Closest is {near['kernel']} on {near['matrix']}, "
        f"N = {near['n']}, with {percent(near['bound_fraction'])}. To be twice as fast, "
        f"{percent(len(beyond) / len(known))} of the cases must move or compute less.{l2}"
    )
