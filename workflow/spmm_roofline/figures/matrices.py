"""The matrices
Left: rows and mean non-zeros of a row. Right: fill of the 16×16 tiles that hold a non-zero, the structure on which
tensor-core kernels depend: 6 % is one non-zero per tile row, 100 % a dense tile. Each combination of colour and marker
is a kind of matrix."""

from __future__ import annotations

from .labels import plain_log, short_names
from .numbers import counted, percent
from .sentences import population
from .style import HUES, MARKERS, canvas

SECTION, ORDER, PER = "matrices", 1, ()


def _kinds(matrices) -> dict[str, dict]:
    """Kind → colour and marker; a hue that repeats has another marker."""
    kinds = sorted(matrices["kind"].unique())
    return {
        kind: {"color": HUES[number % len(HUES)], "marker": MARKERS[number % 6 + number // len(HUES) % 2 * 6]}
        for number, kind in enumerate(kinds)
    }


def draw(tables, styles):
    matrices = tables["matrices"]
    matrices = matrices[(matrices["m"] > 0) & (matrices["nnz"] > 0) & matrices["tile_fill_16x16_fraction"].notna()]
    if matrices.empty:
        return None
    looks = _kinds(matrices)
    few = len(matrices) <= 40
    lines = list(matrices.sort_values("tile_fill_16x16_fraction")["matrix"]) if few else [*looks][::-1]
    figure, (plane, fill) = canvas(1, 2, 1.0 + max(2.6, 0.19 * len(lines)) + 0.2 * few)
    for kind, subset in matrices.groupby("kind"):
        look = {"s": 26, "linewidth": 0, "label": kind} | looks[kind]
        plane.scatter(subset["m"], subset["row_length_mean"], **look)
        if few:
            heights: list[float] = [lines.index(name) for name in subset["matrix"]]
        else:
            heights = [lines.index(kind) + 0.08 * (rank * 3 % 7 - 3) for rank in range(len(subset))]
        fill.scatter(100 * subset["tile_fill_16x16_fraction"], heights, zorder=3, **look)
    plane.set(xscale="log", yscale="log", xlabel="rows", ylabel="mean non-zeros of a row")
    plane.set_xlim(matrices["m"].min() / 2, matrices["m"].max() * 2)
    plain_log(plane.xaxis)
    plain_log(plane.yaxis)
    fill.set_yticks(range(len(lines)), short_names(lines))
    fill.set(xlim=(-2, 102), ylim=(-0.6, len(lines) - 0.4), xlabel="fill of the 16×16 tiles (%)")
    if few:
        figure.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=min(6, len(looks)))
    return figure


def says(tables):
    matrices = tables["matrices"]
    matrices = matrices[(matrices["m"] > 0) & (matrices["nnz"] > 0) & matrices["tile_fill_16x16_fraction"].notna()]
    if matrices.empty:
        return ""
    fill = matrices.set_index("matrix")["tile_fill_16x16_fraction"]
    low, high = (f"{int(count):,}" for count in (matrices["nnz"].min(), matrices["nnz"].max()))
    sizes = low if low == high else f"{low} to {high}"
    filled = (
        f"is {percent(fill.max())}"
        if len(fill) == 1
        else f"lies between {percent(fill.min())} ({fill.idxmin()}) and {percent(fill.max())} ({fill.idxmax()}), "
        f"{percent(fill.median())} in the median"
    )
    without = int((tables["matrices"]["nnz"] == 0).sum())
    dropped = f" {without:,} without entries {'is' if without == 1 else 'are'} not drawn." if without else ""
    return (
        f"{population(tables, matrices['matrix'])} of {counted(matrices['kind'].nunique(), 'kind')}, with "
        f"{sizes} non-zeros; the mean fill of the tiles of a matrix {filled}.{dropped}"
    )
