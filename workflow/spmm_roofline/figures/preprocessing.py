"""What packing costs, and when it has paid
Left: time of packing the format on the device over the time of one multiplication, a mark per matrix. Right: share of
the matrices on which packing and multiplying together are faster than the best on scalar cores, over the number of
multiplications; where a line stays below 100 %, packing never pays on the other matrices, and a kernel without a line
gains on none. Lines of one hue differ in their dashes."""

from __future__ import annotations

from .labels import label_ends, plain_log
from .numbers import significant
from .sentences import few, leaders, population, uneven
from .style import apart, canvas

STUDY = "cutespmm"
SECTION, ORDER, PER = "suite", 9, ("device", "suite", "l2")

#: Lines of one hue, the first to the last.
DASHES = ("-", "--", ":", "-.")


def _shown(tables):
    """Rows with N = 128, or with the median width."""
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
    ran = set(rows["kernel"])
    kernels = [name for name in styles if name in ran]
    looks = apart(styles, rows)
    height = 1.0 + 0.28 * max(5, len(kernels))
    figure, (cost, paid) = canvas(1, 2, height)
    for position, kernel in enumerate(reversed(kernels)):
        own = rows[rows["kernel"] == kernel].sort_values("matrix")
        heights = [position + 0.05 * (rank * 3 % 9 - 4) for rank in range(len(own))]
        cost.scatter(own["preprocess_products"], heights, s=14, linewidth=0, label=kernel, **looks[kernel])
    gained = 100 * rows["break_even"].notna().groupby(rows["kernel"]).mean()
    ends = {kernel: gained[kernel] for kernel in reversed(kernels) if gained[kernel]}
    if ends:
        last = max(2.0, float(rows["break_even"].max()))
        drawn: list = []
        for kernel in ends:
            own = rows.loc[rows["kernel"] == kernel, "break_even"].astype("float64")
            after = own.dropna().clip(lower=1).sort_values()
            shares = [100 * (1 + rank) / len(own) for rank in range(len(after))]
            colour = looks[kernel]["color"]
            # From the bottom up to the right edge and beyond it.
            paid.plot(
                [after.iloc[0], *after, 2 * last], [0, *shares, shares[-1]], drawstyle="steps-post", color=colour,
                linewidth=1.8, linestyle=DASHES[drawn.count(colour) % len(DASHES)], label=kernel,
            )  # fmt: skip
            drawn.append(colour)
        paid.set_xlim(1, last)
    cost.set(xscale="log", xlabel=f"packing / one multiplication at N = {n}")
    cost.set_yticks(range(len(kernels)), reversed(kernels))
    paid.set(xscale="log", ylim=(0, 100), xlabel="multiplications", ylabel="matrices that have gained (%)")
    plain_log(cost.xaxis)
    label_ends(paid, ends, looks, height - 0.6)
    plain_log(paid.xaxis)
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    medians = rows.groupby("kernel")["preprocess_products"].median().sort_values(kind="stable")
    least, most = (f"{significant(medians.iloc[at])} multiplications ({medians.index[at]})" for at in (0, -1))
    cost = least if len(medians) == 1 else f"{least} to {most}"
    paid = rows[rows["break_even"].notna()].groupby("kernel")["matrix"].nunique()
    kernels = leaders(paid) if len(paid) else []
    ran = rows.groupby("kernel")["matrix"].nunique()
    pays = (
        f"it pays on the most matrices for {few([f'{kernel} ({paid[kernel]} of {ran[kernel]})' for kernel in kernels])}"
        if kernels
        else "it pays on no matrix"
    )
    return (
        f"On {population(tables, rows['matrix'])} at N = {rows['n'].iloc[0]} packing costs as much as {cost} in the "
        f"median; against the best on scalar cores {pays}.{uneven(rows)}"
    )
