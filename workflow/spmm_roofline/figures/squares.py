"""Products of squares pruned to 2:4
Left: rate for M = N = K, counting 2·M·N·K operations as the post does, of the fastest tile of each family, the other
kernels of the study, the library for 2:4 and the dense product. Right: the same over the library's rate; black marks
are the post's own ratios on its GPU (the post 'Implementing a 2:4 Sparse GEMM Kernel with Tensor Cores', section
'Benchmarks')."""

from __future__ import annotations

from .bars import grouped
from .numbers import PRECISIONS, counted, rate, times
from .sentences import few, leaders, named
from .style import INK, canvas

STUDY, LIBRARY = "gemm24", "cusparselt"
SECTION, ORDER, PER = "study", 1, ("device", "suite", "l2")


def _squares(tables):
    """Verified rows on squares, of the precision in which most kernels of the study ran."""
    cases = tables["cases"]
    rows = cases[(cases["status"] == "ok") & (cases["m"] == cases["n"]) & (cases["m"] == cases["k"])]
    of_study = rows[rows["study"] == STUDY].groupby("precision")["kernel"].nunique()
    return rows[rows["precision"] == of_study.sort_values(kind="stable").index[-1]] if len(of_study) else rows.head(0)


def _shown(tables):
    """Rate of each series (columns) on each square (rows) in TFLOP/s, and the series of the library.

    A family is one series: its fastest kernel on each square.
    """
    import pandas as pd

    rows = _squares(tables)
    if rows.empty:
        return pd.DataFrame(), ""
    families = set(tables["families"]["family"])
    series = rows["kernel"].map(lambda name: next((f for f in families if name == f or name.startswith(f"{f}_")), name))
    rows = rows.assign(series=series, rate=2e-9 * rows["m"] ** 3.0 / rows["time_ms"])
    rates = rows.pivot_table(index="m", columns="series", values="rate", aggfunc="max").astype("float64")
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
        positions = {size: position for position, size in enumerate(over.index)}
        for row in told.to_dict("records"):
            if row["n"] in positions:
                ratio.plot(
                    [positions[row["n"]]], [row["published"]], marker="_", markersize=16, color=INK, markeredgewidth=2
                )
        ratio.set(ylabel="over the library for 2:4", xlabel="M = N = K")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=len(rates.columns))
    return figure


def says(tables):
    rates, library = _shown(tables)
    if rates.empty:
        return ""
    name, precision = named(tables), PRECISIONS[_squares(tables)["precision"].iloc[0]]
    size = rates.index.max()
    best = leaders(rates.loc[size].dropna())
    verb, fastest = "is" if len(best) == 1 else "are", rate(1000 * rates.loc[size].max())
    said = f"At {size:,} in {precision} {few([name(one) for one in best])} {verb} the fastest, at {fastest} counting "
    said += "2·M·N·K"
    if not library or len(rates.columns) == 1:
        return f"{said}."
    others = rates.drop(columns=library)
    over = (others.max(axis=1) / rates[library]).dropna()
    if over.empty:
        return f"{said}."
    beside = ""
    if size in over.index and len(best) == 1:
        other = others.loc[size].idxmax()
        beside = f"; {name(other)}, the fastest other, reaches" if best == [library] else ", which is"
        beside += f" {times(over[size])} the rate of {library}"
    return (
        f"{said}{beside}. Another kernel is faster than {library} on {int((over > 1).sum())} of "
        f"{counted(len(over), 'square')} that both ran."
    )
