"""Every kernel on every matrix
Speed-up over the best of cuSPARSE, the geometric mean over the widths N that were measured; orange is faster than
cuSPARSE, purple slower, colours are full at a factor of 8, an empty cell has no time. Matrices of all suites stand side
by side, by their kind and within it by their non-zeros, the largest to the right; kernels by study."""

from __future__ import annotations

from .numbers import PRECISIONS, counted, times
from .style import FAINT, INK, LIBRARIES, canvas

SECTION, PLACE, PER = "together", 2, ("device", "l2")
FULL = 3  # powers of two at which a colour is full
NAMED = 45  # more matrices than these go without their names, as do longer names than
LETTERS = 24


def _shown(tables):
    """Class → binary logarithm of geometric means, kernels (rows) by matrices, of matrices on which not only
    libraries ran."""
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
            for at in range(1, len(middles)):  # no label on top of the one before it
                middles[at] = max(middles[at], middles[at - 1] + 0.016 * len(kinds))
            ax.set_xticks(middles, [kinds[start] for start in starts], rotation=90, fontsize=6.5)
            for start in starts[1:]:
                ax.axvline(start - 0.5, color=INK, linewidth=0.6)
        ax.tick_params(length=0)
        ax.grid(False)
        for side in ("top", "right", "bottom", "left"):
            ax.spines[side].set(visible=True, color=FAINT)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 2.4 / sum(heights)), aspect=30, pad=0.01, anchor=(0, 1))
    bar.set_ticks(range(-FULL, FULL + 1), labels=[f"{2.0**power:.3g}×" for power in range(-FULL, FULL + 1)])
    bar.outline.set_visible(False)
    return figure


def says(tables):
    told = []
    libraries = set(tables["together"].loc[tables["together"]["study"].isin(LIBRARIES), "kernel"])
    for name, grid in _shown(tables).items():
        grid = grid.drop(index=libraries, errors="ignore")
        best = grid.max().dropna()
        wins = int((best > 0).sum())
        top = grid.stack().dropna().sort_values(kind="stable").index[-1]
        told.append(
            f"In {PRECISIONS[name]} a kernel of the studies is faster than cuSPARSE on {wins} of "
            f"{counted(len(best), 'matrix', 'matrices')}, most on {top[1]}: {times(2.0 ** grid.at[top])} by {top[0]}."
        )
    return " ".join(told)
