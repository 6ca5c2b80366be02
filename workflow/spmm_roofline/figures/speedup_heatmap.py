"""Every kernel on every matrix
Speed-up over the fastest of cuSPARSE's CSR and COO algorithms, the geometric mean over the widths N at which the kernel
and cuSPARSE have a time. Orange is faster than cuSPARSE, purple slower; colours saturate at a factor of 8. A hatched
cell has no value, because the kernel or cuSPARSE has no time. Columns are the matrices of all suites, sorted by kind
and then by non-zeros, the largest on the right; point at a column for its name. Rows are the kernels, sorted by
study."""

from __future__ import annotations

from . import cells
from .labels import spread
from .numbers import PRECISIONS, counted, times
from .sentences import EXTERNAL, OWN, named, population
from .style import FAINT, INK, LIBRARIES, canvas, tell

SECTION, ORDER, PER = "together", 2, ("device", "l2")
FULL = 3  # binary logarithm of the speed-up at which a colour saturates
NAMED, LETTERS = 45, 24  # matrices are named on the axis up to this number and this length of their names


def _shown(tables):
    """Precision class → binary logarithms of geometric means, kernels (rows) by matrices (columns), for the matrices on
    which a kernel that is no library's ran."""
    import numpy as np

    rows = tables["together"]
    rows = rows[rows["speedup"].notna() & (rows["study"] != "cusparse") & (rows["speedup"] > 0)]
    grids = {}
    for name in PRECISIONS:
        own = rows[rows["precision_class"] == name]
        own = own[own["matrix"].isin(own.loc[~own["study"].isin(LIBRARIES), "matrix"])]
        if own["matrix"].nunique() > 1:
            logs = own.assign(log=np.log2(own["speedup"].astype(float)))
            grids[name] = logs.pivot_table(index="kernel", columns="matrix", values="log", aggfunc="mean")
    return grids


def draw(tables, styles):
    import numpy as np

    grids = _shown(tables)
    if not grids:
        return None
    about = tables["together"].drop_duplicates("matrix").set_index("matrix")
    ordered = {}
    for name, grid in grids.items():
        matrices = sorted(grid.columns, key=lambda matrix: (about.at[matrix, "kind"], about.at[matrix, "nnz"], matrix))
        ordered[name] = grid.reindex(index=[kernel for kernel in styles if kernel in grid.index], columns=matrices)
    heights = [0.135 * max(4, len(grid)) for grid in ordered.values()]
    figure, axes = canvas(len(grids), 1, sum(heights) + 1.25 * len(grids), height_ratios=heights)
    for ax, (name, grid) in zip(axes, ordered.items(), strict=True):
        image = ax.imshow(
            np.ma.masked_invalid(grid.to_numpy(dtype=float)), cmap="PuOr_r", vmin=-FULL, vmax=FULL, aspect="auto",
            interpolation="none",
        )  # fmt: skip
        ax.set_title(f"{PRECISIONS[name]}: {counted(len(grid), 'kernel')}, {len(grid.columns):,} matrices")
        ax.set_yticks(range(len(grid)), grid.index, fontsize=6.5)
        kinds = [about.at[matrix, "kind"] for matrix in grid.columns]
        if len(kinds) <= NAMED and max(map(len, grid.columns)) <= LETTERS:
            ax.set_xticks(range(len(kinds)), grid.columns, rotation=90, fontsize=6.5)
        else:
            starts = [at for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]
            middles = [(start + end - 1) / 2 for start, end in zip(starts, [*starts[1:], len(kinds)], strict=True)]
            middles = spread(middles, 0.016 * len(kinds), 0, len(kinds) - 1)
            ax.set_xticks(middles, [kinds[start] for start in starts], rotation=90, fontsize=6.5)
            for start in starts[1:]:
                ax.axvline(start - 0.5, color=INK, linewidth=0.6)
            for at, matrix in enumerate(grid.columns):
                tell(ax.axvspan(at - 0.5, at + 0.5, facecolor=INK, linewidth=0), matrix)
        cells.tell(image, grid.columns, grid.index, "speed-up over cuSPARSE")
        cells.hatch_empty(ax)
        ax.tick_params(length=0)
        ax.grid(False)
        for side in ("top", "right", "bottom", "left"):
            ax.spines[side].set(visible=True, color=FAINT)
    powers = range(-FULL, FULL + 1, 1 if sum(heights) > 1.2 else FULL)
    cells.key(figure, image, axes, powers, shrink=min(1.0, 2.4 / sum(heights)), anchor=(0, 1))
    return figure


def says(tables):
    told, name = [], named(tables)
    studies = tables["together"].drop_duplicates("kernel").set_index("kernel")["study"]
    for precision, grid in _shown(tables).items():
        grid = grid[~grid.index.map(studies).isin(LIBRARIES)]
        own = grid.index.map(studies)
        said = [
            f"a kernel of {whose} is faster than cuSPARSE on {int((best > 0).sum())} of "
            f"{population(tables, best.index)}"
            for whose, subset in (
                ("the published studies", grid[~own.isin([OWN, EXTERNAL])]),
                ("this project", grid[own == OWN]),
                ("a user", grid[own == EXTERNAL]),
            )
            if len(best := subset.max().dropna())
        ]
        top = grid.stack().dropna().sort_values(kind="stable").index[-1]
        told.append(
            f"In {PRECISIONS[precision]} {' and '.join(said)}; the highest mean is {times(2.0 ** grid.at[top])} by "
            f"{name(top[0])} on {top[1]}."
        )
    return " ".join(told)
