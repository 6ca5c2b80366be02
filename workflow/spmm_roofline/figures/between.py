"""Two devices on the same work
A row for each suite and state of L2 that both devices measured, over all kernels that both timed. Left: how many times
as fast the same kernel is on the second device, as the geometric mean with the middle half of the cases; a cross is
what the limits of the two devices allow. Right: share of its own limit that each device reaches, as geometric mean."""

from __future__ import annotations

from typing import Any

from .labels import plain_log
from .numbers import counted, percent, times
from .style import HUES, INK, call, canvas, marks

SECTION, ORDER, PER = "devices", 1, ()


def _shown(tables):
    """A row for each pair of devices, suite and state of L2, those with the most cases first."""
    rows = tables["between"]
    rows = rows[(rows["kernel"] == "") & (rows["suite"] != "")]
    return rows.sort_values(["device", "other", "cases", "suite", "l2"], ascending=[True, True, False, True, True])


def draw(tables, styles):
    from matplotlib.lines import Line2D

    rows = _shown(tables)
    if rows.empty:
        return None
    pairs = list(rows.groupby(["device", "other"], sort=True))
    devices = sorted({*rows["device"], *rows["other"]})
    looks: dict[str, dict[str, Any]] = {
        name: {"color": HUES[at % len(HUES)], "marker": "osD^vP"[at % 6]} for at, name in enumerate(devices)
    }
    heights = [0.6 + 0.2 * len(own) for _, own in pairs]
    figure, axes = canvas(len(pairs), 2, 0.8 + sum(heights) + 0.4 * len(pairs), height_ratios=heights)
    for (ratio, limit), ((device, other), own) in zip(zip(axes[::2], axes[1::2], strict=True), pairs, strict=True):
        at = range(len(own))[::-1]
        ratio.axvline(1, color=INK, linewidth=0.8, zorder=1)
        quartiles = own["speedup_lower_quartile"], own["speedup_upper_quartile"]
        half = ratio.hlines(at, *quartiles, color=looks[other]["color"], linewidth=1.6, zorder=2)
        call(half, f"{other}, middle half")
        marks(ratio, own["speedup"], at, s=30, zorder=3, **looks[other])
        allowed = own["limit_ratio"].astype("float64")
        ratio.plot(allowed, at, linestyle="none", marker="x", markersize=5, color=INK, zorder=4)
        for name, column in ((device, "bound_fraction"), (other, "other_bound_fraction")):
            marks(limit, 100 * own[column].astype("float64"), at, s=30, zorder=3, **looks[name])
        ratio.set_yticks(at, [f"{row.suite}, {row.l2}" for row in own.itertuples()])
        limit.set_yticks(at, [label.get_text() for label in ratio.get_yticklabels()])
        limit.tick_params(labelleft=False)
        for ax in (ratio, limit):
            ax.set_ylim(-0.6, len(own) - 0.4)
        ratio.set(xscale="log", xlabel=f"{other} over {device}")
        ends = own[["speedup_lower_quartile", "speedup_upper_quartile", "speedup"]].assign(allowed=allowed, one=1.0)
        ratio.set_xlim(0.95 * float(ends.min().min()), 1.05 * float(ends.max().max()))
        plain_log(ratio.xaxis, room=6)
        limit.set(xlim=(0, None), xlabel="share of the device's limit (%)")
    handles = [Line2D([], [], linestyle="none", label=name, **look) for name, look in looks.items()]
    handles.append(Line2D([], [], linestyle="none", marker="x", color=INK, label="by their limits"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def says(tables):
    told = []
    for (device, other), own in _shown(tables).groupby(["device", "other"], sort=True):
        ranked = own.sort_values(["speedup", "suite"])
        least, most = ranked.iloc[0], ranked.iloc[-1]
        said = f"{other} is {times(most['speedup'])} as fast as {device} in the suite {most['suite']} ({most['l2']} L2)"
        if len(ranked) > 1:
            said += f", the most of {counted(len(ranked), 'row')}, and {times(least['speedup'])} in {least['suite']}, "
            said += "the least"
        known = own.dropna(subset=["bound_fraction", "other_bound_fraction"])
        if len(known):
            row = known.loc[known["cases"].idxmax()]
            said += (
                f"; on the most cases, those of {row['suite']}, kernels reach {percent(row['bound_fraction'])} of "
                f"their limit on {device} and {percent(row['other_bound_fraction'])} on {other}"
            )
        told.append(f"{said}.")
    return " ".join(told)
