"""Bars: each share as wide as its rows, and numbers of papers above the bar that they belong to."""

import matplotlib
import pandas as pd
import pytest

from spmm_roofline.figures import bars, break_even, preprocessing, stalls, style


def drawn(draw, *arguments):
    """The axes of a figure on which ``draw`` has drawn."""
    with matplotlib.rc_context(style.RC):
        figure, (ax,) = style.canvas(1, 1, 3)
        draw(ax, *arguments)
        style.svg(figure)
    return ax


def shares(ax):
    """For each bar from the top its shares from left to right: colour → width."""
    found = {}
    for patch in sorted(ax.patches, key=lambda patch: patch.get_x()):
        if patch.get_width():
            row = round(patch.get_y() + patch.get_height() / 2)
            found.setdefault(row, {})[matplotlib.colors.to_hex(patch.get_facecolor())] = round(patch.get_width(), 6)
    return [found[row] for row in sorted(found)]


RED, BLUE = "#ff0000", "#0000ff"


def test_bars_are_divided_by_rows_or_by_what_they_count():
    rows = pd.DataFrame({"kernel": ["a", "a", "a", "a", "b"], "part": ["x", "y", "y", "y", "x"]})
    ax = drawn(bars.divided, rows, "part", {"x": RED, "y": BLUE}, ["b", "a"])
    assert [list(row.items()) for row in shares(ax)] == [[(RED, 100.0)], [(RED, 25.0), (BLUE, 75.0)]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
    assert [label.get_text() for label in ax.get_xticklabels()][-1] == "100"
    weighed = rows.assign(count=[9.0, 1.0, 0.0, 0.0, 2.0])
    ax = drawn(bars.divided, weighed, "part", {"x": RED, "y": BLUE}, ["a", "b"], "count")
    assert shares(ax) == [{RED: 90.0, BLUE: 10.0}, {RED: 100.0}]


def test_the_middle_of_a_bar_is_where_it_stands():
    values = pd.DataFrame({"a": [1.0, None], "b": [2.0, 3.0], "c": [4.0, 5.0]}, index=[512, 1024])
    looks = {name: {"color": colour} for name, colour in zip(values, style.HUES, strict=False)}
    ax = drawn(bars.grouped, values, looks)
    stands = {round(patch.get_height()): patch.get_x() + patch.get_width() / 2 for patch in ax.patches}
    assert len(stands) == 5, "NaN leaves a gap"
    for group in values.index:
        for name, value in values.loc[group].dropna().items():
            assert bars.middle(values, group, name) == pytest.approx(stands[value])


def test_a_case_is_in_the_class_of_the_multiplications_that_it_takes():
    counts = pd.DataFrame({"break_even": pd.array([0, 1, 2, 10, 11, 1000, 1001, None], dtype="Int64")})
    assert list(break_even._paid(counts)) == [
        *("at once", "at once", "10 at most", "10 at most", "100 at most", "1000 at most", "more", "never")
    ]  # fmt: skip


def test_matrices_on_which_packing_never_pays_are_below_the_end_of_a_line():
    counts = {"some": [1, 4, None, None], "all": [2, 2, 2, 2], "none": [None] * 4}
    rows = pd.DataFrame(
        [
            {"kernel": kernel, "study": "cutespmm", "matrix": f"m{number}", "n": 128, "speedup": 1.0}
            | {"preprocess_products": 3.0, "break_even": count}
            for kernel, own in counts.items()
            for number, count in enumerate(own)
        ]
    )
    rows["break_even"] = rows["break_even"].astype("Int64")
    _, paid = preprocessing.draw({"synergy": rows}, style.kernel_styles(rows)).axes
    assert paid.get_xlim() == (1, 4)
    reached = []
    for line in paid.get_lines():
        inside = [share for x, share in zip(*line.get_data(), strict=True) if x <= 4]
        reached.append(inside[-1])
        assert line.get_xdata()[-1] >= 4, "the line goes up to the edge"
    assert sorted(reached) == [50.0, 100.0], "a kernel that never gains has no line"


def test_lines_of_one_hue_differ_in_their_dashes():
    about = {"study": "cutespmm", "n": 128, "speedup": 1.0, "preprocess_products": 3.0, "break_even": 2}
    kernels = [f"k{number}" for number in range(20)]
    rows = pd.DataFrame([about | {"kernel": kernel, "matrix": f"m{n}"} for kernel in kernels for n in range(4)])
    _, paid = preprocessing.draw({"synergy": rows}, style.kernel_styles(rows)).axes
    assert {line.get_label() for line in paid.get_lines()} == {*kernels}
    assert len({(line.get_color(), line.get_linestyle()) for line in paid.get_lines()}) == len(kernels)


def test_states_too_thin_for_a_bar_fill_it_with_the_others():
    warps = {"selected": 50.0, "long_scoreboard": 49.0, "membar": 0.5, "branch_resolving": 0.3, "sleeping": 0.2}
    rows = [{"kernel": "a", "state": state, "warps": count} for state, count in warps.items()]
    stalled = pd.DataFrame(rows).assign(suite="sample", matrix="mesh", n=32)
    (ax,) = stalls.draw({"stalls": stalled}, {"a": {}}).axes
    assert [bars.get_label() for bars in ax.containers] == ["issues", "global memory", "other"]
    ends = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert ends == [(0, 50), (50, 99), (99, pytest.approx(100))], "without a gap, up to the right edge"
