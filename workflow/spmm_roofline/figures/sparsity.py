"""Speed-up over sparsity and over sequence length
Pruned weights: geometric mean of the speed-up over the best of cuSPARSE over the methods of pruning. Left: over the
sparsity at the largest N. Right: over N, the length of the sequence, at the lowest sparsity. Thin and dashed: what the
thesis of the attention kernels prints of its own GPU, over cuSPARSE as it was called there."""

from __future__ import annotations

from .numbers import percent, times
from .style import INK, canvas, legend, plain_log

SECTION, PLACE, PER = "suite", 10, ("device", "suite", "l2", "precision")

#: Model, method and sparsity in the name of a pruned matrix.
NAME = r"^[^-]+-(?P<method>[^-]+)-(?P<sparsity>[0-9.]+)(?:-|$)"


def _means(rows, value):
    """Geometric means over the methods, by kernel, sparsity and N."""
    import numpy as np

    parts = rows["matrix"].str.extract(NAME)
    rows = rows.assign(sparsity=parts["sparsity"].astype(float), log=np.log(rows[value].astype(float)))
    means = rows.dropna(subset="sparsity").groupby(["kernel", "sparsity", "n"], as_index=False)["log"].mean()
    return means.assign(speedup=np.exp(means["log"]))


def _shown(tables):
    cases = tables["cases"]
    rows = cases[(cases["kind"] == "pruned") & cases["speedup"].notna() & (cases["study"] != "cusparse")]
    return _means(rows, "speedup") if rows["matrix"].str.match(NAME).any() else rows.head(0)


def draw(tables, styles):
    means = _shown(tables)
    if means.empty or means["sparsity"].nunique() < 2:
        return None
    paper = tables["published"]
    paper = paper[(paper["quantity"] == "over_cusparse") & paper["kernel"].isin(means["kernel"])]
    paper = _means(paper, "published") if len(paper) else means.head(0)
    longest, densest = means["n"].max(), means["sparsity"].min()
    figure, (over_sparsity, over_n) = canvas(1, 2, 4.2, sharey=True)
    for kernel in styles:
        for table, line in ((means, {"linewidth": 1.8}), (paper, {"linewidth": 0.9, "linestyle": "--"})):
            own = table[table["kernel"] == kernel]
            look = {"color": styles[kernel]["color"], **line}
            if "linestyle" not in line:
                look |= {"marker": styles[kernel]["marker"], "markersize": 5, "markeredgewidth": 0}
            part = own[own["n"] == longest]
            over_sparsity.plot(100 * part["sparsity"], part["speedup"], **look)
            part = own[own["sparsity"] == densest]
            over_n.plot(part["n"], part["speedup"], **look)
    for ax in (over_sparsity, over_n):
        ax.axhline(1, color=INK, linewidth=1, zorder=1)
        ax.set(yscale="log")
    over_sparsity.set(xlabel="sparsity (%)", ylabel="speed-up over cuSPARSE", title=f"N = {longest}")
    over_n.set(xscale="log", xlabel="N", title=f"sparsity {percent(densest)}")
    widths = sorted(means["n"].unique())
    plain_log(over_n.xaxis, ticks=widths)
    over_n.set_xticks(widths, labels=[str(n) for n in widths])
    plain_log(over_sparsity.yaxis, room=6)
    legend(figure, styles, means["kernel"])
    return figure


def says(tables):
    means = _shown(tables)
    longest = means[means["n"] == means["n"].max()]
    said = []
    for sparsity in (longest["sparsity"].min(), longest["sparsity"].max()):
        best = longest[longest["sparsity"] == sparsity].sort_values(["speedup", "kernel"]).iloc[-1]
        said.append(f"at {percent(sparsity)} it is {best['kernel']} with {times(best['speedup'])}")
    return f"The fastest of these kernels at N = {means['n'].max()}: {said[0]}; {said[1]} over the best of cuSPARSE."
