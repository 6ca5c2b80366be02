"""Products of the thesis on 2:4 tiles: rates as the thesis counts them, and its mixtures of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ladders import ordered
from .numbers import PRECISIONS, counted, listed, times
from .style import LIBRARIES, apart, timed, without_variants

if TYPE_CHECKING:
    import pandas as pd

STUDY = "sptc"

PATTERNS = ("only dense tiles", "only 2:4 tiles", "both")
#: How many dense and 2:4 tiles a synthetic matrix has, in its name: in per cent of all tiles or, where the name says
#: so, per block row; then its size if there are several.
MIXTURE = r"^(?P<full>\d+)d_(?P<sparse24>\d+)s(?P<per_row>-per-row)?(?:-\d+)?$"


def rated(tables) -> pd.DataFrame:
    """Rows of libraries and of kernels with sums in half precision, with the column ``tflops``: 2·256 operations for
    each stored 16×16 tile and column of B over the time (section 3.1.1), for every kernel alike."""
    cases = timed(tables["cases"])
    rows = without_variants(cases[cases["precision"] == "float16"])
    if not (rows["study"] == STUDY).any():
        return rows.head(0).assign(tflops=0.0)
    rows = rows[(rows["dtype_accumulator"] == "float16") | rows["study"].isin(LIBRARIES)]
    known = tables["matrices"].drop_duplicates("matrix").set_index("matrix")["tiles_16x16"]
    tiles = rows["matrix"].map(known).astype("float64")
    return rows.assign(tflops=2e-9 * 256 * tiles * rows["n"] / rows["time_ms"]).dropna(subset="tflops")


def mixed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows on mixtures of tiles, with the counts ``full`` and ``sparse24`` and the ``pattern`` of the thesis."""
    counts = rows["matrix"].str.extract(MIXTURE)[["full", "sparse24"]].astype("float64")
    rows = rows.assign(full=counts["full"], sparse24=counts["sparse24"]).dropna(subset="full")
    pattern = (rows["full"] > 0).map({True: PATTERNS[0], False: PATTERNS[1]})
    return rows.assign(pattern=pattern.mask((rows["full"] > 0) & (rows["sparse24"] > 0), PATTERNS[2]))


def reading(rows: pd.DataFrame) -> str:
    """How XdYs is read for the mixtures of ``rows``."""
    per_row = rows["matrix"].str.contains("-per-row").any()
    return "X and Y are tiles per block row" if per_row else "X and Y are percentages of all tiles"


def ladder(tables, rows: pd.DataFrame) -> list[str]:
    """Kernels of ``rows`` from the lowest rung to the highest, libraries last."""
    libraries = set(rows.loc[rows["study"].isin(LIBRARIES), "kernel"])
    return sorted(ordered(tables["ladder"], rows["kernel"]), key=lambda kernel: kernel in libraries)


def looks(tables, rows: pd.DataFrame, styles) -> dict[str, dict]:
    """Distinct colours and markers of the kernels of ``rows``, in the order of :func:`ladder`."""
    found = apart(styles, rows)
    return {kernel: found[kernel] for kernel in ladder(tables, rows)}


def lines(ax, rows: pd.DataFrame, over: str, looks: dict[str, dict]) -> None:
    """The rate of each kernel over a column of ``rows``, libraries dashed."""
    for kernel, look in looks.items():
        own = rows[rows["kernel"] == kernel].sort_values(over)
        dashes = "--" if own["study"].isin(LIBRARIES).any() else "-"
        ax.plot(
            own[over], own["tflops"], linewidth=1.3, linestyle=dashes, markersize=4.5, markeredgewidth=0, label=kernel,
            **look,
        )  # fmt: skip


def libraries(rows: pd.DataFrame) -> str:
    """The libraries' kernels of ``rows`` with the dtype of their sums, which differs from the ladder's FP16."""
    own = rows[rows["study"].isin(LIBRARIES)].drop_duplicates("kernel").sort_values("kernel")
    sums = zip(own["kernel"], own["dtype_accumulator"], strict=True)
    return listed([f"{kernel} ({PRECISIONS[dtype]} sums)" for kernel, dtype in sums]) if len(own) else ""


def beside(rows: pd.DataFrame) -> str:
    """Speed-up of the ladder's fastest kernel over the libraries', matrix by matrix; empty if either has no time."""
    several = rows.loc[rows["study"].isin(LIBRARIES), "kernel"].nunique() > 1
    library = rows[rows["study"].isin(LIBRARIES)].groupby("matrix")["time_ms"].min()
    own = rows[~rows["study"].isin(LIBRARIES)].groupby("matrix")["time_ms"].min()
    over = (library / own).dropna()
    if over.empty:
        return ""
    ends = f"{times(over.min())} ({over.idxmin()}) to {times(over.max())} ({over.idxmax()})"
    both = len(over) == rows["matrix"].nunique()
    where = "" if both else f", on the {counted(len(over), 'matrix', 'matrices')} that both ran"
    ratio = ends if len(over) > 1 else times(over.min())
    return f"; the ladder's fastest is {ratio} as fast as {'the fastest of ' * several}{libraries(rows)}{where}"
