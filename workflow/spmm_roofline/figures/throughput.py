"""Throughput of every kernel on every matrix
Useful rate, 2·nnz·N over the median time of one call: stored zeros do not count, so the rate of a kernel that pads is
what a user gets. One panel a width N of B; further right is faster. Grey stands for cuSPARSE, the best of its variants
case by case; a hue is a study. Collections of more than 40 matrices are shown as distributions (median, quartiles,
5th to 95th percentile)."""

from __future__ import annotations

from .numbers import counted, percent, rate
from .style import canvas, legend, marks, plain_log, short_names, without_variants

SECTION, PLACE, PER = "suite", 1, ("device", "suite", "l2", "precision")


def _shown(tables):
    cases = tables["cases"]
    rows = without_variants(cases[cases["status"] == "ok"])
    # One kernel alone is no comparison; its rates stand in the table of all rows.
    return rows if rows["kernel"].nunique() > 1 else rows.head(0)


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    matrices = list(rows.groupby("matrix")["useful_gflops"].max().sort_values().index)
    many = len(matrices) > 40
    kernels = [name for name in styles if (rows["kernel"] == name).any()]
    labels = kernels[::-1] if many else matrices
    height = 1.3 + 0.24 * max(3, len(labels)) + 0.2 * (len(kernels) // 5)
    figure, axes = canvas(1, len(widths), height, sharey=True, sharex=True)
    for ax, n in zip(axes, widths, strict=True):
        part = rows[rows["n"] == n]
        if many:
            groups = [part.loc[part["kernel"] == kernel, "useful_gflops"].to_numpy() for kernel in labels]
            boxes = ax.boxplot(
                groups, positions=range(len(labels)), orientation="horizontal", widths=0.6, whis=(5, 95),
                patch_artist=True, showfliers=False, manage_ticks=False,
            )  # fmt: skip
            for box, median, kernel in zip(boxes["boxes"], boxes["medians"], labels, strict=True):
                box.set(facecolor=styles[kernel]["color"], alpha=0.75)
                median.set(color="black", linewidth=1.2)
        else:
            spread = part.groupby("matrix")["useful_gflops"].agg(["min", "max"])
            places = [matrices.index(matrix) for matrix in spread.index]
            ax.hlines(places, spread["min"], spread["max"], color="#9aa0aa", linewidth=0.8, zorder=1)
            for kernel, of_kernel in part.groupby("kernel"):
                y = [matrices.index(matrix) for matrix in of_kernel["matrix"]]
                marks(ax, of_kernel["useful_gflops"], y, s=26, zorder=2, **styles[kernel])
        ax.set(xscale="log", title=f"N = {n}", xlabel="useful GFLOP/s", ylim=(-0.6, len(labels) - 0.4))
        ax.set_yticks(range(len(labels)), short_names(labels))
    for ax in axes:
        plain_log(ax.xaxis)
    if not many:
        legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    top = rows.loc[rows["useful_gflops"].idxmax()]
    cases = rows.sort_values(["time_ms", "kernel"]).drop_duplicates(["matrix", "n"])
    leader = cases["kernel"].value_counts()
    name = sorted(leader[leader == leader.max()].index)[0]
    return (
        f"{name} is the fastest in {percent(leader[name] / len(cases))} of {counted(len(cases), 'case')}; the highest "
        f"rate is {rate(top['useful_gflops'])}, by {top['kernel']} on {top['matrix']} at N = {top['n']}."
    )
