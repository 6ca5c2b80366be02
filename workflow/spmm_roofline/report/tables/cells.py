"""Cells, columns and the table that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...figures.numbers import PRECISIONS, times


@dataclass(frozen=True)
class Cell:
    """``value`` is the sort key if the text does not sort correctly; ``marks`` are beside the text, ``note`` below it.

    ``links`` are pairs of a text and the anchor in the page that it links to. ``lines`` are cells below each other,
    and ``title`` is what a browser shows beside the pointer.
    """

    text: str
    value: float | None = None
    marks: tuple[str, ...] = ()
    code: bool = False
    note: str = ""
    links: tuple[tuple[str, str], ...] = ()
    lines: tuple[Cell, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: list[list[Cell]] = field(default_factory=list)
    opened: bool = False
    """A reader sees it without a click, however long it is."""

    @property
    def long(self) -> bool:
        return len(self.rows) > 24


@dataclass(frozen=True)
class Column:
    """A column of a table: ``shown`` turns the attribute ``field`` of a row, or the whole row, into a cell."""

    title: str
    field: str | None
    shown: Callable[[Any], Cell]

    def cell(self, row: Any) -> Cell:
        return self.shown(row if self.field is None else getattr(row, self.field))


def table(caption: str, columns: Iterable[Column], rows: Iterable[Any], opened: bool = False) -> Table:
    """One line for each of ``rows``, objects with the attributes that the ``columns`` read."""
    columns = list(columns)
    lines = [[column.cell(row) for column in columns] for row in rows]
    return Table(caption, tuple(column.title for column in columns), lines, opened)


def missing(value: Any) -> bool:
    return value is None or value != value


def number(shown: Callable[[Any], str]) -> Callable[[Any], Cell]:
    """A number that ``shown`` turns into a text."""

    def cell(value: Any) -> Cell:
        return Cell(shown(None)) if missing(value) else Cell(shown(value), float(value))

    return cell


def count(value: Any) -> Cell:
    return Cell("–") if missing(value) else Cell(f"{int(value):,}", float(value))


def text(value: str) -> Cell:
    return Cell(value)


def text_or_dash(value: str | None) -> Cell:
    return Cell(value or "–")


def code(value: str, *marks: str) -> Cell:
    return Cell(value, None, tuple(mark for mark in marks if mark), code=True)


def precision(dtype: str) -> Cell:
    return Cell(PRECISIONS.get(dtype, dtype))


def interval(low: float, high: float, otherwise: str) -> Cell:
    """The interval of a geometric mean, sorted by its lower end; ``otherwise`` if there is none."""
    return Cell(otherwise) if missing(low) else Cell(f"{times(low)} – {times(high)}", float(low))


def wins(won: float, matrices: int) -> Cell:
    return Cell(f"{int(won)} of {matrices}", won / matrices)


#: The kernel of a row, marked if its code has changed since the measurement.
KERNEL = Column("kernel", None, lambda row: code(row.kernel, "stale" if row.stale else ""))
