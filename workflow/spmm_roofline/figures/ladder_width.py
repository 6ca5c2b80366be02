"""The ladder of kernels over the width of B
Rate of each kernel on a matrix all of whose 16×32 tiles are 2:4, over the width N of B, 8·N_MULT in the thesis; both
axes are logarithmic. All kernels are credited with the stored 16×16 tiles and accumulate in FP16, but for the
libraries, dashed (Mistry 2025, figure 3.5, which does not give the size of the matrix)."""

from __future__ import annotations

from .numbers import counted, significant, times
from .style import LIBRARIES, canvas, legend, plain_log
from .tiles import lines, looks, rated

STUDY = "sptc"
SECTION, PLACE, PER = "study", 2, ("device", "suite", "l2")

#: Slots of a tile, and the widths that are a curve.
TILE, LEAST_WIDTHS = 16 * 32, 4


def _shown(tables):
    """Rows on the largest matrix without a tile of zeros that is made of 2:4 tiles."""
    rows = rated(tables)
    known = tables["matrices"].drop_duplicates("matrix")
    slots = known["m"].astype("float64") * known["k"]
    full = known[(known["tile_24_16x32_fraction"] == 1) & (TILE * known["tiles_16x32"] >= slots) & (slots > 0)]
    rows = rows[rows["matrix"].isin(full["matrix"])]
    rows = rows[rows["m"] == rows["m"].max()]
    return rows if rows["n"].nunique() >= LEAST_WIDTHS else rows.head(0)


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    figure, (ax,) = canvas(1, 1, 4.6)
    own = looks(tables, rows, styles)
    lines(ax, rows, "n", own)
    widths = sorted(rows["n"].unique())
    ax.set(xscale="log", yscale="log", xlabel="N", ylabel="TFLOP/s", title=rows["matrix"].iloc[0])
    plain_log(ax.xaxis, ticks=widths)
    ax.set_xticks(widths, labels=[str(n) for n in widths])
    plain_log(ax.yaxis)
    legend(figure, own, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[~rows["study"].isin(LIBRARIES)].sort_values(["time_ms", "kernel"])
    best = own.drop_duplicates("n").sort_values("n")
    leaders = best["kernel"].value_counts().sort_index().sort_values(kind="stable")
    first, last = best.iloc[0], best.iloc[-1]
    library = rows[rows["study"].isin(LIBRARIES)].groupby("n")["time_ms"].min()
    over = f", {times(library[last['n']] / last['time_ms'])} the rate of the libraries" if last["n"] in library else ""
    return (
        f"{leaders.index[-1]} is the fastest of the ladder at {leaders.iloc[-1]} of {counted(len(best), 'width')}; the "
        f"fastest reaches {significant(first['tflops'])} TFLOP/s at N = {first['n']} ({first['kernel']}) and "
        f"{significant(last['tflops'])} TFLOP/s at N = {last['n']} ({last['kernel']}){over}."
    )
