"""Figures of the report. One module is one figure, and the folder is the registry.

A figure's docstring is its title (first line) and its caption. It states the section in which it stands with its
place there (``SECTION``, ``PLACE``), the columns of ``cases`` for each combination of which it is drawn anew
(``PER``), and has two functions on a dict of tables that hold only those rows: ``draw(tables, styles)`` gives a
Matplotlib figure, or None where there is nothing to show, and ``says(tables)`` the one sentence that the data support.
A figure in the form of a paper's own stands in the section ``study`` and names its ``STUDY``; a suite's may name one
whose section points to it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, "pd.DataFrame"]

#: What tells a case of a kernel from all others.
CASE = ["device", "suite", "kernel", "matrix", "n", "l2"]


@dataclass(frozen=True)
class Kind:
    """A registered figure."""

    name: str
    title: str
    caption: str
    section: str
    place: int
    per: tuple[str, ...]
    draw: Callable
    says: Callable
    study: str = ""


@dataclass(frozen=True)
class Drawn:
    """One figure as it stands in a report: ``of`` is the combination of ``per`` that it shows.

    ``tables`` are the names of those that it was drawn from.
    """

    kind: Kind
    of: dict[str, str]
    svg: str
    says: str
    tables: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "-".join([self.kind.name, *map(str, self.of.values())])

    @property
    def alternative(self) -> str:
        return f"{self.kind.title}. {self.says}"

    @property
    def inline(self) -> str:
        from .inlining import inline

        return inline(self.svg, self.name, self.alternative)


def kinds() -> list[Kind]:
    """All figures: every module of this folder that can draw."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(module, "draw"):
            title, _, caption = module.__doc__.partition("\n")
            name = module.__name__.rpartition(".")[2]
            per = tuple(module.PER)
            place = (module.SECTION, module.PLACE)
            words = (title.rstrip("."), " ".join(caption.split()))
            study = getattr(module, "STUDY", "")
            found.append(Kind(name, *words, *place, per, module.draw, module.says, study))
    return sorted(found, key=lambda kind: (kind.section, kind.place, kind.name))


def draw_all(tables: Tables) -> Iterator[Drawn]:
    """Every figure for every combination of its ``PER`` in ``tables["cases"]``, in order."""
    import matplotlib

    from . import style

    tables = _with_cases(tables)
    styles = style.kernel_styles(tables["cases"])
    with matplotlib.rc_context(style.RC):
        for kind in kinds():
            for of, part in _parts(tables, kind.per):
                seen = _Seen(part)
                figure = kind.draw(seen, styles)
                if figure is not None:
                    says = kind.says(seen)
                    yield Drawn(kind, of, style.svg(figure), says, tuple(sorted(seen.names)))


def _with_cases(tables: Tables) -> Tables:
    """The tables, where a row is about one case with the number of its row in ``cases`` as the column ``case``."""
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


class _Seen(dict):
    """Tables that remember which of them were looked at."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> pd.DataFrame:
        self.names.add(name)
        return super().__getitem__(name)


def _parts(tables: Tables, per: tuple[str, ...]) -> Iterator[tuple[dict[str, str], Tables]]:
    if not per:
        yield {}, tables
        return
    combinations = tables["cases"][list(per)].drop_duplicates().sort_values(list(per))
    for values in combinations.itertuples(index=False, name=None):
        of = dict(zip(per, values, strict=True))
        yield of, {name: _rows(table, of) for name, table in tables.items()}


def _rows(table: pd.DataFrame, of: Mapping[str, str]) -> pd.DataFrame:
    """The rows that agree in all columns of ``of`` that the table has."""
    for column, value in of.items():
        if column in table:
            table = table[table[column] == value]
    return table
