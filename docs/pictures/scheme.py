"""The common shapes of kernel drawings: A left, B above, C between them, and who reads and writes what.

Rows of C lie beside their rows of A, columns of C below their columns of B. A colour is always the same actor: a CTA is
a dashed frame, a warp or lane group blue, one thread red, shared memory violet, what is skipped grey.
"""

from __future__ import annotations

from collections.abc import Iterable

from spmm_roofline.kernels.head import Head

from .svg import BLUE, GREEN, OCHRE, ORANGE, PROPORTIONAL, RED, VIOLET, Drawing, wrapped

CTA, GROUP, THREAD, SHARED, OTHER_GROUP, THIRD_GROUP = OCHRE, BLUE, RED, VIOLET, GREEN, ORANGE
#: Cells of A, B and C, each 12×12, in units of the drawing.
CELL, ROW, DEPTH, SIDE = 8.0, 7.0, 5.5, 12
#: Width of a panel, and the distance of two beside each other.
PANEL, APART = 350.0, 20.0

#: Columns of the entries in each row of the A that is drawn.
PATTERN = (
    (1, 4),
    (0, 5, 9),
    (2, 3),
    (1, 3, 6, 10),
    (4, 7),
    (0, 3, 4, 8, 11),
    (5,),
    (2, 6, 9),
    (7, 8),
    (1, 7, 10),
    (3, 9, 11),
    (5, 8),
)


class Scene:
    """One product at (x, y) of a drawing; cells count from 0, ends are excluded.

    ``names``: of the left, the upper and the resulting matrix. ``sparse``: which of the first two has entries.
    """

    def __init__(
        self, d: Drawing, x: float, y: float, names: str = "ABC", sparse: str = "A", entries: bool = True
    ) -> None:
        self.d, self.names = d, names
        wide, deep, high = SIDE * CELL, SIDE * DEPTH, SIDE * ROW
        left, upper, result = names
        self.at = {
            left: (x, y + deep + 8, CELL, ROW),
            upper: (x + wide + 8, y, CELL, DEPTH),
            result: (x + wide + 8, y + deep + 8, CELL, ROW),
        }
        for left_of, top, across, down in self.at.values():
            d.rect(left_of, top, SIDE * across, SIDE * down, "paper frame")
        d.text(x, y + deep + 3, left, "bold", 11)
        d.text(x + wide + 8 + wide + 4, y + 10, upper, "bold", 11)
        d.text(x + wide + 8 + wide + 4, y + deep + 8 + high - 2, result, "bold", 11)
        self.bottom = y + deep + 8 + high
        self.right = x + 2 * wide + 8
        if entries:
            for i, others in enumerate(PATTERN):
                for j in others:
                    self.mark(sparse, *((i, j) if sparse == left else (j, i)), "faint")

    def mark(self, name: str, row: int, column: int, colour: str) -> None:
        """An entry; ``faint`` in place of a colour for one that nobody reads now."""
        x, y, across, down = self.at[name]
        place = (x + column * across + 1.5, y + row * down + 1.2, across - 3, down - 2.4)
        self.d.rect(*place, "hole" if colour == "faint" else "fill", "" if colour == "faint" else colour)

    def area(
        self, name: str, rows: tuple[float, float], columns: tuple[float, float], colour: str, kind: str = "tint frame"
    ) -> None:
        """A rectangle of cells of one of the matrices."""
        x, y, across, down = self.at[name]
        (top, bottom), (left, right) = rows, columns
        self.d.rect(x + left * across, y + top * down, (right - left) * across, (bottom - top) * down, kind, colour)

    def cta(self, name: str, rows: tuple[float, float], columns: tuple[float, float]) -> None:
        """What one CTA covers."""
        self.area(name, rows, columns, CTA, "thick dashed frame")

    def row(
        self, row: int, colour: str, columns: tuple[float, float] = (0, SIDE), some: Iterable[int] | None = None
    ) -> None:
        """Entries of a row of A, and the rows of B that they need, in some columns."""
        for j in PATTERN[row] if some is None else some:
            self.mark(self.names[0], row, j, colour)
            self.area(self.names[1], (j, j + 1), columns, colour)


def panel(d: Drawing, x: float, y: float, head: Head) -> float:
    """Name and idea of a kernel; returns where its scene begins."""
    d.text(x, y + 11, head.name, "mono bold", 12)
    if head.after:
        d.text(x + 12 * 0.602 * len(head.name) + 10, y + 11, f"after {head.after}", "quiet", 9.5)
    y += 26
    for line in wrapped(head.idea, int(PANEL / 9.5 / PROPORTIONAL)):
        d.text(x, y, line, "quiet", 9.5)
        y += 12.5
    return y + 2


def notes(d: Drawing, x: float, y: float, width: float, *told: tuple[str, str]) -> float:
    """Sentences with a colour, below one another; returns the baseline after the last one."""
    for colour, text in told:
        if colour:
            d.rect(x, y - 7.5, 8, 8, "tint frame" if colour != CTA else "dashed thick frame", colour)
        for line in wrapped(text, int((width - 13) / 9.5 / PROPORTIONAL)):
            d.text(x + 13, y, line, "", 9.5)
            y += 12.5
        y += 3
    return y


def bars(
    d: Drawing,
    x: float,
    y: float,
    rows: Iterable[tuple[str, Iterable[tuple[float, float, str, str]]]],
    label: float = 52,
) -> float:
    """Work over time, a row per unit; each bar is (begin, end, colour, word). Returns the lower edge."""
    for name, row in rows:
        d.text(x, y + 10, name, "quiet", 9.5)
        for begin, end, colour, word in row:
            d.rect(x + label + begin, y, end - begin - 1, 13, "tint frame", colour)
            if word:
                d.text(x + label + (begin + end) / 2, y + 9.8, word, "", 8.2, "middle")
        y += 17
    return y
