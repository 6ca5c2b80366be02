"""Roofline at the counted bytes
Useful rate over the intensity at the bytes that Nsight Compute counted. Left: bytes between DRAM and L2; a line leads
to a hollow mark at the compulsory intensity. Right: bytes between multiprocessors and L2. With a warm L2 the DRAM bytes
are no bound, because the profiled call finds another state of L2 than consecutive calls do. Slopes are the highest
measured rates of the level; other lines are the ceilings of the units that multiply, dashed if only the datasheet gives
them. A mark on a slope can gain only by moving fewer bytes at that level; a mark far below all lines waits for
something else."""

from __future__ import annotations

from . import limits
from .labels import plain_log
from .numbers import counted, listed, percent, times
from .sentences import named, population
from .style import apart, canvas, groups_of, key, marks, tie

SECTION, ORDER, PER = "suite", 5, ("device", "suite", "l2", "precision")

#: Level of memory → column of the intensity, and the label of the axis.
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
    groups = groups_of(styles, rows)
    longest = max(map(len, groups))
    figure, axes = canvas(len(groups), 2, len(groups) * (3.4 + 0.16 * -(-longest // 4)) + 0.2, sharey=True)
    top = max([rows["useful_gflops"].max(), *(level.value for level in across)])
    low = rows["useful_gflops"].min() / 2
    axes[0].set(ylim=(low, limits.highest(across, low, top)))
    named = {}
    for position, ax in enumerate(axes):
        group, (level, (column, label)) = groups[position // 2], [*PANELS.items()][position % 2]
        columns = [column, *(["intensity_flop_per_byte"] if level == "dram" else [])]
        left, right = rows[columns].min().min() / 2, rows[columns].max().max() * 4
        own = {level: slopes[level]} if level in slopes else {}
        right = max(right, *(3 * top / value for value in own.values()), 0)
        number = f", {1 + position // 2} of {len(groups)}" if len(groups) > 1 else ""
        title = f"{limits.SLOPES[level][0]}{number}"
        ax.set(xscale="log", yscale="log", title=title, xlabel=label, xlim=(left, right))
        named[level] = limits.lines(ax, own, across, top)
        looks = apart(styles, rows[rows["kernel"].isin(group)])
        for kernel, subset in rows[rows["kernel"].isin(group)].groupby("kernel"):
            style = looks[kernel]
            x, y = subset[column], subset["useful_gflops"]
            if level == "dram":
                compulsory = subset["intensity_flop_per_byte"]
                ax.hlines(y, x, compulsory, color=style["color"], linewidth=0.5, zorder=2, label=kernel)
                hollow = f"{kernel}, compulsory"
                marks(ax, compulsory, y, s=12, edge=0.6, markerfacecolor="none", zorder=3, label=hollow, **style)
            tie(marks(ax, x, y, s=24, zorder=4, label=kernel, **style), subset)
        half = -(-len(group) // 2)
        key(ax, looks, group[:half] if level == "dram" else group[half:], 0.2)
        plain_log(ax.xaxis, room=9)
    limits.name_slopes(figure, [line for lines in named.values() for line in lines])
    figure.supylabel("useful GFLOP/s")
    plain_log(axes[0].yaxis, ticks=[10.0**power for power in range(-1, 8)])
    return figure


def says(tables):
    rows, name = _shown(tables), named(tables)
    if rows.empty:
        return ""
    known = rows[rows["bound"] != ""]
    if known.empty:
        return f"{counted(len(rows), 'case')} counted; the device has no measured DRAM rate or no datasheet here."
    names = {"dram": "DRAM", "l2": "L2", "compute": "computation", "launch": "an empty replay"}
    of = known["bound"].value_counts()
    binds = listed([f"{names[bound]} in {of[bound]:,}" for bound in names if bound in of])
    near = known.loc[known["bound_fraction"].idxmax()]
    closest = (
        f" Closest to its limit is {name(near['kernel'])} on {near['matrix']}, N = {near['n']}, with "
        f"{percent(near['bound_fraction'])}."
    )
    more = int((known[["save_dram_bytes", "save_l2_bytes", "save_flops"]].fillna(0) > 0).any(axis=1).sum())
    l2 = "" if known["l2_limit_gflops"].notna().any() else " The rate of L2 was not measured and limits nothing here."
    reached, room = percent(known["bound_fraction"].median()), times(known["distance"].median())
    return (
        f"Of {counted(len(known), 'case')} on {population(tables, known['matrix'])} the lowest limit is {binds}; "
        f"in the median a case reaches {reached} of it, and the limits allow {room} its rate.{closest} "
        f"To be twice as fast, {more:,} of {len(known):,} must move or compute less.{l2}"
    )
