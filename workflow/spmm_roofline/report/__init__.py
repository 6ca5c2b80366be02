"""The stage *report*: tables of evidence in, one page that opens offline out.

Text that holds for any data is in the template folder. Text that depends on the data is a sentence of :mod:`answer` or
of a figure, or a cell of :mod:`tables`. Dates come from the rows, never from the clock: equal tables give equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..forked import Forked, end, processors

if TYPE_CHECKING:
    import pandas as pd


def build(
    analysis: str | Path,
    config: Mapping[str, Any],
    heads: Mapping[str, Mapping[str, Any]],
    template_folder: str | Path,
    html: str | Path,
    figures: str | Path,
    provenance: Mapping[str, Any],
    processes: int = 1,
    suites: Collection[str] | None = None,
) -> None:
    """Write the page ``html`` and every figure as ``<figures>/<name>.svg``.

    ``analysis``: folder with the CSVs that the stage *analysis* writes; ``config``: the whole configuration; ``heads``:
    kernel → head as plain values, in ladder order; ``template_folder``: page, style and prose; ``provenance``: facts
    about the measuring code (``version``, ``protocol``, ``timing``, ``tolerances``, ``suites``: name → title,
    ``compiler``), every entry optional; ``processes``: the number of processes that draw the figures; ``suites``: those
    that have a section of their own, None for all. Raises
    :class:`contracts.ContractError` if a table breaks its contract, or if a figure on disk is not the one on the page,
    and :class:`figures.FigureError` if a figure cannot be drawn; the page and the figures of before then stay.
    """
    from ..analysis import read
    from ..figures import draw_all, load
    from . import drawings
    from .page import packed_rows, render

    tables = _plain(read(analysis, processes, meanwhile=load))
    packing = Forked(packed_rows, tables) if processes > 1 and processors() > 1 else None
    try:
        drawn = list(draw_all(tables, processes, suites))
    except BaseException:
        if packing:  # Python would wait at its end for a process that waits for a reader
            end([packing])
        raise
    rows = packing.result() if packing else None
    page = render(tables, drawn, config, heads, Path(template_folder), provenance, suites, rows, processes)
    # Nothing is written before everything is made, so that an error leaves the old page and its figures as they are.
    drawings.write(drawn, Path(figures))
    contracts.write_text(html, page)
    drawings.check(Path(html), Path(figures))


def _plain(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The tables with texts as plain objects, which compare in a fifth of the time of pandas' strings, and columns of
    one type together in memory, which a copy has."""
    return {
        name: table.astype({column: object for column, dtype in table.dtypes.items() if dtype == "string"}).copy()
        for name, table in tables.items()
    }
