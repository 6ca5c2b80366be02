"""Products of squares pruned to 2:4
Left: rate for M = N = K, counting 2·M·N·K operations as the post does, of the fastest member of each family of tiles,
the study's other kernels, and the libraries for 2:4 and dense products, all in one precision. Variants that try one
decision of the post each are in the ladder's table. Right: the same over the library's rate (the post 'Implementing a
2:4 Sparse GEMM Kernel with Tensor Cores', section 'Benchmarks')."""

from __future__ import annotations

from .bars import PUBLISHED, grouped, middle
from .numbers import PRECISIONS, counted, rate, times
from .sentences import few, leaders, named
from .style import INK, STUDIES, call, canvas, timed

STUDY, LIBRARY = "gemm24", "cusparselt"
SECTION, ORDER, PER = "study", 1, ("device", "suite", "l2", "precision")
PAPER = "section 'Benchmarks'"

#: Study → colours of its families in their order; others have one colour.
COLOURS = {study: [STUDIES[study], STUDIES[second]] for study, second in ((STUDY, "smat"), ("cublas", "tcgnn"))}


def _squares(tables):
    """Verified rows on squares of the kernels that stand for a family or for themselves, with the rate in TFLOP/s; none
    without a kernel of the study."""
    cases = timed(tables["cases"])
    rows = cases[(cases["m"] == cases["n"]) & (cases["m"] == cases["k"])]
    rows = rows[rows["family"].fillna("") != ""]
    rows = rows.assign(rate=2e-9 * rows["m"] ** 3.0 / rows["time_ms"])
    return rows if (rows["study"] == STUDY).any() else rows.head(0)


def _shown(tables):
    """Rate of each family (columns) on each square (rows) in TFLOP/s, and the family of the library.

    The rate of a family is that of its fastest kernel on each square.
    """
    rows = _squares(tables)
    rates = rows.groupby(["m", "family"])["rate"].max().astype("float64").unstack()
    library = rows.loc[rows["study"] == LIBRARY, "family"]
    return rates, library.iloc[0] if len(library) else ""


def draw(tables, styles):
    from matplotlib.lines import Line2D

    rates, library = _shown(tables)
    if len(rates) < 2:
        return None
    # A family looks as the first of its kernels in the order of styles, the one that its tiles vary.
    kernels = _squares(tables).drop_duplicates("kernel").set_index("kernel")
    members = kernels["family"]
    looks: dict[str, dict] = {}
    left = {study: iter(colours) for study, colours in COLOURS.items()}
    for kernel in styles:
        if kernel in members and members[kernel] not in looks:
            study = kernels["study"][kernel]
            other = STUDIES.get(study, styles[kernel]["color"])
            looks[members[kernel]] = {"color": next(left.get(study, iter(())), other)}
    rates = rates[[*looks]]
    figure, (rate, ratio) = canvas(1, 2, 3.4, width_ratios=(3, 2))
    grouped(rate, rates, looks)
    precision = PRECISIONS[_squares(tables)["precision"].iloc[0]]
    rate.set(ylabel="TFLOP/s", xlabel="M = N = K", title=precision)
    if library:
        over = rates.drop(columns=library).div(rates[library], axis=0).dropna(how="all")
        grouped(ratio, over, looks)
        ratio.axhline(1, color=INK, linewidth=1)
        for row in _told(tables).itertuples():
            at, post = middle(over, row.n, members[row.kernel]), f"{row.kernel}, in the post"
            call(ratio.plot(at, row.published, **PUBLISHED)[0], post)
        ratio.set(ylabel="over the library for 2:4", xlabel="M = N = K", title=f"{precision}, over {library}")
    handles = rate.get_legend_handles_labels()[0]
    if library and len(_told(tables)):
        handles.append(Line2D([], [], label="in the post", **PUBLISHED))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)))
    return figure


def _told(tables):
    """The post's ratios over the library of the kernels that ran on a square here, in their precision."""
    published, rows = tables["published"], _squares(tables)
    known = published["kernel"].isin(rows["kernel"]) & published["n"].isin(rows["m"])
    known &= (rows["study"] == LIBRARY).any()
    return published[(published["quantity"] == f"over_{LIBRARY}") & known].drop_duplicates("n")


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
    post = " The dashes beside bars are the post's own ratios, on its GPU." if len(_told(tables)) else ""
    return (
        f"{said}{beside}. Another kernel is faster than {library} on {int((over > 1).sum())} of "
        f"{counted(len(over), 'square')} that both ran.{post}"
    )
