"""A drawing as SVG text: shapes and words whose colours follow the theme of the page.

Numbers are written in tenths of a unit at most, and nothing depends on a clock or a random number: equal drawings have
equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

from spmm_roofline.figures.style import STUDIES

#: Width of every drawing, in units that are CSS pixels on a page that is wide enough.
WIDTH = 720
#: Hues of what belongs together, for example an entry and its slot; they are readable on white and on black.
HUES = tuple(
    STUDIES[study] for study in ("smat", "sptc", "cutespmm", "attention", "tcgnn", "gemm24", "scalar", "flagship")
)
BLUE, ORANGE, GREEN, PINK, VIOLET, OCHRE, SKY, RED = HUES
#: Width of a character in units of the font size: a monospaced one, and the mean of the text font.
MONOSPACED, PROPORTIONAL = 0.602, 0.55


def number(value: float) -> str:
    """``value`` with one decimal, without a trailing zero."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def hue(index: int) -> str:
    """The hue of the thing number ``index``; hues repeat."""
    return HUES[index % len(HUES)]


def wrapped(text: str, characters: int) -> list[str]:
    """``text`` in lines of at most ``characters``, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > characters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


class Drawing:
    """SVG of :data:`WIDTH` units; the height is where the lowest shape or word ends.

    ``title`` is its name and ``alt`` what it shows, for those who do not see it.
    """

    def __init__(self, title: str, alt: str) -> None:
        self.title, self.alt = title, alt
        self.bottom = 0.0
        self._parts: list[str] = []
        self._size_of_cells = 0.0

    def svg(self, identifier: str) -> str:
        """The text of the drawing, whose ids begin with ``identifier``."""
        body = "".join(self._parts).replace("url(#", f"url(#{identifier}-")
        box = f"-1 0 {WIDTH + 2} {number(self.bottom + 6)}"
        return (
            f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" viewBox="{box}" '
            f'role="img" aria-labelledby="{identifier}-title {identifier}-alt">'
            f'<title id="{identifier}-title">{escape(self.title)}</title>'
            f'<desc id="{identifier}-alt">{escape(self.alt)}</desc>'
            f'<defs><marker id="{identifier}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6.5" '
            'markerHeight="6.5" orient="auto-start-reverse"><path class="solid" d="M0 0.8 8 4 0 7.2z"/></marker></defs>'
            f"{body}</svg>"
        )

    @contextmanager
    def group(self, **attributes: str) -> Iterator[None]:
        """What is drawn inside has these attributes; an underscore in a name stands for a hyphen."""
        told = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
        self._parts.append(f"<g{told}>")
        yield
        self._parts.append("</g>")

    @contextmanager
    def cells(self, size: float, **attributes: str) -> Iterator[None]:
        """As :meth:`group`; monospaced words of this size that are drawn inside stand in the middle of cells."""
        with self.group(class_="cells", font_size=number(size), text_anchor="middle", **attributes):
            self._size_of_cells = size
            yield
            self._size_of_cells = 0.0

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str = "",
        colour: str = "",
        value: str = "",
        round: float = 0,
    ) -> None:
        """A rectangle; ``value`` marks it as the slot of an entry.

        ``kind`` is made of the words of ``pictures.css``: ``frame``, ``faint``, ``card``, ``tint``, ``fill``,
        ``dashed``, ``thick``.
        """
        self._reach(y + height)
        # The style sheet fills and strokes with the current colour.
        style = f' color="{colour}"' if colour else ""
        told = f' class="{kind}"' if kind else ""
        marked = f' data-v="{value}"' if value else ""
        corner = f' rx="{number(round)}"' if round else ""
        self._parts.append(
            f'<rect{told} x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
            f"{corner}{style}{marked}/>"
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str = "rule", colour: str = "", arrow: bool = False
    ) -> None:
        """A straight line, with a head at its end if it is an ``arrow``."""
        self.path([(x1, y1), (x2, y2)], kind, colour, arrow)

    def path(
        self, points: list[tuple[float, float]], kind: str = "rule", colour: str = "", arrow: bool = False
    ) -> None:
        """Straight lines through ``points``."""
        self._reach(max(y for _, y in points))
        steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        style = f' stroke="{colour}"' if colour else ""
        head = ' marker-end="url(#head)"' if arrow else ""
        self._parts.append(f'<path class="{kind}" d="M{steps}"{style}{head}/>')

    def grid(
        self, x: float, y: float, columns: int, rows: int, pitch: float, row_pitch: float = 0, every: int = 1
    ) -> None:
        """Faint lines of a grid, every ``every`` columns and rows, in one path."""
        down = row_pitch or pitch
        width, height = columns * pitch, rows * down
        self._reach(y + height)
        lines = [f"M{number(x + i * pitch)} {number(y)}v{number(height)}" for i in range(0, columns + 1, every)]
        lines += [f"M{number(x)} {number(y + i * down)}h{number(width)}" for i in range(0, rows + 1, every)]
        self._parts.append(f'<path class="grid" d="{"".join(lines)}"/>')

    def circle(self, x: float, y: float, radius: float, kind: str = "", colour: str = "") -> None:
        """A disc, or a ring if ``kind`` says ``ring``."""
        self._reach(y + radius)
        style = f' fill="{colour}"' if colour and "ring" not in kind else ""
        style += f' stroke="{colour}"' if colour and "ring" in kind else ""
        self._parts.append(f'<circle class="{kind}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"{style}/>')

    def text(
        self,
        x: float,
        y: float,
        words: object,
        kind: str = "",
        size: float = 11,
        anchor: str = "start",
        colour: str = "",
    ) -> None:
        """Words on a line whose baseline is at ``y``; ``kind``: ``mono``, ``bold``, ``quiet``."""
        self._reach(y + 0.25 * size)
        told = f' class="{kind}"' if kind else ""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        style = f' fill="{colour}"' if colour else ""
        place = f'x="{number(x)}" y="{number(y)}"'
        if (kind, size, anchor) == ("mono", self._size_of_cells, "middle"):
            told = at = ""
        else:
            place += f' font-size="{number(size)}"'
        self._parts.append(f"<text{told} {place}{at}{style}>{escape(str(words), quote=False)}</text>")

    def lines(
        self, x: float, y: float, words: str, width: float, kind: str = "", size: float = 11, leading: float = 1.35
    ) -> float:
        """Words broken into lines of at most ``width``; returns the baseline below the last one."""
        for line in wrapped(words, int(width / size / PROPORTIONAL)):
            self.text(x, y, line, kind, size)
            y += leading * size
        return y

    def _reach(self, y: float) -> None:
        self.bottom = max(self.bottom, y)
