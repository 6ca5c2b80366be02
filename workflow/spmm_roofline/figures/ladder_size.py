"""The ladder of kernels over the size of the matrix
Rate of each kernel over the rows of the matrix at the widest B, on a mixture XdYs of each pattern that has several
sizes; both axes are logarithmic. All kernels are credited with the stored 16×16 tiles and accumulate in FP16, except
the libraries, dashed, which add in FP32 (Mistry 2025, section 3.1.2 gives the range of sizes)."""

from __future__ import annotations

from .labels import plain_log, short
from .numbers import listed
from .sentences import population
from .style import LIBRARIES, canvas, legend
from .tiles import PATTERNS, beside, lines, looks, mixed, rated, reading

STUDY = "sptc"
SECTION, ORDER, PER = "study", 3, ("device", "suite", "l2")
PAPER = "section 3.1.2"


def _shown(tables):
    """Rows with the widest B on mixtures in several sizes, one mixture per pattern."""
    rows = mixed(rated(tables))
    rows = rows[rows["n"] == rows["n"].max()]
    rows = rows.assign(mixture=rows["matrix"].str.replace(r"-\d+$", "", regex=True))
    sizes = rows.groupby(["pattern", "mixture"])["m"].nunique().reset_index(name="sizes")
    most = sizes.sort_values(["sizes", "mixture"], ascending=[False, True]).drop_duplicates("pattern")
    return rows[rows["mixture"].isin(most.loc[most["sizes"] > 1, "mixture"])]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    patterns = [name for name in PATTERNS if (rows["pattern"] == name).any()]
    figure, axes = canvas(1, len(patterns), 3.9, sharex=True, sharey=True)
    own = looks(tables, rows, styles)
    sizes = sorted(rows["m"].unique())
    for ax, pattern in zip(axes, patterns, strict=True):
        subset = rows[rows["pattern"] == pattern]
        lines(ax, subset, "m", own)
        ax.set(xscale="log", yscale="log", xlabel="rows", title=f"{subset['mixture'].iloc[0]}, {pattern}")
        plain_log(ax.xaxis, ticks=sizes)
        ax.set_xticks(sizes, labels=[short(size) if size % 1024 else f"{size // 1024}Ki" for size in sizes])
    axes[0].set(ylabel=f"TFLOP/s at N = {rows['n'].iloc[0]}")
    plain_log(axes[0].yaxis)
    legend(figure, own, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[~rows["study"].isin(LIBRARIES)].sort_values(["time_ms", "kernel"]).drop_duplicates("matrix")
    if own.empty:
        return ""
    said = []
    for m in sorted({own["m"].min(), own["m"].max()}):
        leaders = sorted(own.loc[own["m"] == m, "kernel"].unique())
        verb = "is" if len(leaders) == 1 else "are"
        subset = rows[rows["m"] == m]
        said.append(f"With {m:,} rows the fastest of the ladder {verb} {listed(leaders)}{beside(subset)}.")
    where = f"{population(tables, own['matrix'])} at N = {rows['n'].iloc[0]}"
    return f"{where}, the ladder with FP16 sums. {' '.join(said)} {reading(rows)}."
