"""The numbers that a figure has drawn."""

import csv
import io

import numpy as np
from matplotlib.figure import Figure

from spmm_roofline.figures.plotted import COLUMNS, plotted


def rows(figure):
    return [tuple(row.values()) for row in csv.DictReader(io.StringIO(plotted(figure)))]


def axes(title="left"):
    figure = Figure()
    ax = figure.add_subplot(title=title)
    return figure, ax


def test_the_columns_are_named():
    assert plotted(Figure()) == ",".join(COLUMNS) + "\n"


def test_points_and_lines_keep_their_numbers_and_their_words():
    figure, ax = axes()
    ax.plot([1, 2], [3, 4.5], "o", label="mma_bt")
    ax.plot([0, 1], [0, 1], color="red")
    ax.axhline(7)  # belongs to the axes, not to the data
    assert rows(figure) == [
        ("left", "point", "mma_bt", "1", "3", ""),
        ("left", "point", "mma_bt", "2", "4.5", ""),
        ("left", "line", "", "0", "0", ""),
        ("left", "line", "", "1", "1", ""),
    ]


def test_a_bar_has_its_category_and_its_length():
    figure, ax = axes("bars")
    ax.barh([0, 1], [2.5, 4])
    ax.set_yticks([0, 1], ["rows", "bricks"])
    assert rows(figure) == [("bars", "bar", "", "0", "rows", "2.5"), ("bars", "bar", "", "0", "bricks", "4")]


def test_cells_have_their_value_where_there_is_one():
    figure, ax = axes("cells")
    values = np.ma.masked_invalid([[1.0, np.nan], [3.0, 4.0]])
    ax.imshow(values, extent=(0, 2, 2, 0))
    ax.set_xticks([0.5, 1.5], ["a", "b"])
    assert rows(figure) == [
        ("cells", "cell", "", "a", "0.5", "1"),
        ("cells", "cell", "", "a", "1.5", "3"),
        ("cells", "cell", "", "b", "1.5", "4"),
    ]
    mesh, ax = axes("cells")
    ax.pcolormesh(values)
    ax.set_xticks([0.5, 1.5], ["a", "b"])
    assert rows(mesh) == rows(figure)


def test_a_legend_names_what_has_its_look():
    figure, ax = axes()
    ax.scatter([1], [2], color="#123456")
    figure.legend(handles=[ax.scatter([], [], color="#123456")], labels=["pruned"])
    assert rows(figure)[0][2] == "pruned"
