"""Ceilings of double precision and what is computed below them
The roofline of this device in float64 with the ceilings of CUDA cores and of tensor cores, measured where the line is
solid and from the datasheet where it is dashed. Each vertical line is a kind of product at its compulsory intensity.
Left of the machine balance of CUDA cores, memory is the bound and a higher ceiling cannot help (Zhang et al. 2025,
figure 2, which counts one operation per element of SCALE where this report counts two)."""

from __future__ import annotations

from . import limits
from .labels import plain_log
from .numbers import counted, listed, significant, times
from .sentences import population
from .style import INK, call, canvas, timed

STUDY = "memory_bound"
SECTION, ORDER, PER = "study", 1, ("device",)
PAPER = "figure 2 and section 2.5"

POINTS = r"^([0-9]d[0-9]+pt)"


def _products(tables):
    """Verified products with one column in float64; the column ``product`` names the kind."""
    cases = timed(tables["cases"])
    rows = cases[(cases["study"] == STUDY) & (cases["n"] == 1) & (cases["precision"] == "float64")]
    names = rows["matrix"].str.extract(POINTS, expand=False)
    names = names.where(rows["kind"] == "grid").fillna(rows["kind"].map({"diagonal": "SCALE"})).fillna("SpMV")
    return rows.assign(product=names)


def _shown(tables):
    """Median compulsory intensity of each kind of product over its matrices, in FLOP/B, the lowest first."""
    rows = _products(tables).drop_duplicates(["product", "matrix"])
    return rows.groupby("product")["intensity_flop_per_byte"].median().sort_values()


def _knee(tables):
    """Machine balance of CUDA cores, the ceiling of tensor cores over theirs, and the labels of those two ceilings that
    only the datasheet gives."""
    across = limits.levels(tables["ceilings"], "float64")
    slope = limits.slopes(tables["ceilings"]).get("dram")
    cuda = max((level for level in across if "CUDA" in level.label), key=lambda level: level.value, default=None)
    tensor = max((level for level in across if "CUDA" not in level.label), key=lambda level: level.value, default=None)
    if not slope or cuda is None or tensor is None:
        return None
    told = [level.label for level in (cuda, tensor) if not level.measured]
    return cuda.value / slope, tensor.value / cuda.value, told


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
    limits.name_slopes(figure, limits.lines(ax, slopes, across, top))
    for name, value in intensities.items():
        line = ax.vlines(value, floor, min(top, value * slopes["dram"]), color=INK, linewidth=0.9, linestyle=":")
        call(line, name)
        ax.annotate(
            name,
            (value, floor),
            (-1, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            rotation=90,
            fontsize=7.5,
        )
    plain_log(ax.xaxis, room=9)
    plain_log(ax.yaxis, room=6)
    return figure


def says(tables):
    intensities, known = _shown(tables), _knee(tables)
    if intensities.empty or known is None:
        return ""
    knee, gain, told = known
    memory = int((intensities < knee).sum())
    products = counted(len(intensities), "kind", "kinds")
    beyond = f"above {significant(knee)} FLOP/B, which is {len(intensities) - memory} of these"
    counts = f"and can help only products {beyond}" if gain > 1 else "and helps no product"
    datasheet = f" The ceiling of {listed(told)} was not measured and is the datasheet's." if told else ""
    return (
        f"DRAM and CUDA cores meet at {significant(knee)} FLOP/B. Memory binds {memory} of {products} of product on "
        f"{population(tables, _products(tables)['matrix'])}; the highest intensity is "
        f"{significant(intensities.iloc[-1])} FLOP/B ({intensities.index[-1]}). The ceiling of tensor cores is "
        f"{times(gain)} that of CUDA cores {counts}.{datasheet}"
    )
