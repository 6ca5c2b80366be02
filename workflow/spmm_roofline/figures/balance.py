"""Ceilings of double precision and what is computed below them
The roofline of this device in float64 with the ceilings of CUDA cores and of tensor cores, measured where drawn
through and from the datasheet where dashed. Each upright line is a kind of product at its compulsory intensity: left
of the knee of CUDA cores memory binds it, and a higher ceiling cannot help (Zhang et al. 2025, figure 2, where SCALE
counts one operation an element and here two)."""

from __future__ import annotations

from . import limits
from .numbers import counted, significant, times
from .style import INK, canvas, plain_log

STUDY = "memory_bound"
SECTION, PLACE, PER = "study", 1, ("device",)

POINTS = r"^([0-9]d[0-9]+pt)"


def _shown(tables):
    """Median compulsory intensity of each kind of product with one column, in FLOP/B, the lowest first."""
    cases = tables["cases"]
    rows = cases[
        (cases["study"] == STUDY) & (cases["n"] == 1) & (cases["status"] == "ok") & (cases["precision"] == "float64")
    ]
    names = rows["matrix"].str.extract(POINTS, expand=False)
    names = names.where(rows["kind"] == "grid").fillna(rows["kind"].map({"diagonal": "SCALE"})).fillna("SpMV")
    return rows.groupby(names)["intensity_flop_per_byte"].median().sort_values()


def _knee(tables):
    """Intensity at which the ceiling of CUDA cores meets DRAM, and the gain of the ceiling of tensor cores over it."""
    across = {level.label: level.value for level in limits.levels(tables["ceilings"], "float64")}
    slope = limits.slopes(tables["ceilings"]).get("dram")
    cuda = max((value for label, value in across.items() if "CUDA" in label), default=None)
    tensor = max((value for label, value in across.items() if "CUDA" not in label), default=None)
    return (cuda / slope, tensor / cuda) if slope and cuda and tensor else None


def draw(tables, styles):
    intensities = _shown(tables)
    knee = _knee(tables)
    if intensities.empty or knee is None:
        return None
    slopes, across = limits.slopes(tables["ceilings"]), limits.levels(tables["ceilings"], "float64")
    top = max(level.value for level in across)
    low, high = min(knee[0], intensities.min()) / 3, 12 * max(knee[0], intensities.max())
    figure, (ax,) = canvas(1, 1, 3.8)
    floor = low * slopes["dram"] / 2
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(floor, 3 * top))
    ax.set(xlabel="compulsory intensity (FLOP/B)", ylabel="GFLOP/s")
    limits.lines(ax, slopes, across, top)
    for place, (name, value) in enumerate(intensities.items()):
        ax.vlines(value, floor, min(top, value * slopes["dram"]), color=INK, linewidth=0.9, linestyle=":")
        ax.annotate(name, (value, floor * 1.6 ** (1 + place % 3)), (2, 0), textcoords="offset points", fontsize=7.5)
    plain_log(ax.xaxis, room=9)
    plain_log(ax.yaxis, room=6)
    return figure


def says(tables):
    intensities, (knee, gain) = _shown(tables), _knee(tables)
    right = list(intensities[intensities >= knee].index)
    highest = intensities.index[-1]
    bound = "all" if not right else f"{len(intensities) - len(right)}"
    products = counted(len(intensities), "kind", "kinds")
    return (
        f"DRAM and CUDA cores meet at {significant(knee)} FLOP/B, which leaves {bound} of {products} of product to "
        f"memory; the highest intensity is {significant(intensities.iloc[-1])} FLOP/B ({highest}). The ceiling of "
        f"tensor cores is {times(gain)} that of CUDA cores and counts only right of that."
    )
