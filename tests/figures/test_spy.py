"""The axes and the sentence of a spy plot of a small matrix."""

import pandas as pd
import pytest

from spmm_roofline.figures import spy


def tables(m, k, grid):
    return {"matrices": pd.DataFrame([{"matrix": "mine", "m": m, "k": k, "occupancy": grid}])}


@pytest.mark.parametrize(
    ("m", "k", "grid"), [(1, 1, "1"), (3, 3, "100/010/001"), (2, 70_000, "12/01"), (4, 5, "00/00")]
)
def test_ticks_count_whole_rows_and_columns_from_1(m, k, grid):
    figure = spy.draw(tables(m, k, grid), None)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    for axis, last in ((ax.xaxis, k), (ax.yaxis, m)):
        low, high = sorted(axis.get_view_interval())
        shown = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
        assert shown and all(float(tick).is_integer() and 1 <= tick <= last for tick in shown)
    assert ax.yaxis.get_view_interval()[0] > ax.yaxis.get_view_interval()[1], "row 1 is at the top"


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ("1", "1 of 1 cell holds a non-zero."),
        ("10/00", "1 of 4 cells holds a non-zero."),
        ("10/01", "2 of 4 cells hold a non-zero; 100 % of these lie within a twentieth of the diagonal."),
        ("00/00", "0 of 4 cells hold a non-zero."),
    ],
)
def test_the_verb_agrees_with_the_cells(grid, said):
    assert spy.says(tables(4, 4, grid)) == said
