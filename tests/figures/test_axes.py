"""Axes with shared lines of ticks show what Matplotlib's own show."""

import re

import pytest

from spmm_roofline.figures import style
from spmm_roofline.figures.renderer import rendered


def drawn(kind, scale, sharing):
    """A figure of two axes with data, as (texts, and number of paths of more than one point)."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.subplots(1, 2, sharey=sharing, subplot_kw=kind)
        for ax, factor in zip(axes, (1, 10), strict=True):
            ax.plot([1, 20, 300], [factor, 4 * factor, 90 * factor])
            ax.set_xscale(scale)
            ax.grid(True, which="major")
        figure.draw_without_rendering()
        places = [
            (tick.get_loc(), tick.label1.get_text(), tick.label1.get_visible())
            for ax in axes
            for axis in (ax.xaxis, ax.yaxis)
            for tick in axis.get_major_ticks()
        ]
        return places, sorted(re.findall(r"<text[^>]*>([^<]*)</text>", rendered(figure, 200)))


@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_ticks_and_labels_are_those_of_matplotlib(scale, sharing):
    from spmm_roofline.figures.axes import Axes

    own, plain = (drawn(kind, scale, sharing) for kind in ({"axes_class": Axes}, {}))
    assert own == plain
    assert own[1], "no label was drawn"


def test_lines_of_ticks_are_at_every_tick():
    import matplotlib
    from matplotlib.figure import Figure

    from spmm_roofline.figures.axes import Axes

    with matplotlib.rc_context(style.RC):
        figure = Figure()
        ax = figure.subplots(subplot_kw={"axes_class": Axes})
        ax.plot([0, 10], [0, 5])
        ax.grid(True)
        figure.draw_without_rendering()
        first = ax.xaxis.get_major_ticks()[0]
        shown = [tick.get_loc() for tick in ax.xaxis.get_major_ticks()]
        low, high = ax.get_xlim()
        assert sorted(set(first.gridline.get_xdata())) == [at for at in shown if low <= at <= high]


def test_limits_of_bars_are_those_of_matplotlib():
    from matplotlib.figure import Figure

    from spmm_roofline.figures.axes import Axes

    def limits(kind):
        ax = Figure().subplots(subplot_kw=kind)
        ax.bar([1, 2, 3], [4, -5, 0.1], width=0.7)
        ax.barh([7, 8], [0, 2], left=[1, -3])
        ax.axvspan(-2, -1)
        return ax.dataLim.bounds, ax.get_xlim(), ax.get_ylim()

    assert limits({"axes_class": Axes}) == limits({})
