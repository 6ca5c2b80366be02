"""Fill of 16×4 bricks
Left: bricks of three matrices by the number of their 64 slots that hold a non-zero, in per cent of the bricks that hold
any: the matrices with the lowest, the median and the highest mean fill. Right: mean fill of the bricks of a regular
grid, and α, the fill after the non-empty columns of sixteen rows are packed together, which is one to four times as
high (solid lines); dotted are the borders of the classes of synergy. The paper states a mean fill of nearly 20 % for
Emilia_923 and of nearly 10 % for NotreDame_www (Xiang et al. 2024, section 1 and figure 1)."""

from __future__ import annotations

from . import rivals
from .labels import plain_log
from .numbers import percent, times
from .sentences import population
from .style import HUES, INK, MARKERS, call, canvas

STUDY = "cutespmm"
SECTION, ORDER, PER = "study", 0, ("device", "suite", "l2")
PAPER = "figure 1"

#: Matrices of the paper's figure 1 → the mean fill that its text states.
STATED = {"Emilia_923": 0.20, "NotreDame_www": 0.10}
#: Lowest α of a class of synergy (section 6.4).
CLASSES = {"low": 0.0, "medium": 0.125, "high": 0.25}


def _shown(tables):
    """Matrices on which a kernel of the study ran, by the fill of their bricks; none if they are few."""
    cases = tables["cases"]
    names = set(cases.loc[cases["study"] == STUDY, "matrix"])
    rows = tables["matrices"].drop_duplicates("matrix")
    rows = rows[rows["matrix"].isin(names) & (rows["nnz"] > 0)]
    if rows["matrix"].nunique() < rivals.LEAST_MATRICES:
        return rows.head(0)
    rows = rows.dropna(subset=["brick_fill_16x4_fraction", "alpha_fraction"])
    rows = rows.assign(aligned=rows["brick_fill_16x4_fraction"], packed=rows["alpha_fraction"])
    return rows.sort_values(["aligned", "matrix"], ignore_index=True)


def _histogram(rows):
    """Bricks of the first, the middle and the last matrix of ``rows``, by their number of occupied slots."""
    chosen = rows.iloc[sorted({0, len(rows) // 2, len(rows) - 1})]
    classes = [column for column in rows if column.startswith("bricks_of_")]
    bricks = chosen.melt(["matrix", "aligned"], classes, var_name="occupied", value_name="bricks")
    slots = bricks["occupied"].str.removeprefix("bricks_of_").str.replace("_to_", "–")
    label = [f"{name}, mean {percent(fill)}" for name, fill in zip(bricks["matrix"], bricks["aligned"], strict=True)]
    return bricks.assign(occupied=slots, label=label, bricks=bricks["bricks"].astype(float))


def draw(tables, styles):
    import seaborn as sns

    rows = _shown(tables)
    if rows.empty:
        return None
    figure, (histogram, plane) = canvas(1, 2, 3.8, width_ratios=(3, 2))
    bricks = _histogram(rows)
    sns.histplot(
        bricks, x="occupied", weights="bricks", hue="label", palette=HUES[: bricks["label"].nunique()], stat="percent",
        common_norm=False, multiple="dodge", shrink=0.82, linewidth=0, alpha=1, ax=histogram,
    )  # fmt: skip
    histogram.set(xlabel="occupied slots of a brick", ylabel="bricks (%)")
    histogram.grid(axis="x", visible=False)
    histogram.get_legend().set_title(None)
    synergy = rows["packed"].map(lambda alpha: next(name for name in reversed(CLASSES) if alpha >= CLASSES[name]))
    shown = rows.assign(aligned=100 * rows["aligned"], packed=100 * rows["packed"], synergy=synergy)
    for name, hue, marker in zip(CLASSES, HUES, MARKERS, strict=False):
        own = shown[shown["synergy"] == name]
        if len(own):
            look = {"s": 20, "color": hue, "marker": marker, "linewidth": 0, "zorder": 3}
            plane.scatter(own["aligned"], own["packed"], label=name, **look)
    plane.legend(title="synergy")
    span = [100 / 64, 100]
    for factor, end in ((1, 100), (4, 25)):
        ends = [span[0], end]
        line = plane.plot(ends, [factor * value for value in ends], color=INK, linewidth=0.6, zorder=1)[0]
        call(line, f"α is {factor}× the mean fill")
    for limit in list(CLASSES.values())[1:]:
        plane.axhline(100 * limit, color=INK, linewidth=0.8, linestyle=":", zorder=2)
    plane.set(xscale="log", yscale="log", xlim=(1.4, 112), ylim=(5.5, 112))
    plane.set(xlabel="mean fill of aligned bricks (%)", ylabel="α, after packing columns (%)")
    plain_log(plane.xaxis)
    plain_log(plane.yaxis)
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    gain = rows["packed"] / rows["aligned"]
    lowest, highest = rows.iloc[0], rows.iloc[-1]
    least = min(STATED, key=lambda name: STATED[name])
    reached = int((rows["aligned"] >= STATED[least]).sum())
    ends = f"{percent(lowest['aligned'])} ({lowest['matrix']}) to {percent(highest['aligned'])} ({highest['matrix']})"
    here = rows[rows["matrix"].isin(STATED)].set_index("matrix")["aligned"]
    beside = [
        f" {name} has {percent(fill)}, in the paper nearly {percent(STATED[name])}." for name, fill in here.items()
    ]
    median, packed, stated = (percent(value) for value in (*rows[["aligned", "packed"]].median(), STATED[least]))
    return (
        f"On {population(tables, rows['matrix'])}, the mean fill of aligned bricks is {median} in the median"
        f"{f', {ends}' if len(rows) > 1 else ''}; it reaches {stated}, just above what the paper states for {least}, "
        f"its sparser example, on {reached:,} of {len(rows):,}. Packed, the fill is {packed} in the median, "
        f"{times(gain.median())} the aligned one of the same matrix in the median and at most {times(gain.max())} "
        f"({rows['matrix'][gain.idxmax()]}).{''.join(beside)}"
    )
