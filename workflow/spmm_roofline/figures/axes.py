"""Axes with few artists: the ticks of an axis share their lines.

Matplotlib makes five artists for each tick and draws each one alone. A report has tens of thousands of ticks, which
took a third of the time of its figures, and thousands of bars. What is drawn does not differ. A version of Matplotlib
without the methods that are replaced here draws as before.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from matplotlib import axes, axis
from matplotlib.patches import Rectangle

#: Matplotlib's types do not tell of the methods that are replaced here.
plain: Any = axis
plain_axes: Any = axes


class _Tick(plain.Tick):
    """A tick with its own label. Its lines are those of the first tick of its axis and hold the places of all ticks."""

    along: str
    across: str
    draws_lines = False

    def update_position(self, loc: float) -> None:
        self._loc = loc
        self.label1.set(**{self.along: loc})

    def draw(self, renderer: Any) -> None:
        shown = [self.gridline, self.tick1line, self.tick2line] if self.draws_lines else []
        for artist in (*shown, self.label1, self.label2):
            if artist.get_visible():
                artist.draw(renderer)

    def again(self) -> _Tick:
        """Another tick of the same axis."""
        tick = copy.copy(self)
        tick.label1 = copy.copy(self.label1)
        tick.label1.set_fontproperties(self.label1.get_fontproperties())
        return tick

    def share(self, places: list[float]) -> None:
        """Put the lines at the places of all ticks."""
        self.gridline.set(**{f"{self.along}data": np.repeat(places, 3)})
        self.gridline.set(**{f"{self.across}data": np.tile((0, 1, np.nan), len(places))})
        for line, end in ((self.tick1line, 0), (self.tick2line, 1)):
            if line.get_visible():
                line.set(**{f"{self.along}data": places, f"{self.across}data": [end] * len(places)})


class _XTick(_Tick, plain.XTick):
    along, across = "x", "y"


class _YTick(_Tick, plain.YTick):
    along, across = "y", "x"


class _Axis(plain.Axis):
    """Makes the first tick as Matplotlib does, but not before it is shown, and the others from it."""

    #: What the ticks depended on when they were placed, and the ticks: the layout asks for them a dozen times.
    placed: tuple[Any, list] = (None, [])
    #: The same for the boxes of their labels.
    measured: tuple[Any, tuple[list, list]] = (None, ([], []))
    majorTicks: list
    minorTicks: list

    def _get_tick(self, major: bool) -> Any:
        known = self.majorTicks if major else self.minorTicks
        return known[0].again() if known else super()._get_tick(major)

    def _copy_tick_props(self, src: Any, dest: Any) -> None:
        pass

    def _update_ticks(self) -> list:
        now = (
            *(*self.get_view_interval(), *self.axes.bbox.bounds, self.get_transform()),
            *(self.get_major_locator(), self.get_major_formatter(), self.get_minor_locator()),
        )
        if self.placed[0] != now:
            ticks = super()._update_ticks()
            for group in (self.majorTicks, self.minorTicks) if ticks else ():
                own = [tick for tick in group if tick in ticks]
                for tick in own:
                    tick.draws_lines = tick is own[0]
                if own:
                    own[0].share([tick.get_loc() for tick in own])
            self.placed = (now, ticks)
        return self.placed[1]

    def _get_ticklabel_bboxes(self, ticks: list, renderer: Any) -> tuple[list, list]:
        now = (self.placed, self.get_figure(root=True).dpi)
        if self.measured[0] != now:
            self.measured = (now, super()._get_ticklabel_bboxes(ticks, renderer))
        return self.measured[1]

    def set_tick_params(self, *arguments: Any, **options: Any) -> None:
        super().set_tick_params(*arguments, **options)
        self.placed = (None, [])

    def reset_ticks(self) -> None:
        self.majorTicks, self.minorTicks = [], []
        self.placed = (None, [])


class _XAxis(_Axis, plain.XAxis):
    _tick_class = _XTick


class _YAxis(_Axis, plain.YAxis):
    _tick_class = _YTick


class Axes(plain_axes.Axes):
    """Axes as Matplotlib draws them, several times as fast."""

    def _init_axis(self) -> None:
        super()._init_axis()
        self.xaxis.__class__, self.yaxis.__class__ = _XAxis, _YAxis
        self.xaxis.reset_ticks()
        self.yaxis.reset_ticks()

    def _update_patch_limits(self, patch: Any) -> None:
        """Matplotlib looks for the extrema of each side of a bar as if it were a curve; its corners are enough."""
        if not isinstance(patch, Rectangle):
            super()._update_patch_limits(patch)
        elif patch.get_width() or patch.get_height():
            placed = patch.get_transform()
            along_x, along_y = placed.contains_branch_separately(self.transData)
            if along_x or along_y:
                corners = (placed - self.transData).transform(patch.get_path().vertices)
                self.update_datalim(corners, updatex=along_x, updatey=along_y)
