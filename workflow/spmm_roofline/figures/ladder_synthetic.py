"""The ladder of kernels on mixtures of tiles
Rate of each kernel at the widest B on matrices XdYs of X dense and Y 2:4 tiles of 16×32; the other tiles are zero. Each
rung adds an idea to a rung above it. The fastest bar has an edge, and each bar shows the time of one call. Blue kernels
are SMaT's, orange ones the thesis's, grey ones a library's. All are credited with the stored 16×16 tiles and accumulate
in FP16 except the libraries, which add in FP32; other kernels with sums in FP32 are left out (Mistry 2025, figures 3.2
to 3.4)."""

from __future__ import annotations

from .bars import lying
from .numbers import duration, listed
from .sentences import population
from .style import LIBRARIES, OTHER, STUDIES, canvas
from .tiles import PATTERNS, beside, ladder, mixed, rated, reading

STUDY = "sptc"
SECTION, ORDER, PER = "study", 1, ("device", "suite", "l2")
PAPER = "figures 3.2 to 3.4"


def _shown(tables):
    """Rows with the widest B; of a mixture in several sizes, only the largest."""
    rows = mixed(rated(tables))
    rows = rows[rows["n"] == rows["n"].max()]
    return rows[rows["m"] == rows.groupby(["full", "sparse24"])["m"].transform("max")]


def draw(tables, styles):
    rows = _shown(tables)
    if rows["matrix"].nunique() < 2:
        return None
    kernels = ladder(tables, rows)
    studies = rows.drop_duplicates("kernel").set_index("kernel")["study"]
    colours = {name: STUDIES.get(studies[name], OTHER) for name in kernels}
    patterns = {name: found for name in PATTERNS if len(found := rows[rows["pattern"] == name])}
    names = {name: list(found.sort_values(["full", "sparse24"])["matrix"].unique()) for name, found in patterns.items()}
    columns = max(len(found) for found in names.values())
    figure, axes = canvas(len(patterns), columns, 0.4 + len(patterns) * (0.5 + 0.148 * len(kernels)), sharey=True)
    for position, ax in enumerate(axes):
        pattern = list(patterns)[position // columns]
        if position % columns >= len(names[pattern]):
            ax.set_visible(False)
            continue
        matrix = names[pattern][position % columns]
        own = rows[rows["matrix"] == matrix].set_index("kernel")
        lying(ax, own["tflops"].reindex(kernels), colours, own["time_ms"].map(duration))
        ax.set_title(matrix)
        ax.tick_params(axis="y", labelsize=7)
        if position % columns == 0:
            ax.set(ylabel=pattern)
        ax.set(xlabel="TFLOP/s")
        ax.xaxis.label.set_visible(position + columns >= len(axes))
    return figure


def says(tables):
    rows = _shown(tables)
    own = rows[~rows["study"].isin(LIBRARIES)]
    if own.empty:
        return ""
    best = own.sort_values(["time_ms", "kernel"]).drop_duplicates("matrix")
    said = []
    for pattern in PATTERNS:
        leaders = sorted(best.loc[best["pattern"] == pattern, "kernel"].unique())
        if leaders:
            said.append(f"{listed(leaders)} on {pattern.replace('both', 'mixtures of both')}")
    verb = "is" if best["kernel"].nunique() == 1 else "are"
    return (
        f"On {population(tables, own['matrix'])} at N = {rows['n'].iloc[0]} the fastest of the ladder (FP16 sums) "
        f"{verb} {', '.join(said)}{beside(rows)}. {reading(rows)}."
    )
