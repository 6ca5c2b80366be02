"""Stored zeros over the size of the tile
Merging 16×16 tiles into super-tiles stores zeros with them. Left: how many of the 16×16 tiles in stored super-tiles
hold a non-zero; dotted is the least possible, one tile in each super-tile. Right: how many of the stored values are not
zero. A thin line is a matrix of the study's suites, a thick one the median of its group; both axes are logarithmic. The
thesis draws one example, whose values are 50 % non-zero in small tiles and 22 % in large ones (Mistry 2025, section 2.4
and figure 2.4)."""

from __future__ import annotations

from .labels import fitting, plain_log
from .numbers import listed, percent
from .papers import alone
from .sentences import population
from .style import HUES, INK, call, canvas

STUDY = "sptc"
SECTION, ORDER, PER = "study", 6, ("device",)
PAPER = "figure 2.4"

#: Rows and columns of a tile or super-tile; the first is the tile of one product.
SIDES = (16, 32, 64, 128)
#: Groups of matrices, and whether a matrix whose kind is "synthetic" belongs to it.
GROUPS = {"mixtures of tiles": True, "other matrices": False}


def _shown(tables):
    """A row for each matrix and side, with the fractions ``tiles`` and ``values`` of what is stored that are not zero;
    the matrices are those of the suites in which the study stands alone."""
    import pandas as pd

    cases = tables["cases"]
    own = [rows for _, rows in cases.groupby("suite") if alone(rows, STUDY)]
    names = {name for rows in own for name in rows["matrix"]}
    known = tables["matrices"].drop_duplicates("matrix")
    known = known[known["matrix"].isin(names)].sort_values("matrix")
    filled = known.dropna(subset=[f"tiles_{side}x{side}" for side in SIDES])
    filled = filled[filled["nnz"] > 0]
    sizes = [
        pd.DataFrame(
            {
                "matrix": filled["matrix"],
                "group": (filled["kind"] == "synthetic").map({held: name for name, held in GROUPS.items()}),
                "side": side,
                "tiles": (filled["tiles_16x16"] / filled[f"tiles_{side}x{side}"]).astype(float) / (side // 16) ** 2,
                "values": filled[f"tile_fill_{side}x{side}_fraction"].astype(float),
            }
        )
        for side in SIDES
    ]
    return pd.concat(sizes, ignore_index=True)


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    groups = [name for name in GROUPS if (rows["group"] == name).any()]
    hues = dict(zip(groups, HUES, strict=False))
    figure, axes = canvas(1, 2, 3.6, sharex=True)
    titles = {"tiles": "stored 16×16 tiles that hold a non-zero (%)", "values": "stored values that are not zero (%)"}
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        for (group, matrix), own in rows.groupby(["group", "matrix"]):
            thin = ax.plot(own["side"], 100 * own[name], color=hues[group], linewidth=0.4, label="_")[0]
            call(thin, f"{matrix} ({group})")
        for group, hue in hues.items():
            medians = 100 * rows[rows["group"] == group].groupby("side")[name].median()
            ax.plot(medians, color=hue, linewidth=2.2, marker="o", markeredgewidth=0, label=group)
        ax.set(xscale="log", yscale="log", xlabel="rows and columns of a super-tile", ylabel=title)
        plain_log(ax.yaxis)
    least = [100 * (16 / side) ** 2 for side in SIDES]
    call(axes[0].plot(SIDES, least, color=INK, linewidth=0.9, linestyle=":", zorder=2)[0], "least possible")
    fitting(axes[0].xaxis, [SIDES], lambda value: f"{value:.0f}")
    fitting(axes[1].xaxis, [SIDES], lambda value: f"{value:.0f}")
    axes[1].legend()
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    medians = rows.groupby("side")[["tiles", "values"]].median()
    tiles, values = ([percent(value) for value in medians[name]] for name in ("tiles", "values"))
    values_of = rows.pivot(index="matrix", columns="side", values="values")
    grows = values_of.diff(axis=1).iloc[:, 1:] < -1e-9 * values_of.iloc[:, :-1].to_numpy()
    always, never = int(grows.all(axis=1).sum()), int((~grows.any(axis=1)).sum())
    sizes = listed([f"{side}×{side}" for side in SIDES[1:]])
    return (
        f"On {population(tables, rows['matrix'])}, {listed(tiles[1:])} of the 16×16 tiles in super-tiles of {sizes} "
        f"hold a non-zero, in the median. Of the stored values {values[0]} are not zero with 16×16 tiles and "
        f"{values[-1]} with the largest super-tiles. Each doubling of the side stores more zeros on {always:,} of "
        f"{len(grows):,}, and no doubling does on {never:,}."
    )
