"""Figures of the report. One module is one figure, and the folder is the registry.

The docstring of a figure is its title (first line) and its caption. ``SECTION`` and ``ORDER`` say where it appears on
the page. It is drawn once for each combination of values in the columns ``PER`` of ``cases``, or of the table that
``OF`` names. Its two functions take a
dict of tables that hold only the rows of that combination: ``draw(tables, styles)`` returns a Matplotlib figure, or
None if there is nothing to show; ``says(tables)`` returns the one sentence that the data support.

A figure in the form of a paper's own has the section ``study``, names its ``STUDY`` and in ``PAPER`` the number of that
figure. A figure of a suite may name a
``STUDY`` too; the section of that study then links to it.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, "pd.DataFrame"]

#: Columns that identify a case of a kernel.
CASE = list(contracts.table("analysis_cases").key)


@dataclass(frozen=True)
class Kind:
    """A registered figure."""

    name: str
    title: str
    caption: str
    section: str
    order: int
    per: tuple[str, ...]
    draw: Callable
    says: Callable
    study: str = ""
    table: str = "cases"
    """the table whose combinations of ``per`` have a figure each"""
    paper: str = ""
    """the place in the study's text that the figure is the form of, such as ``figure 9``"""


@dataclass(frozen=True)
class Drawn:
    """One figure of a report.

    ``of`` is the combination of ``per`` that it shows; ``tables`` are the names of the tables that it was drawn from.
    """

    kind: Kind
    of: dict[str, str]
    svg: str
    says: str
    tables: tuple[str, ...] = ()
    plotted: str = ""
    """CSV of what it draws"""
    element: str = ""
    """the figure as an element of the page, where the process that drew it made it"""

    @property
    def name(self) -> str:
        return "-".join([self.kind.name, *map(str, self.of.values())])

    @property
    def alternative(self) -> str:
        return f"{self.kind.title}. {self.says}"

    @property
    def inline(self) -> str:
        from .inlining import inline

        return self.element or inline(self.svg, self.name, self.alternative)


class FigureError(Exception):
    """A figure that cannot be drawn; the message names its module, what it was to show, the error and its line."""


def kinds() -> list[Kind]:
    """All figures: every module of this folder that can draw."""
    found = []
    for entry in pkgutil.iter_modules(__path__):
        module: Any = importlib.import_module(f"{__name__}.{entry.name}")
        if hasattr(module, "draw"):
            title, _, caption = module.__doc__.partition("\n")
            name = module.__name__.rpartition(".")[2]
            per = tuple(module.PER)
            where = (module.SECTION, module.ORDER)
            words = (title.rstrip("."), " ".join(caption.split()))
            of = (getattr(module, "STUDY", ""), getattr(module, "OF", "cases"), getattr(module, "PAPER", ""))
            found.append(Kind(name, *words, *where, per, module.draw, module.says, *of))
    return sorted(found, key=lambda kind: (kind.section, kind.order, kind.name))


def load() -> None:
    """Import what draws, before processes are forked that would each import it."""
    import matplotlib.figure  # noqa: F401
    import seaborn  # noqa: F401

    kinds()


def draw_all(
    tables: Tables, processes: int = 1, suites: Collection[str] | None = None, only: Collection[str] | None = None
) -> Iterator[Drawn]:
    """Every figure for every combination of its ``PER`` in ``tables["cases"]``, in order.

    ``suites``: those whose own figures are drawn; ``only``: the modules whose figures are drawn; None for all.
    ``processes`` forked workers divide the figures among them; a system that cannot fork uses one process. The figures
    do not depend on the number of processes.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from . import style

    tables = _with_cases(tables)
    styles = style.kernel_styles(tables["cases"])
    if processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from (figure for _, figure in _draw(tables, styles, suites, only, lambda number: True))
        return
    fork = multiprocessing.get_context("fork")
    taken = fork.Value("l", 0)

    load()
    with ProcessPoolExecutor(processes, fork, _inherit, (tables, styles, suites, only, taken)) as pool:
        workers = [pool.submit(_draw_some) for _ in range(processes)]
        drawn = [numbered for worker in workers for numbered in worker.result()]
    yield from (figure for _, figure in sorted(drawn, key=lambda numbered: numbered[0]))


_inherited: dict[str, Any] = {}


def _inherit(
    tables: Tables,
    styles: dict[str, dict],
    suites: Collection[str] | None,
    only: Collection[str] | None,
    taken: Any,
) -> None:
    _inherited.update(tables=tables, styles=styles, suites=suites, only=only, taken=taken)


def _draw_some() -> list[tuple[int, Drawn]]:
    """The figures of this process: every process goes through all figures in order and draws those it takes first."""

    def take(number: int) -> bool:
        taken = _inherited["taken"]
        with taken.get_lock():
            first = taken.value == number
            taken.value += first
        return first

    inherited = _inherited
    return list(_draw(inherited["tables"], inherited["styles"], inherited["suites"], inherited["only"], take))


def _draw(
    tables: Tables,
    styles: dict[str, dict],
    suites: Collection[str] | None,
    only: Collection[str] | None,
    wanted: Callable[[int], bool],
) -> Iterator[tuple[int, Drawn]]:
    """The figures whose numbers are ``wanted``, each with its number."""
    import matplotlib

    from . import style

    # Garbage collection would scan tables and styles repeatedly, which takes a sixth of the time.
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    combinations = (
        (kind, of)
        for kind in kinds()
        if only is None or kind.name in only
        for of in _combinations(tables, kind.per, kind.table)
        if kind.section != "suite" or suites is None or of["suite"] in suites
    )
    with matplotlib.rc_context(style.RC):
        for number, (kind, of) in enumerate(combinations):
            if wanted(number):
                try:
                    drawn = _drawn(kind, of, tables, styles)
                except Exception as error:
                    raise FigureError(_failed(kind, of, error)) from error
                if drawn is not None:
                    yield number, drawn
    gc.set_threshold(*thresholds)


def _drawn(kind: Kind, of: dict[str, str], tables: Tables, styles: dict[str, dict]) -> Drawn | None:
    """One figure, or None if it has nothing to show."""
    from . import style
    from .plotted import plotted

    own = _Selection(tables, of)
    figure = kind.draw(own, styles)
    if figure is None:
        return None
    says = kind.says(own)
    numbers = plotted(figure)
    drawn = Drawn(kind, of, style.svg(figure), says, tuple(sorted(own)), numbers)
    return replace(drawn, element=drawn.inline)


def _failed(kind: Kind, of: Mapping[str, str], error: Exception) -> str:
    """What went wrong in a figure, and where: the last line of its own module that ran."""
    module = Path(__file__).with_name(f"{kind.name}.py")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == module]
    at = f"{module}, line {lines[-1]}" if lines else str(module)
    shown = f" of {', '.join(map(str, of.values()))}" if of else ""
    return f"the figure {kind.name}{shown} cannot be drawn: {type(error).__name__}: {error} ({at})"


def _with_cases(tables: Tables) -> Tables:
    """The tables; a table with one case per row gets the column ``case``, the row number of that case in ``cases``."""
    cases = tables["cases"].assign(case=range(len(tables["cases"])))
    numbers = cases[[*CASE, "case"]]
    return {
        name: cases
        if name == "cases"
        else table.merge(numbers, on=CASE, how="left")
        if set(CASE) <= {*table}
        else table
        for name, table in tables.items()
    }


class _Selection(dict):
    """The rows of each table that agree with ``of``, selected when a figure asks for the table."""

    def __init__(self, tables: Tables, of: Mapping[str, str]) -> None:
        self.tables, self.of = tables, of

    def __missing__(self, name: str) -> pd.DataFrame:
        self[name] = _rows(self.tables[name], self.of)
        return self[name]


def _combinations(tables: Tables, per: tuple[str, ...], table: str = "cases") -> Iterator[dict[str, str]]:
    if not per:
        yield {}
        return
    combinations = tables[table][list(per)].drop_duplicates().sort_values(list(per))
    for values in combinations.itertuples(index=False, name=None):
        yield dict(zip(per, values, strict=True))


def _rows(table: pd.DataFrame, of: Mapping[str, str]) -> pd.DataFrame:
    """The rows that agree in all columns of ``of`` that the table has."""
    columns = tuple(column for column in of if column in table)
    if not columns:
        return table
    positions, taken = _selected(table, columns)
    values = tuple(of[column] for column in columns)
    if values not in taken:
        taken[values] = table.take(positions.get(values, []))
    return taken[values]


#: Combination of values → the positions of its rows, and those rows, for the figures that are of the same combination.
_Selected = tuple[dict[tuple[str, ...], list[int]], dict[tuple[str, ...], "pd.DataFrame"]]
#: Table, by identity, and columns → the table itself and its :data:`_Selected`.
_found: dict[tuple[int, tuple[str, ...]], tuple[pd.DataFrame, _Selected]] = {}


def _selected(table: pd.DataFrame, columns: tuple[str, ...]) -> _Selected:
    """What is known of selections by ``columns``: two hundred figures select from one table."""
    kept, selected = _found.get((id(table), columns), (None, ({}, {})))
    if kept is not table:
        selected = {}, {}
        for position, values in enumerate(zip(*(table[column].tolist() for column in columns), strict=True)):
            selected[0].setdefault(values, []).append(position)
        _found[id(table), columns] = (table, selected)
    return selected
