"""The ladder of kernels over the width of B
Rate of each kernel over the width N of B (8·N_MULT in the thesis) on a matrix whose 16×32 tiles are all 2:4; both
axes are logarithmic. All kernels are credited with the stored 16×16 tiles and accumulate in FP16, except the
libraries, dashed, which add in FP32 (Mistry 2025, figure 3.5, which does not give the size of the matrix)."""

from __future__ import annotations

from .labels import label_ends, plain_log
from .numbers import counted, significant, times
from .sentences import lead, population
from .style import LIBRARIES, canvas
from .tiles import libraries, lines, looks, rated

STUDY = "sptc"
SECTION, ORDER, PER = "study", 2, ("device", "suite", "l2")
PAPER = "figure 3.5"

#: Slots of a tile, and the smallest number of widths that is drawn as a curve.
TILE, LEAST_WIDTHS = 16 * 32, 4


def _shown(tables):
    """Rows on the largest matrix whose tiles are all 2:4 and not zero."""
    rows = rated(tables)
    known = tables["matrices"].drop_duplicates("matrix")
    slots = known["m"].astype("float64") * known["k"]
    full = known[(known["tile_24_16x32_fraction"] == 1) & (TILE * known["tiles_16x32"] >= slots) & (slots > 0)]
    rows = rows[rows["matrix"].isin(full["matrix"])]
    if rows.empty:
        return rows
    rows = rows[rows["matrix"] == rows.sort_values(["m", "matrix"], ascending=[False, True])["matrix"].iloc[0]]
    return rows if rows["n"].nunique() >= LEAST_WIDTHS else rows.head(0)


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    figure, (ax,) = canvas(1, 1, 4.2)
    own = looks(tables, rows, styles)
    lines(ax, rows, "n", own)
    widths = sorted(rows["n"].unique())
    ax.set(xscale="log", yscale="log", xlabel="N", ylabel="TFLOP/s", title=rows["matrix"].iloc[0])
    plain_log(ax.xaxis, ticks=widths)
    ax.set_xticks(widths, labels=[str(n) for n in widths])
    plain_log(ax.yaxis)
    last = rows[rows["n"] == widths[-1]].set_index("kernel")["tflops"]
    ax.set_xlim(right=widths[-1] * 1.05)
    label_ends(ax, last[[kernel for kernel in own if kernel in last]], own, 3.5)
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[~rows["study"].isin(LIBRARIES)].sort_values(["time_ms", "kernel"])
    if own.empty:
        return ""
    best = own.drop_duplicates("n").sort_values("n")
    first, last = best.iloc[0], best.iloc[-1]
    rivals = rows[rows["study"].isin(LIBRARIES) & (rows["n"] == last["n"])].sort_values(["time_ms", "kernel"])
    over = ""
    if len(rivals):
        fastest = rivals.head(1)
        over = f", {times(fastest['time_ms'].item() / last['time_ms'])} the rate of {libraries(fastest)}"
        over += f", the fastest of {len(rivals)} libraries" if len(rivals) > 1 else ""
    winner = lead(best["kernel"].value_counts(), "the fastest of the ladder (FP16 sums) at")
    return (
        f"On {population(tables, rows['matrix'])}, {rows['matrix'].iloc[0]}, {winner} of "
        f"{counted(len(best), 'width')}; the fastest reaches {significant(first['tflops'])} TFLOP/s at "
        f"N = {first['n']} ({first['kernel']}) and {significant(last['tflops'])} TFLOP/s at N = {last['n']} "
        f"({last['kernel']}){over}."
    )
