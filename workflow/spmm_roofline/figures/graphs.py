"""The graphs of TC-GNN, beside the paper's numbers
Rate over that of the best on scalar cores in FP32, a panel per width N; above 1 tensor cores win. Dashes are the
paper's own ratios for the same matrix and width, one for each of its tables, of which the second names an A100 (Xiang
et al. 2024, tables 3 and 4)."""

from __future__ import annotations

from .bars import PUBLISHED, grouped, middle
from .numbers import counted, times
from .pruned import means
from .sentences import population
from .style import INK, call, canvas

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 5, ("device", "suite", "l2")
PAPER = "tables 3 and 4"


def _shown(tables):
    rows = tables["published"]
    return rows[(rows["study"] == STUDY) & (rows["quantity"] == "over_best_sc")]


def draw(tables, styles):
    from matplotlib.lines import Line2D

    rows = _shown(tables)
    rows = rows[rows["kernel"].isin(styles)]
    if rows["matrix"].nunique() < 2:
        return None
    ran = set(rows["kernel"])
    matrices, kernels = sorted(rows["matrix"].unique()), [name for name in styles if name in ran]
    widths = sorted(rows["n"].unique())
    figure, axes = canvas(1, len(widths), 3.4, sharey=True)
    for ax, n in zip(axes, widths, strict=True):
        subset = rows[rows["n"] == n]
        ours = subset.pivot_table(index="matrix", columns="kernel", values="ours").reindex(
            index=matrices, columns=kernels
        )
        grouped(ax, ours, styles, tilted=True)
        for row in subset.itertuples():
            x = middle(ours, row.matrix, row.kernel)
            call(ax.plot(x, row.published, **PUBLISHED)[0], f"{row.kernel}, in the paper")
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(title=f"N = {n}")
    axes[0].set(ylabel="over the best on scalar cores")
    handles = [*axes[0].get_legend_handles_labels()[0], Line2D([], [], label="in the paper", **PUBLISHED)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def says(tables):
    # A case that is in several of the paper's tables counts once; a case that was not measured here does not count.
    rows = _shown(tables).dropna(subset="ours")
    if rows.empty:
        return ""
    rows = means(rows, "published", ["kernel", "matrix", "n", "ours"])
    said = []
    for kernel, subset in rows.groupby("kernel"):
        ours, theirs = (means(subset, name, ["kernel"])[name].item() for name in ("ours", "published"))
        said.append(
            f"{kernel} reaches {times(ours)} here and {times(theirs)} in the paper ({counted(len(subset), 'case')} on "
            f"{population(tables, subset['matrix'])})"
        )
    return (
        "Over the best on scalar cores, in the geometric mean of the cases that the paper's tables have too: "
        f"{', '.join(said)}."
    )
