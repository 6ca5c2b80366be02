"""Stencils on CUDA cores and on tensor cores
Updated points per second (GStencil/s) on the smaller and on the larger grid of each stencil; a kernel of several steps
counts the points of all steps. A series is one algorithm: one step at a time or several in one pass over memory
(blocked), on CUDA cores (cc) or tensor cores (tc), or coefficients as a sum of outer products (low rank). Zhang et al.
2025, figure 8, show EBISU and Brick on CUDA cores and ConvStencil and LoRAStencil on tensor cores, on an A100."""

from __future__ import annotations

from .bars import grouped
from .numbers import significant, times
from .sentences import population
from .style import canvas, timed

STUDY = "memory_bound"
SECTION, ORDER, PER = "study", 4, ("device", "suite", "l2")
PAPER = "figure 8"

#: Dimensions and points at the start of a matrix's name and at the end of a kernel's.
POINTS = r"[0-9]d[0-9]+pt"


def _shown(tables):
    """Rows of kernels made for the stencil of their matrix, with the stencil, the algorithm and the rate."""
    cases = timed(tables["cases"])
    rows = cases[(cases["study"] == STUDY) & (cases["kind"] == "grid") & (cases["n"] == 1)]
    rows = rows.assign(
        shape=rows["matrix"].str.extract(f"^({POINTS})", expand=False),
        made_for=rows["kernel"].str.extract(f"_({POINTS})$", expand=False),
        algorithm=rows["kernel"].str.replace(f"_{POINTS}$", "", regex=True),
        rate=1e-6 * rows["m"] / rows["time_ms"],
    ).dropna(subset="shape")
    # A kernel for a star of seven points can also run one of five; such rows are left out.
    return rows[rows["made_for"].isna() | (rows["made_for"] == rows["shape"])]


def _sizes(rows) -> dict:
    """Rows on the smaller and the larger grids of each stencil; only the larger if there is one grid."""
    largest = rows["m"] == rows.groupby("shape")["m"].transform("max")
    grids = {"smaller grid": rows[~largest], "larger grid": rows[largest]}
    return {name: subset for name, subset in grids.items() if len(subset)}


def draw(tables, styles):
    rows = _shown(tables)
    if rows["shape"].nunique() < 2:
        return None
    algorithms = sorted(rows["algorithm"].unique())
    looks = {name: styles[rows.loc[rows["algorithm"] == name, "kernel"].min()] for name in algorithms}
    order = rows.groupby("shape")["nnz"].max().index
    order = sorted(order, key=lambda name: (name.split("d")[0], int(name.split("d")[1].removesuffix("pt"))))
    grids = _sizes(rows)
    figure, axes = canvas(1, len(grids), 3.5, sharey=True)
    for ax, (name, subset) in zip(axes, grids.items(), strict=True):
        rates = subset.pivot_table(index="shape", columns="algorithm", values="rate", aggfunc="max")
        grouped(ax, rates.reindex(index=order, columns=algorithms), looks)
        ax.set(title=name)
    axes[0].set(ylabel="GStencil/s")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(algorithms))
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    tensor = set(tables["bounds"]["kernel"])
    best = rows.assign(tensor=rows["kernel"].isin(tensor)).sort_values(["time_ms", "kernel"])
    units = best.drop_duplicates(["matrix", "tensor"]).pivot(index="matrix", columns="tensor", values="time_ms")
    top = rows.loc[rows["rate"].idxmax()]
    said = f"Highest rate: {significant(top['rate'])} GStencil/s by {top['kernel']} on {top['matrix']}."
    if not {True, False} <= set(units.columns):
        return said
    gain = (units[False] / units[True]).dropna()
    if gain.empty:
        return said
    ends = f"{times(gain.min())} ({gain.idxmin()}) to {times(gain.max())} ({gain.idxmax()})"
    return (
        f"Tensor cores are faster than the fastest on CUDA cores on {int((gain > 1).sum())} of "
        f"{population(tables, gain.index)}, and reach {ends if len(gain) > 1 else times(gain.max())} its rate. {said}"
    )
