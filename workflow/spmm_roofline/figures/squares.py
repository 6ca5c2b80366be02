"""Products of squares pruned to 2:4
Left: rate of M = N = K, counting 2·M·N·K operations as the post does, for the fastest tile of each family, other
kernels of the study, the library for 2:4 and the dense product. Right: the same over the library's rate; marks in black
are the post's own ratios on its GPU (the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores', section
'Benchmarks')."""

from __future__ import annotations

from .bars import grouped
from .numbers import counted, significant, times
from .style import INK, canvas

STUDY, LIBRARY = "gemm24", "cusparselt"
SECTION, PLACE, PER = "suite", 16, ("device", "suite", "l2")


def _shown(tables):
    """Rate of each series (columns) on each square (rows), TFLOP/s, and the series that is the library.

    Of every precision the one of the most kernels is taken; a family of tiles is one series, its fastest.
    """
    import pandas as pd

    cases = tables["cases"]
    rows = cases[(cases["status"] == "ok") & (cases["m"] == cases["n"]) & (cases["m"] == cases["k"])]
    rows = rows[rows["precision"].isin(rows.loc[rows["study"] == STUDY, "precision"])]
    if rows.empty:
        return pd.DataFrame(), ""
    of_study = rows[rows["study"] == STUDY].groupby("precision")["kernel"].nunique()
    rows = rows[rows["precision"] == of_study.sort_values(kind="stable").index[-1]]
    families = set(tables["families"]["family"])
    series = rows["kernel"].map(lambda name: next((f for f in families if name == f or name.startswith(f"{f}_")), name))
    rows = rows.assign(series=series, rate=2e-9 * rows["m"] ** 3.0 / rows["time_ms"])
    rates = rows.pivot_table(index="m", columns="series", values="rate", aggfunc="max")
    library = rows.loc[rows["study"] == LIBRARY, "series"]
    return rates, library.iloc[0] if len(library) else ""


def draw(tables, styles):
    rates, library = _shown(tables)
    if len(rates) < 2:
        return None
    rates = rates[[name for name in styles if name in rates]]
    figure, (rate, ratio) = canvas(1, 2, 3.4, width_ratios=(3, 2))
    grouped(rate, rates, styles)
    rate.set(ylabel="TFLOP/s", xlabel="M = N = K")
    if library:
        over = rates.drop(columns=library).div(rates[library], axis=0).dropna(how="all")
        grouped(ratio, over, styles)
        ratio.axhline(1, color=INK, linewidth=1)
        published = tables["published"]
        told = published[published["quantity"] == f"over_{LIBRARY}"]
        places = {size: place for place, size in enumerate(over.index)}
        for row in told.to_dict("records"):
            if row["n"] in places:
                ratio.plot(
                    [places[row["n"]]], [row["published"]], marker="_", markersize=16, color=INK, markeredgewidth=2
                )
        ratio.set(ylabel="over the library for 2:4", xlabel="M = N = K")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=len(rates.columns))
    return figure


def says(tables):
    rates, library = _shown(tables)
    size = rates.index.max()
    best = rates.loc[size].idxmax()
    said = f"At {size:,} {best} is the fastest with {significant(rates.loc[size].max())} TFLOP/s"
    if not library or library not in rates:
        return f"{said}."
    others = rates.drop(columns=library)
    ahead = others.max(axis=1) > rates[library]
    return (
        f"{said}, {times(others.loc[size].max() / rates.loc[size, library])} the rate of {library} for the fastest "
        f"other; on {int(ahead.sum())} of {counted(len(rates), 'square')} the library is not the fastest."
    )
