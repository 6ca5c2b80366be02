"""The figure that opens the site: cuSPARSE, published kernels and the project's own under one roofline, drawn by
docs/evidence.py from the recorded rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spmm_roofline.figures import limits, style
from spmm_roofline.figures.labels import plain_log

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: The cases: every matrix of one suite at one width, in the class of FP32.
DEVICE, SUITE, N, PRECISIONS = "h100", "cutespmm", 128, ("float32", "tf32")
#: Side → its look; studies that are neither the library nor the project's own are published kernels.
SIDES: dict[str, dict[str, Any]] = {
    "fastest of cuSPARSE": {"color": "#8a919e", "marker": "s"},
    "fastest published kernel": {"color": style.STUDIES["sptc"], "marker": "^"},
    "fastest of ours": {"color": style.STUDIES["smat"], "marker": "o"},
}


def shown(cases: pd.DataFrame) -> pd.DataFrame:
    """The fastest row of each side for each matrix, if it is not noisy: ``side``, intensity and rate."""
    rows = cases[(cases["device"] == DEVICE) & (cases["suite"] == SUITE) & (cases["n"] == N)]
    rows = rows[(rows["status"] == "ok") & rows["precision"].isin(PRECISIONS)]
    library, published, own = SIDES
    side = rows["study"].map({"cusparse": library, "flagship": own}).fillna(published)
    rows = rows.assign(side=side).sort_values("time_ms").drop_duplicates(["matrix", "side"])
    return rows[~rows["noisy"].fillna(False).astype(bool)]


def draw(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """``tables``: those of the analysis."""
    rows = shown(tables["cases"])
    ceilings = tables["ceilings"][tables["ceilings"]["device"] == DEVICE]
    slopes, across = limits.slopes(ceilings), limits.levels(ceilings, *PRECISIONS)
    rates, intensity = rows["useful_gflops"], rows["intensity_flop_per_byte"]
    top, low = max(level.value for level in across), rates.min() / 2
    figure, (ax,) = style.canvas(1, 1, 4.4)
    reach = max(3 * top / min(slopes.values()), 4 * intensity.max())
    ax.set(xscale="log", yscale="log", xlim=(intensity.min() / 2, reach), ylim=(low, limits.highest(across, low, top)))
    ax.set(xlabel="compulsory intensity (FLOP/B)", ylabel="useful GFLOP/s")
    limits.name_slopes(figure, limits.lines(ax, slopes, across, top))
    sides: list[Line2D] = []
    for side, look in SIDES.items():
        of_side = rows[rows["side"] == side]
        x, y = of_side["intensity_flop_per_byte"], of_side["useful_gflops"]
        sides += ax.plot(x, y, linestyle="none", markersize=4.5, label=side, **look)
    for axis in (ax.xaxis, ax.yaxis):
        plain_log(axis)
    figure.legend(handles=sides, loc="outside lower center", ncols=len(SIDES))
    return figure
