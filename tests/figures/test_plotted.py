"""The numbers that a figure has drawn."""

import csv
import io

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmm_roofline.figures import bars, cells, style
from spmm_roofline.figures.plotted import COLUMNS, plotted


def rows(figure, columns=COLUMNS[:6]):
    return [tuple(row[name] for name in columns) for row in csv.DictReader(io.StringIO(plotted(figure)))]


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


def test_whole_numbers_stay_whole_and_others_have_five_digits():
    figure, ax = axes()
    ax.plot([1_048_577, 2], [0.123456789, float("nan")], "o", label="mma_bt")
    assert rows(figure) == [("left", "point", "mma_bt", "1048577", "0.12346", "")]


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


def test_a_look_that_a_legend_has_twice_names_nothing():
    figure, ax = axes()
    ax.scatter([1], [2], color="#123456")
    ax.scatter([3], [4], color="#123456", label="said by the mark itself")
    figure.legend(handles=[ax.scatter([], [], color="#123456") for _ in range(2)], labels=["one", "another"])
    assert [row[2] for row in rows(figure)[:2]] == ["", "said by the mark itself"]


def test_axes_and_values_have_their_labels():
    figure = Figure()
    left, right = figure.subplots(1, 2, sharey=True)
    left.bar([0, 1], [2, 3])
    left.set(ylabel="GFLOP/s")
    right.plot([1], [2])
    figure.supxlabel("rows")
    assert set(rows(figure, COLUMNS[-3:])) == {("rows", "GFLOP/s", "GFLOP/s"), ("rows", "GFLOP/s", "")}


def test_numbers_name_the_groups_of_bars_but_not_the_places_of_a_scale():
    values = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[512, 1024])
    figure, ax = axes()
    bars.grouped(ax, values, {name: {"color": hue} for name, hue in zip(values, style.HUES, strict=False)})
    assert [(row[2], row[3]) for row in rows(figure)] == [("a", "512"), ("a", "1024"), ("b", "512"), ("b", "1024")]
    figure, ax = axes()
    ax.plot([0.3, 1.7], [5, 6])
    ax.set_xticks([0, 1, 2], ["0", "1", "2"])
    assert [row[3] for row in rows(figure)] == ["0.3", "1.7"]


def test_categories_of_seaborn_keep_their_names():
    figure, ax = axes()
    ax.bar(["few", "many"], [1, 2])
    ax.bar([-0.3, 1.3], [1, 2], width=0.2)
    assert [row[3] for row in rows(figure)] == ["few", "many", "few", "many"]


def test_a_heat_map_has_names_and_speed_ups_in_every_panel():
    figure, ax = axes()
    mesh = ax.pcolormesh(np.ma.masked_invalid([[1.0, np.nan], [-1.0, 0.0]]))
    ax.text(0.5, 0.5, "2.0")
    ax.set(xticks=[], yticks=[])
    cells.tell(mesh, ["mma", "fma"], ["mesh", "graph"], "speed-up")
    assert rows(figure, ("mark", "x", "y", "value", "value_of")) == [
        ("cell", "mma", "mesh", "2", "speed-up"),
        ("cell", "mma", "graph", "0.5", "speed-up"),
        ("cell", "fma", "graph", "1", "speed-up"),
    ]


def test_a_legend_of_axes_speaks_for_them_before_that_of_a_neighbour():
    figure = Figure()
    for ax, word in zip(figure.subplots(1, 3), ("left", "right", ""), strict=True):
        ax.scatter([1], [2], color="#123456")
        if word:
            ax.legend(handles=[ax.scatter([], [], color="#123456")], labels=[word])
    assert [row[2] for row in rows(figure)] == ["left", "right", ""], "both speak for the third, in different words"


def test_axes_of_a_grid_have_the_title_of_their_column_and_the_label_of_their_row():
    figure = Figure()
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax in axes.flat:
        ax.plot([1], [2], "o", label="mma_bt")
    for ax, title in zip(axes[0], ("N = 32", "N = 128"), strict=True):
        ax.set_title(title)
    for ax, label in zip(axes[:, 0], ("high", "low\nsynergy"), strict=True):
        ax.set_ylabel(label)
    assert rows(figure, ("panel", "y_axis")) == [
        *(("N = 32", "high"), ("N = 128", "high"), ("N = 32", "low, synergy"), ("N = 128", "low, synergy"))
    ]  # fmt: skip


def test_what_is_no_number_or_only_tells_a_name_is_left_out():
    figure, ax = axes()
    ax.plot([1, 2], [3, np.nan], label="mma_bt")
    style.tell(ax.axvspan(0, 1, facecolor="red"), "a name")
    assert rows(figure) == [("left", "line", "mma_bt", "1", "3", "")]


def test_a_series_is_what_it_was_called():
    figure, ax = axes()
    style.call(ax.plot([1], [2], "o", label="in the legend")[0], "in the numbers")
    style.tie(ax.scatter([3], [4]), pd.DataFrame({"kernel": ["mma_bt"]}))
    ax.text(5, 6, "7.0", label="mean")
    assert [row[2] for row in rows(figure)] == ["in the numbers", "mma_bt", "mean"]
