"""The matrices
Left: rows and mean non-zeros of a row. Right: fill of the 16×16 tiles that hold a non-zero, the structure on which
tensor-core kernels depend: 6 % is one non-zero a tile row, 100 % a dense tile. A colour is a kind of matrix."""

from __future__ import annotations

from .numbers import counted, percent, significant
from .style import canvas, plain_log

SECTION, PLACE, PER = "matrices", 1, ()


def _kinds(matrices) -> dict[str, str]:
    import seaborn as sns

    kinds = sorted(matrices["kind"].unique())
    colours = [*sns.color_palette("colorblind", 10).as_hex(), *sns.color_palette("dark", 10).as_hex()]
    return {kind: colours[number % len(colours)] for number, kind in enumerate(kinds)}


def draw(tables, styles):
    matrices = tables["matrices"]
    matrices = matrices[(matrices["m"] > 0) & (matrices["nnz"] > 0)]
    if matrices.empty:
        return None
    colours = _kinds(matrices)
    few = len(matrices) <= 40
    figure, (plane, fill) = canvas(1, 2, 1.2 + max(2.6, 0.19 * len(matrices) if few else 3.4))
    for kind, part in matrices.groupby("kind"):
        plane.scatter(
            part["m"], part["row_length_mean"], s=26, color=colours[kind], linewidth=0, alpha=0.85, label=kind
        )
    plane.set(xscale="log", yscale="log", xlabel="rows", ylabel="mean non-zeros of a row")
    plane.set_xlim(matrices["m"].min() / 2, matrices["m"].max() * 2)
    plain_log(plane.xaxis)
    plain_log(plane.yaxis)
    percentages = 100 * matrices.set_index("matrix")["tile_fill_16x16_fraction"].sort_values()
    kind_of = matrices.set_index("matrix")["kind"]
    if few:
        fill.barh(
            percentages.index, percentages, color=[colours[kind_of[name]] for name in percentages.index], height=0.62
        )
        fill.grid(axis="y", visible=False)
    else:
        groups = [percentages[kind_of[percentages.index] == kind] for kind in colours]
        fill.hist(groups, bins=20, range=(0, 100), stacked=True, color=list(colours.values()))
        fill.set(ylabel="matrices")
    fill.set(xlabel="fill of the 16×16 tiles (%)")
    figure.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=min(6, len(colours)))
    return figure


def says(tables):
    matrices = tables["matrices"]
    fill = matrices.set_index("matrix")["tile_fill_16x16_fraction"]
    return (
        f"{counted(len(matrices), 'matrix', 'matrices')} of {counted(matrices['kind'].nunique(), 'kind')}, with "
        f"{significant(matrices['nnz'].min())} to {significant(matrices['nnz'].max())} non-zeros; the tiles are "
        f"filled from {percent(fill.min())} ({fill.idxmin()}) to {percent(fill.max())} ({fill.idxmax()}), "
        f"{percent(fill.median())} in the median."
    )
