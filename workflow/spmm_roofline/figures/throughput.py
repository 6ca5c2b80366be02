"""Throughput of every kernel on every matrix
Useful rate, 2·nnz·N over the median time of one call. Stored zeros do not count, so the rate of a kernel that pads is
what a user gets. Each panel is a width N of B; further right is faster. Grey is cuSPARSE, the fastest of its CSR and
COO algorithms case by case; a hue is a study, and in the row of a matrix each study has its own height. Collections of
more than 40 matrices are shown as distributions (median, quartiles, 5th to 95th percentile)."""

from __future__ import annotations

from .labels import plain_log, short_names
from .numbers import counted, rate
from .sentences import lead, named, population
from .style import INK, LIBRARIES, canvas, legend, marks, timed, without_variants

SECTION, ORDER, PER = "suite", 1, ("device", "suite", "l2", "precision")


def _shown(tables):
    rows = without_variants(timed(tables["cases"]))
    # One kernel alone is no comparison; its rates are in the table of all rows.
    return rows if rows["kernel"].nunique() > 1 else rows.head(0)


def draw(tables, styles):
    rows = _shown(tables)[["matrix", "n", "study", "kernel", "useful_gflops"]]
    if rows.empty:
        return None
    widths = sorted(rows["n"].unique())
    matrices = list(rows.groupby("matrix")["useful_gflops"].max().sort_values().index)
    row_of = {matrix: number for number, matrix in enumerate(matrices)}
    many, alone = len(matrices) > 40, len(matrices) == 1
    ran = set(rows["kernel"])
    kernels = [name for name in styles if name in ran]
    labels = kernels[::-1] if many or alone else matrices
    lanes = _lanes(rows, styles)
    row = 0.24 if many or alone else 0.14 + 0.055 * (1 + max(lanes.values()))
    height = 1.3 + row * max(3, len(labels)) + 0.2 * (len(kernels) // 5)
    figure, axes = canvas(1, len(widths), height, sharey=True, sharex=True)
    # Once for all axes, which share both: repeating it for each would take a fifth of the time.
    axes[0].set(xscale="log", ylim=(-0.6, len(labels) - 0.4))
    axes[0].set_yticks(range(len(labels)), short_names(labels))
    for ax, n in zip(axes, widths, strict=True):
        subset = rows[rows["n"] == n]
        if alone:
            for kernel, of_kernel in subset.groupby("kernel"):
                look = {"s": 26, "zorder": 2, "label": kernel} | styles[kernel]
                marks(ax, of_kernel["useful_gflops"], labels.index(kernel), **look)
        elif many:
            rates = dict(list(subset.groupby("kernel")["useful_gflops"]))
            groups = [rates.get(kernel, ()) for kernel in labels]
            boxes = ax.boxplot(
                groups, positions=range(len(labels)), orientation="horizontal", widths=0.6, whis=(5, 95),
                patch_artist=True, showfliers=False, manage_ticks=False,
            )  # fmt: skip
            for box, median, kernel in zip(boxes["boxes"], boxes["medians"], labels, strict=True):
                box.set(facecolor=styles[kernel]["color"], edgecolor=INK)
                median.set(color=INK, linewidth=1.2, label=f"{kernel}, median")
            for number, line in enumerate([*boxes["whiskers"], *boxes["caps"]]):  # two of each for a box
                line.set(color=INK, label=f"{labels[number // 2 % len(labels)]}, quartile to end")
        else:
            spread = subset.groupby("matrix")["useful_gflops"].agg(["min", "max"])
            positions = [row_of[matrix] for matrix in spread.index]
            ends = {"color": "#90949f", "linewidth": 0.8, "zorder": 1, "label": "slowest to fastest"}
            ax.hlines(positions, spread["min"], spread["max"], **ends)
            for kernel, of_kernel in subset.groupby("kernel"):
                lane = 0.7 * ((lanes[kernel] + 0.5) / (1 + max(lanes.values())) - 0.5)
                y = [row_of[matrix] - lane for matrix in of_kernel["matrix"]]
                marks(ax, of_kernel["useful_gflops"], y, s=24, zorder=2, label=kernel, **styles[kernel])
        ax.set(title=f"N = {n}")
    plain_log(axes[0].xaxis)
    if many or alone:
        figure.supxlabel(f"useful GFLOP/s{f' on {matrices[0]}' if alone else ''}")
    else:
        for ax in axes:
            ax.set(xlabel="useful GFLOP/s")
        legend(figure, styles, rows["kernel"])
    return figure


def _lanes(rows, styles) -> dict[str, int]:
    """Kernel → the number of its study's line in the row of a matrix, from the top; all libraries have the first."""
    studies = rows.drop_duplicates("kernel").set_index("kernel")["study"]
    groups = {kernel: "" if studies[kernel] in LIBRARIES else studies[kernel] for kernel in styles if kernel in studies}
    order = list(dict.fromkeys(groups.values()))
    return {kernel: order.index(group) for kernel, group in groups.items()}


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    name = named(tables)
    top = rows.loc[rows["useful_gflops"].idxmax()]
    cases = rows.sort_values(["time_ms", "kernel"]).drop_duplicates(["matrix", "n"])
    return (
        f"{lead(cases['kernel'].value_counts(), 'the fastest in', name)} of {counted(len(cases), 'case')} on "
        f"{population(tables, rows['matrix'])}; the highest rate is {rate(top['useful_gflops'])}, by "
        f"{name(top['kernel'])} on {top['matrix']} at N = {top['n']}."
    )
