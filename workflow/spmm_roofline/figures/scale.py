"""SCALE on CUDA cores and on tensor cores
Left: bytes of x and y over the time of one call, against their size; left of the dotted line L2 holds both. Right:
speed-up of CUDA cores over tensor cores at each size, with the geometric means on either side of that line, where the
input x is half of L2. Below 1 tensor cores win, and the dashed line is their largest possible gain (Zhang et al. 2025,
figure 6 and equation 23, there on an A100 and a GH200)."""

from __future__ import annotations

from .labels import HALO, plain_log
from .numbers import bandwidth, percent, size, times
from .sentences import population
from .style import INK, call, canvas, legend, timed

STUDY = "memory_bound"
SECTION, ORDER, PER = "study", 2, ("device", "suite", "l2")
PAPER = "figure 6"

#: A product with a diagonal matrix moves two vectors; a curve has at least this number of sizes.
KIND, LEAST_SIZES = "diagonal", 3


def _shown(tables):
    """Verified rows on diagonal matrices, and the ratios of tensor to CUDA cores with their size in bytes."""
    cases = timed(tables["cases"])
    rows = cases[(cases["study"] == STUDY) & (cases["kind"] == KIND) & (cases["n"] == 1)]
    ratios = tables["bounds"].merge(rows[["kernel", "matrix", "n", "compulsory_bytes"]], on=["kernel", "matrix", "n"])
    ratios = ratios.dropna(subset="gain").sort_values("compulsory_bytes")
    enough = ratios["matrix"].nunique() >= LEAST_SIZES
    return (rows, ratios) if enough else (rows.head(0), ratios.head(0))


def _l2(tables) -> float:
    """Bytes of L2; NaN if the size is unknown."""
    return float(tables["devices"]["l2_bytes"].astype("float64").max())


def _mean(ratios) -> float:
    """Geometric mean of the speed-up of CUDA cores; NaN without rows."""
    import numpy as np

    return float(np.exp(-np.log(ratios["gain"].astype(float)).mean())) if len(ratios) else float("nan")


def _sides(ratios, l2: float) -> dict:
    """The sizes at which the input x takes less than half of L2, and the others; x and y are of one size."""
    return {
        "inside": ratios[ratios["compulsory_bytes"] < l2],
        "beyond": ratios[ratios["compulsory_bytes"] >= l2],
    }


def draw(tables, styles):
    rows, ratios = _shown(tables)
    if rows.empty:
        return None
    l2 = _l2(tables)
    figure, (rate, ratio) = canvas(1, 2, 3.4, sharex=True)
    for kernel, subset in rows.sort_values("compulsory_bytes").groupby("kernel"):
        rate.plot(
            subset["compulsory_bytes"], 1e-6 * subset["compulsory_bytes"] / subset["time_ms"], markersize=5,
            markeredgewidth=0, label=kernel, **styles[kernel],
        )  # fmt: skip
    ratio.plot(
        ratios["compulsory_bytes"], 1 / ratios["gain"], linestyle="none", markersize=6, markeredgewidth=0,
        label=ratios["kernel"].iloc[0], **styles[ratios["kernel"].iloc[0]],
    )  # fmt: skip
    for side, subset in _sides(ratios, l2).items():
        if len(subset):
            span = subset["compulsory_bytes"].min() / 1.2, subset["compulsory_bytes"].max() * 1.2
            mean = ratio.hlines(_mean(subset), *span, color=styles[subset["kernel"].iloc[0]]["color"], linewidth=2)
            call(mean, f"mean {side} L2")
            label, end = f"mean {times(_mean(subset))}", (span[1], _mean(subset))
            away, va = (0, 6), "bottom"
            # The label takes the right half of the line, on the side where the marks there are farther from it.
            marks = (1 / subset["gain"] - _mean(subset))[subset["compulsory_bytes"] ** 2 > span[0] * span[1]]
            if marks[marks > 0].min() < marks[marks <= 0].abs().min() or (marks > 0).all():
                away, va = (0, -6), "top"
            ratio.annotate(
                label, end, away, textcoords="offset points", ha="right", va=va, fontsize=8, bbox=HALO, zorder=5,
            )  # fmt: skip
    ratio.axhline(1, color=INK, linewidth=1)
    ratio.axhline(1 / ratios["gain_limit"].max(), color=INK, linewidth=0.9, linestyle="dashed")
    low, high = ratio.get_ylim()
    ratio.set_ylim(low - 0.05 * (high - low), high)  # or the dashed line would lie on the axis
    for ax in (rate, ratio):
        if l2 == l2:
            ax.axvline(l2, color=INK, linewidth=0.8, linestyle=":")
        ax.set(xscale="log", xlabel="bytes of x and y")
    rate.set(ylabel="GB/s")
    rate.set_ylim(bottom=0)
    ratio.set(ylabel="speed-up of CUDA cores")
    plain_log(rate.xaxis, room=6)
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows, ratios = _shown(tables)
    if ratios.empty:
        return ""
    l2 = _l2(tables)
    said = [f"{times(_mean(ratios))} the rate of tensor cores over all sizes"]
    if l2 == l2:
        where = {"inside": "where L2 holds x and y", "beyond": "beyond it"}
        said = [f"{times(_mean(subset))} {where[name]}" for name, subset in _sides(ratios, l2).items() if len(subset)]
        said[0] = said[0].replace("× ", "× the rate of tensor cores ").replace("beyond it", "beyond L2")
        said[-1] += f" (L2 holds {size(l2)})"
    largest = rows[rows["compulsory_bytes"] == rows["compulsory_bytes"].max()]
    largest = largest.sort_values(["time_ms", "kernel"]).iloc[0]
    gained = ratios.loc[ratios["gain"].idxmax()]
    gain = f"at most {percent(gained['gain'] - 1)}" if gained["gain"] > 1 else "nothing on any size"
    return (
        f"On {population(tables, ratios['matrix'])} CUDA cores reach {' and '.join(said)}, in the geometric mean; at "
        f"the largest size {largest['kernel']} moves "
        f"{bandwidth(1e-6 * largest['compulsory_bytes'] / largest['time_ms'])}. Tensor cores gain {gain}, where "
        f"arithmetic allows at most {percent(ratios['gain_limit'].max() - 1)}."
    )
