"""What packing costs, and when it has paid
Left: time of packing the format on the device over that of one multiplication, a mark a matrix. Right: share of the
matrices on which packing and multiplying together have become faster than the best on scalar cores after so many
multiplications; where a line stays below 100 %, the rest never gets there."""

from __future__ import annotations

from .numbers import percent, significant
from .style import canvas, legend, plain_log

STUDY = "cutespmm"
SECTION, PLACE, PER = "suite", 9, ("device", "suite", "l2")


def _shown(tables):
    """Rows of the middle width."""
    rows = tables["synergy"].dropna(subset=["preprocess_products", "speedup"])
    rows = rows[rows["preprocess_products"] > 0]
    if rows["matrix"].nunique() < 4:
        return rows.head(0)
    widths = sorted(rows["n"].unique())
    return rows[rows["n"] == (128 if 128 in widths else widths[len(widths) // 2])]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    n = rows["n"].iloc[0]
    kernels = [name for name in styles if (rows["kernel"] == name).any()]
    figure, (cost, paid) = canvas(1, 2, 1.7 + 0.28 * max(4, len(kernels)))
    for place, kernel in enumerate(reversed(kernels)):
        own = rows[rows["kernel"] == kernel].sort_values("matrix")
        heights = [place + 0.05 * (rank * 3 % 9 - 4) for rank in range(len(own))]
        cost.scatter(own["preprocess_products"], heights, s=14, linewidth=0, alpha=0.8, **styles[kernel])
        after = sorted(own["break_even"].dropna().clip(lower=1))
        shares = [100 * (rank + 1) / len(own) for rank in range(len(after))]
        if after:
            paid.step(after, shares, where="post", color=styles[kernel]["color"], linewidth=1.8)
    cost.set(xscale="log", xlabel=f"packing / one multiplication at N = {n}")
    cost.set_yticks(range(len(kernels)), reversed(kernels))
    paid.set(xscale="log", ylim=(0, 100), xlabel="multiplications", ylabel="matrices that have gained (%)")
    plain_log(cost.xaxis)
    plain_log(paid.xaxis)
    legend(figure, styles, kernels)
    return figure


def says(tables):
    rows = _shown(tables)
    medians = rows.groupby("kernel")["preprocess_products"].median().sort_values()
    ever = rows.groupby("kernel")["break_even"].agg(lambda values: float(values.notna().mean())).sort_values()
    return (
        f"At N = {rows['n'].iloc[0]} packing costs as much as {significant(medians.iloc[0])} multiplications "
        f"({medians.index[0]}) to {significant(medians.iloc[-1])} ({medians.index[-1]}) in the median; it ever pays on "
        f"{percent(ever.iloc[-1])} of the matrices at most ({ever.index[-1]})."
    )
