"""What a sparse mask saves in attention
Time of attention against the length of the sequence, a panel a mask; both axes are logarithmic. Ours computes the
scores of the mask and those that share a block with one. PyTorch computes the same with the mask as an operand (SDPA
with mask), which computes every score, and, if measured, with compiled flex_attention. SDPA without a mask computes
another result, attention to everything: its time is the price of not using the mask. Dotted: no implementation of the
mask can be faster, by the bytes of Q, K, V, O and the mask and the rate of DRAM, or by the flops of the scores in the
mask and the ceiling of mma. One dtype and width of a head are drawn; the table has the others."""

from __future__ import annotations

from .labels import fitting, plain_log
from .numbers import PRECISIONS, counted, percent, times
from .style import INK, panels

SECTION, ORDER, PER = "blocks", 2, ("device",)

#: Implementation → its name and look.
LOOKS = {
    "ours": ("ours", {"color": "#d1265c", "marker": "o"}),
    "sdpa_mask": ("SDPA with mask", {"color": "#0072b2", "marker": "s"}),
    "flex": ("flex_attention", {"color": "#009e73", "marker": "^"}),
    "flash": ("SDPA without mask", {"color": "#8a8f98", "marker": "D"}),
}


def _shown(tables):
    """Rows with a time, of one dtype, width, batch and suite: FP16 and narrow heads if they were measured."""
    rows = tables["blocks"]
    rows = rows[(rows["block"] == "masked") & rows["time_ms"].notna()]
    rows = rows.assign(rank=[[*PRECISIONS].index(dtype) for dtype in rows["dtype"]])
    for column in ("suite", "rank", "head_width", "batch"):
        rows = rows[rows[column] == rows[column].min()] if len(rows) else rows
    return rows.sort_values("sequence")


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    masks = sorted(rows["pattern"].unique())
    figure, axes = panels(len(masks), 3, 2.0, 0.7, sharex=True, sharey=True)
    for ax, mask in zip(axes, masks, strict=True):
        own = rows[rows["pattern"] == mask]
        for name, (label, look) in LOOKS.items():
            line = own[own["implementation"] == name]
            if len(line):
                ax.plot(line["sequence"], line["time_ms"], markersize=3, linewidth=1.3, label=label, **look)
        bound = own.dropna(subset=["bound_ms"]).drop_duplicates("sequence")
        if len(bound):
            ax.plot(bound["sequence"], bound["bound_ms"], ":", color=INK, linewidth=1.2, label="bound")
        ax.set(xscale="log", yscale="log", title=mask)
        ax.set(xlabel="length of the sequence", ylabel="time (ms)")
        ax.label_outer()
    plain_log(axes[0].yaxis, room=6)
    lengths = sorted(rows["sequence"].unique())
    for ax in axes:
        fitting(ax.xaxis, [lengths[::step] for step in (1, 2, 4)], "{:,.0f}".format)
    known = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend([*known.values()], [*known], loc="outside lower center", ncols=len(known))
    return figure


def says(tables):
    import numpy as np

    rows = _shown(tables)
    case = ["pattern", "sequence"]
    beside = rows.pivot_table(index=case, columns="implementation", values="time_ms")
    if "ours" not in beside:
        return ""
    first = rows.iloc[0]
    about = f"{PRECISIONS[first['dtype']]}, heads of {first['head_width']}"
    said = []
    for name, words in (("sdpa_mask", "SDPA with the mask"), ("flash", "SDPA without it")):
        if name in beside and len(ratio := (beside[name] / beside["ours"]).dropna()):
            mean = float(np.exp(np.log(ratio).mean()))
            least = f"{ratio.idxmin()[0]} at {ratio.idxmin()[1]:,}"
            said.append(
                f"{times(mean)} as fast as {words} in the geometric mean of {counted(len(ratio), 'case')} (faster in "
                f"{int((ratio > 1).sum())}; {times(float(ratio.min()))} on {least})"
            )
    own = rows[(rows["implementation"] == "ours") & rows["bound_fraction"].notna()]
    reached = f" It reaches {percent(own['bound_fraction'].median())} of the bound in the median, and computes "
    reached += f"{times(float(own['padding'].median()))} the scores that the mask holds." if len(own) else ""
    return f"{about}: our masked attention is {' and '.join(said)}.{reached if len(own) else ''}" if said else ""
