"""What heat maps of speed-ups share: empty cells that look like no value, and the key of the colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .style import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Told:
    """What the cells of a heat map stand for, of which only some axes show the names."""

    columns: Sequence[str]
    rows: Sequence[str]
    quantity: str
    """the quantity whose binary logarithm a colour is"""


def tell(cells: Any, columns: Iterable[str], rows: Iterable[str], quantity: str) -> None:
    """Note for the numbers behind the figure what ``cells`` stand for."""
    cells.told = Told([*columns], [*rows], quantity)


def hatch_empty(ax: Axes) -> None:
    """Hatch what no cell covers. Left blank it would look like a speed-up of 1 on a light page, and like the lowest on
    a dark one."""
    ax.patch.set(facecolor="none", edgecolor=FAINT, linewidth=0, hatch="//////")


def key(figure: Figure, cells: Any, axes: list[Axes], powers: Iterable[int], **options: Any) -> None:
    """The colours of ``cells``, which are binary logarithms of speed-ups, with a tick at each of ``powers`` of two."""
    bar = figure.colorbar(cells, ax=axes, aspect=30, pad=0.01, **options)
    powers = list(powers)
    bar.set_ticks(powers, labels=[f"{2.0**power:.3g}×" for power in powers])
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(color=INK)
