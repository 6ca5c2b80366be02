"""Taking the other device's fastest kernel
Share of cases in which the fastest kernel of one device takes longer on the other by more than the value on the axis, a
line per precision, over cases with two kernels or more timed on both devices. A line at zero would say that the devices
never differ; the vertical line is the difference of two recordings of one case."""

from __future__ import annotations

from .numbers import PRECISIONS, counted, percent
from .style import INK, PRECISION_HUES, canvas

SECTION, ORDER, PER = "devices", 2, ()

#: Extra time that is within the noise of two recordings, and the least that is drawn.
NOISE, LEAST = 0.03, 0.005


def _ways(tables):
    """(device that multiplies, device that chose) → rows with their ``lost`` time and whether the kernels differ."""
    rows = tables["swapped"]
    rows = rows.assign(another=rows["kernel"] != rows["other_kernel"])
    found = {}
    for (device, other), own in rows.groupby(["device", "other"], sort=True):
        found[device, other] = own.assign(lost=own["loss"])
        found[other, device] = own.assign(lost=own["other_loss"])
    return found


def draw(tables, styles):
    ways = _ways(tables)
    if not ways:
        return None
    figure, axes = canvas(len(ways) // 2, 2, 2.9 * (len(ways) // 2), sharex=True, sharey=True)
    for ax, ((device, other), own) in zip(axes, ways.items(), strict=True):
        for precision in PRECISIONS:
            lost = sorted(own.loc[own["precision"] == precision, "lost"])
            more = [(value, 100 * (len(lost) - rank - 1) / len(lost)) for rank, value in enumerate(lost)]
            if more:
                start = sum(value > LEAST for value in lost) * 100 / len(lost)
                places, shares = zip((LEAST, start), *(point for point in more if point[0] > LEAST), strict=True)
                ax.step(
                    [100 * place for place in places], shares, where="post",
                    color=PRECISION_HUES[precision], linewidth=1.5, label=PRECISIONS[precision],
                )  # fmt: skip
        ax.axvline(100 * NOISE, color=INK, linewidth=0.8, linestyle=":")
        ax.set(title=f"on {device}, chosen by {other}", xlabel="extra time (%)", xscale="log")
        ax.xaxis.set_major_formatter("{x:g}")
    axes[0].set(ylim=(0, None), ylabel="cases with more (%)")
    shown = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=max(1, len(shown)))
    return figure


def says(tables):
    told = []
    for (device, other), own in _ways(tables).items():
        matters = int((own["lost"] > NOISE).sum())
        told.append(
            f"On {device}, the fastest kernel of {other} is another one on {int(own['another'].sum()):,} of "
            f"{counted(len(own), 'case')} and costs more than {percent(NOISE)} on {matters:,}, at worst "
            f"{percent(own['lost'].max())}."
        )
    return " ".join(told)
