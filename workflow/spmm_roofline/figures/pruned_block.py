"""When pruned weights pay in a whole attention layer
Time of a layer with sparse projections over that of the dense layer, from input to output: projections, attention, and
any transpositions that kernels of sparse weights need. A line is a sparsity of the weights, a panel a dtype and a
batch; both axes are logarithmic. Below 1 the sparse layer is faster. To the right the lines approach 1, because the
attention between the projections grows with the square of the length. The dense layer is PyTorch's, the sparse one
multiplies by SpMM; where that takes the dense product, both layers do the same work, and the ratio only says how far
two measurements differ. At each length the lines of a panel share one time of the dense layer: where it is too long or
too short, they all lie off 1 together. The table has the other implementations."""

from __future__ import annotations

from .labels import fitting, plain_log
from .numbers import PRECISIONS, counted, listed, percent, times
from .quantities import span
from .style import INK, panels

SECTION, ORDER, PER = "blocks", 1, ("device",)
#: Our implementation, and what the names of dense products begin with.
OURS, DENSE = "ours", "cublas"
#: Hues from cold to warm, for sparsities in ascending order.
TONES = ("#0072b2", "#2f9cd4", "#009e73", "#b8860b", "#cc79a7", "#d1265c", "#a0522d")


def _shown(tables):
    """Our rows with a dense row beside them; of suites with the same case, the first."""
    rows = tables["blocks"]
    rows = rows[(rows["block"] == "pruned") & (rows["implementation"] == OURS) & rows["over_baseline"].notna()]
    # A layer that was pruned is shown, not its stand-in.
    first = rows.sort_values("suite")["suite"].head(1)
    return rows[rows["suite"].isin(first)].sort_values(["sparsity_fraction", "sequence"])


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    found = [
        (precision, batch)
        for batch in sorted(rows["batch"].unique())
        for precision in PRECISIONS
        if ((rows["precision_class"] == precision) & (rows["batch"] == batch)).any()
    ]
    figure, axes = panels(len(found), 3, 2.3, 0.5, sharex=True, sharey=True)
    layers = rows.drop_duplicates("pattern")
    tones = {name: TONES[number % len(TONES)] for number, name in enumerate(layers["pattern"])}
    for ax, (precision, batch) in zip(axes, found, strict=True):
        own = rows[(rows["precision_class"] == precision) & (rows["batch"] == batch)]
        for layer in layers.itertuples():
            line = own[own["pattern"] == layer.pattern]
            ax.plot(
                line["sequence"], line["over_baseline"], color=tones[layer.pattern], marker="o", markersize=3,
                linewidth=1.3, label=f"{100 * layer.sparsity_fraction:.0f} %",
            )  # fmt: skip
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(xscale="log", yscale="log", title=f"{PRECISIONS[precision]}, batch {batch}")
        ax.set(xlabel="length of the sequence", ylabel="sparse / dense (time of the layer)")
        ax.label_outer()
    plain_log(axes[0].yaxis, room=6)
    lengths = sorted(rows["sequence"].unique())
    for ax in axes:
        fitting(ax.xaxis, [lengths[::step] for step in (1, 2, 4)], "{:,.0f}".format)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), title="sparsity of the weights")
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    dense = rows["kernel"].fillna("").map(lambda names: all(name.startswith(DENSE) for name in names.split(", ")))
    wins = rows[(rows["over_baseline"] < 1) & ~dense]
    said = [f"Pruning pays in {len(wins)} of {counted(len(rows), 'case')}"]
    if len(wins):
        best = wins.loc[wins["over_baseline"].idxmin()]
        where = [
            f"{PRECISIONS[name]} from {percent(own['sparsity_fraction'].min())}"
            for name, own in wins.groupby("precision_class", sort=True)
        ]
        said.append(
            f": {listed(where)} sparsity on. At best the sparse layer takes {times(best['over_baseline'])} the time of "
            f"the dense one, at {percent(best['sparsity_fraction'])} sparsity, {PRECISIONS[best['dtype']]}, batch "
            f"{best['batch']} and length {best['sequence']:,}"
        )
    if dense.any():
        said.append(
            f". In {dense.sum()} SpMM takes the dense product, and the same work, measured again, takes "
            f"{span(rows.loc[dense, 'over_baseline'], times)} the time"
        )
    longest = rows[rows["sequence"] == rows["sequence"].max()]
    share = (longest["projections_ms"] / longest["time_ms"]).median()
    said.append(
        f". At length {longest['sequence'].iloc[0]:,} the projections take {percent(share)} of the sparse layer in the "
        "median."
    )
    return "".join(said)
