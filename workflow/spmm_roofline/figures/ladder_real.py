"""The ladder of kernels on matrices of applications
Rate of each kernel on each matrix at the widest B, counting all stored 16×16 tiles of the matrix. Each rung adds an
idea to a rung above it. The fastest bar has an edge, and each bar shows the time of one call. In brackets: share of the
matrix's 16×32 tiles that are 2:4. Blue kernels are SMaT's, orange ones the thesis's, grey ones a library's. All
accumulate in FP16 except the libraries, which add in FP32; other kernels with sums in FP32 are left out (Mistry 2025,
figures 3.6 and 3.7)."""

from __future__ import annotations

from .bars import lying
from .numbers import duration, percent
from .papers import alone
from .sentences import lead, population
from .style import OTHER, STUDIES, canvas
from .tiles import beside, ladder, libraries, rated

STUDY = "sptc"
SECTION, ORDER, PER = "study", 4, ("device", "suite", "l2")
PAPER = "figures 3.6 and 3.7"

MOST_MATRICES, COLUMNS = 24, 4


def _shown(tables):
    """Rows with the widest B on matrices that are not mixtures of tiles."""
    if not alone(tables["cases"], STUDY):
        return rated(tables).head(0)
    rows = rated(tables)
    rows = rows[rows["kind"] != "synthetic"]
    return rows[rows["n"] == rows["n"].max()]


def draw(tables, styles):
    rows = _shown(tables)
    matrices = sorted(rows["matrix"].unique())
    if not 2 <= len(matrices) <= MOST_MATRICES:
        return None
    kernels = ladder(tables, rows)
    studies = rows.drop_duplicates("kernel").set_index("kernel")["study"]
    colours = {name: STUDIES.get(studies[name], OTHER) for name in kernels}
    share = tables["matrices"].drop_duplicates("matrix").set_index("matrix")["tile_24_16x32_fraction"]
    lines = -(-len(matrices) // COLUMNS)
    figure, axes = canvas(lines, COLUMNS, 0.4 + lines * (0.45 + 0.142 * len(kernels)), sharey=True)
    for position, ax in enumerate(axes):
        if position >= len(matrices):
            ax.set_visible(False)
            continue
        own = rows[rows["matrix"] == matrices[position]].set_index("kernel")
        lying(ax, own["tflops"].reindex(kernels), colours, own["time_ms"].map(duration))
        ax.set_title(f"{matrices[position]} ({percent(share[matrices[position]])})")
        ax.tick_params(axis="y", labelsize=7)
        ax.set(xlabel="TFLOP/s")
        ax.xaxis.label.set_visible(position + COLUMNS >= len(matrices))
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    best = rows.sort_values(["time_ms", "kernel"]).drop_duplicates("matrix")
    others = f" and {found}" if (found := libraries(rows)) else ""
    winner = lead(best["kernel"].value_counts(), "the fastest on")
    return (
        f"At N = {rows['n'].iloc[0]}, of the ladder (FP16 sums){others}, {winner} of "
        f"{population(tables, best['matrix'])}{beside(rows)}."
    )
