"""Every figure draws from realistic tables, says what they say, and keeps its bytes."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import analysis, figures
from spmm_roofline.figures import labels, limits, numbers, style
from spmm_roofline.figures.papers import PAPERS
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("figures")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return analysis.read(folder)


@pytest.fixture(scope="module")
def drawn(tables):
    return {figure.name: figure for figure in figures.draw_all(tables)}


def text(svg):
    return " ".join("".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.text)


def test_the_folder_is_the_registry():
    kinds = {kind.name: kind for kind in figures.kinds()}
    suites = {name for name, kind in kinds.items() if kind.section != "study"}
    counted = {"roofline", "roofline_counted", "traffic", "bounds", "preprocessing", "stalls"}
    together = {"performance", "speedup_heatmap", "break_even"}
    devices = {"between", "swapped"}
    blocks = {"pruned_block", "masked_block"}
    own = {"throughput", "speedup", "heatmap", "statuses", "matrices", "rounding", "selector"}
    assert suites == own | counted | together | devices | blocks | {"spy"}
    for kind in kinds.values():
        assert kind.study in PAPERS if kind.section == "study" else True, f"figures/{kind.name}.py names no study"
        assert kind.title and len(kind.caption) > 80, f"the docstring of figures/{kind.name}.py needs title and caption"


def test_each_figure_is_drawn_where_it_has_something_to_show(drawn):
    suites = {kind.name for kind in figures.kinds() if kind.section != "study"}
    shown = {figure.kind.name for figure in drawn.values() if figure.kind.section != "study"}
    # The world of synthetic.py has no measured rate of L2, without which nothing is predicted.
    # One device is no comparison; test_between.py draws two. Blocks are in test_blocks.py, a spy plot in test_own.py.
    assert shown == suites - {"selector", "between", "swapped", "pruned_block", "masked_block", "spy"}, (
        "test_studies.py draws the others"
    )
    assert "statuses-h200-real-sample" in drawn
    assert "statuses-h200-quick" not in drawn, "every row of the suite quick is ok"
    assert "speedup-h200-quick-cold-bfloat16" not in drawn, "cuSPARSE alone is no comparison"


def test_empty_tables_give_no_figure(tmp_path):
    folder = synthetic.analyse(tmp_path)
    tables = analysis.read(folder)
    assert list(figures.draw_all(tables)) == []


def test_bytes_are_stable_and_two_processes_draw_what_one_draws(tables, drawn):
    shared = list(figures.draw_all(tables, processes=2))
    assert [figure.name for figure in shared] == list(drawn)
    for figure in shared:
        assert figure == drawn[figure.name]
        assert "dc:date" not in figure.svg, f"{figure.name} carries a date"


def test_a_figure_that_cannot_be_drawn_fails_in_a_process_too(tables):
    without = {name: table for name, table in tables.items() if name != "synergy"}
    for processes in (1, 2):
        with pytest.raises(figures.FigureError, match=r"cannot be drawn: KeyError: 'synergy' \(.*/\w+\.py, line \d+\)"):
            list(figures.draw_all(without, processes=processes))


def test_text_stays_text_and_names_what_is_shown(drawn):
    throughput = text(drawn["throughput-h200-real-sample-cold-float16"].svg)
    for word in ("bcsstk32", "dblp-2010", "N = 512", "mma_bt", "cusparse_best_f16", "useful GFLOP/s"):
        assert word in throughput, f"{word} is not in the figure"
    roofline = text(drawn["roofline-h200-real-sample-cold"].svg)
    for word in ("DRAM 4.13 TB/s", "FP16 tensor: 989 TFLOP/s", "FP32 CUDA cores: 66.9 TFLOP/s", "FLOP/B"):
        assert word in roofline, f"{word} is not in the figure"


@pytest.fixture(scope="module")
def under_ceilings(tmp_path_factory):
    """The figures of a device whose ceilings were measured."""
    folder = tmp_path_factory.mktemp("recorded") / "h200"
    recorded = synthetic.write_recorded(folder, ceilings=synthetic.ceiling_rows())
    out = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    tables = analysis.read(out)
    return {
        figure.name: figure for figure in figures.draw_all(tables, only=["roofline", "roofline_counted", "selector"])
    }


def test_measured_ceilings_are_drawn_and_datasheets_where_there_are_none(under_ceilings, drawn):
    roofline = text(under_ceilings["roofline-h200-real-sample-cold"].svg)
    told = ("DRAM 4.40 TB/s", "L2 8.00 TB/s", "FP16 tensor, mma: 635 TFLOP/s", "FP16 tensor, wgmma: 800 TFLOP/s")
    for word in (
        *told,
        "FP16 tensor 2:4, mma: 950 TFLOP/s",
        "FP32 CUDA cores: 60.0 TFLOP/s",
        "TF32 tensor: 495 TFLOP/s",
    ):
        assert word in roofline, f"{word} is not in the figure"
    assert "L2 8" not in text(drawn["roofline-h200-real-sample-cold"].svg)


def test_what_the_selector_would_cost_is_drawn_and_said(under_ceilings):
    figure = under_ceilings["selector-h200"]
    assert "predicted / measured" in text(figure.svg) and "share of cases" in text(figure.svg)
    series = set(pd.read_csv(io.StringIO(figure.plotted)).query("mark == 'line'")["series"])
    assert {"FP32, matrix held out", "FP32, kind held out", "FP32, matrix held out, three run"} <= series
    told = "With each matrix held out, on 36 cases of 6 matrices (4 real and 2 generated), its geometric mean is "
    assert told in figure.says


def test_the_axis_of_the_selector_reaches_the_worst_choice():
    from spmm_roofline.figures import selector

    def drawn_axis(worst, tried=0.0):
        about = {"precision": "float16", "kernel": "a", "time_ms": 2.0, "predicted_ms": 2.0}
        found = [("matrix", 0.1, 0.0), ("kind", worst, tried)]
        rows = [about | dict(zip(("held_out", "regret", "tried_regret"), row, strict=True)) for row in found]
        (_, axis) = selector.draw({"selector": pd.DataFrame(rows)}, {}).axes
        lines = [line.get_xdata().max() for line in axis.get_lines() if len(line.get_xdata()) > 2]
        return axis.get_xlim(), list(axis.get_xticks()), lines

    for worst in (2.38, 0.9, 0.0, 70.0):
        (left, right), _, lines = drawn_axis(worst)
        assert left == 0 and max(worst, selector.GOAL) < right < 1.1 * max(worst, selector.GOAL)
        assert all(end >= worst for end in lines), "a line ends before the others"
    assert drawn_axis(2.38)[1] == [0, 0.2, 0.5, 1, 2]
    assert drawn_axis(70.0)[1] == [0, 1, 2, 5, 10, 20, 50], "labels close to 0 would lie on it"
    assert drawn_axis(0.1, tried=3.0)[0][1] > 3.0, "three tries may be worse than a choice elsewhere"


def test_no_mark_lies_under_the_names_of_slopes_and_levels_stand_above_lines():
    rates = {"float32_cuda": ("", 60_000.0), "dram": ("dram", 4000.0), "l2": ("l2", 8000.0)}
    rows = [{"ceiling": name, "level": level, "measured": rate} for name, (level, rate) in rates.items()]
    ceilings = pd.DataFrame(rows).assign(through="", datasheet=float("nan"))
    figure, (ax,) = style.canvas(1, 1, 3)
    ax.set(xscale="log", yscale="log", xlim=(0.1, 100), ylim=(1, 1e6))
    slopes = limits.lines(ax, limits.slopes(ceilings), limits.levels(ceilings, "float32"), 60_000.0)
    limits.name_slopes(figure, slopes)
    assert [text.get_text() for text in ax.texts] == ["FP32 CUDA cores: 60.0 TFLOP/s"]
    above = max(line.get_zorder() for line in (*ax.lines, *ax.collections))
    assert all(text.get_bbox_patch() and text.get_zorder() > above for text in ax.texts)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["DRAM 4.00 TB/s", "L2 8.00 TB/s"]
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(ax.get_window_extent())


def test_counted_bytes_have_a_roofline_of_their_own(under_ceilings, drawn):
    name = "roofline_counted-h200-real-sample-cold-float16"
    assert "DRAM 4.40 TB/s" in text(under_ceilings[name].svg) and "mma_bt" in text(under_ceilings[name].svg)
    # Sectors of 32 bytes through L2 at 8000 GB/s.
    own = synthetic.measure_row("mma_bt", "cfd1", 128)
    share = 32 * synthetic.COUNTERS["lts__t_sectors_srcunit_tex.sum"] / 8000e6 / own["time_ms"]
    assert f"limit is L2 in 1; in the median a case reaches {numbers.percent(share)}" in under_ceilings[name].says
    assert "The rate of L2 was not measured" in drawn[name].says and "limit is DRAM in 1;" in drawn[name].says


def test_labels_of_close_levels_stand_above_the_last():
    assert limits._label_heights([1.0, 10.0, 11.0, 12.0, 100.0], 2.0) == [1.0, 12.0, 24.0, 48.0, 100.0]
    assert limits._label_heights([], 2.0) == []


def test_a_level_is_called_by_its_precision_and_unit():
    assert limits._label("float8_e4m3_tensor_sparse24", "wgmma") == "FP8 tensor 2:4, wgmma"
    assert limits._label("bfloat16_tensor", "") == "BF16 tensor"
    assert limits._label("float32_cuda", "") == "FP32 CUDA cores"


def test_all_kernels_together(tables, drawn):
    # Both suites together hold six matrices and 18 cases, on which cuSPARSE and two studies ran in FP16 and in FP32. On
    # one of them the device was noisy in FP32, so that not all studies have a time there.
    name = "h200-cold"
    shown = text(drawn[f"performance-{name}"].svg)
    assert "FP16: 18 cases of 6 matrices" in shown and "FP32: 17 cases of 6 matrices" in shown
    assert "mma_obts" in shown and "cusparse_best_f16" in shown, "the best kernel of each study is named"
    profile = tables["performance"].query("precision_class == 'float32' and tau == 1").set_index("kernel")
    first = profile["share_fraction"].idxmax()
    wins = round(17 * profile["share_fraction"].max())
    said = f"In FP32, on 17 cases of 6 matrices (4 real and 2 generated), {first} is most often the fastest, in {wins}"
    assert said in drawn[f"performance-{name}"].says
    grid = text(drawn[f"speedup_heatmap-{name}"].svg)
    assert "FP16: 4 kernels, 6 matrices" in grid and "wilson_8x8x8x8" in grid
    # Every kernel packs 3.5 ms as cuSPARSE does, so that each has caught up at once or never.
    own = tables["together"].query("kernel == 'mma_obts' and status == 'ok'")
    assert set(own["break_even"].dropna()) == {0}
    assert "at once" in text(drawn[f"break_even-{name}"].svg)
    # One kernel refuses a matrix, another is wrong on a case: what all of them have is 14 cases of 18.
    assert drawn[f"break_even-{name}"].says.startswith(
        "In FP16, on 14 cases of 5 matrices (3 real and 2 generated) that 4 kernels all have, mma_bt (FP16 sums), "
    )


def test_states_of_warps_are_shares(drawn):
    shown = drawn["stalls-h200-cold-smat"]
    for word in ("mma_bt", "global memory", "shared memory", "fixed latency", "issues", "11.4"):
        assert word in text(shown.svg), f"{word} is not in the figure"
    assert shown.says == (
        "1 of 1 kernel on 1 real matrix waits most for this: global memory; it takes up to 60 % of the waiting "
        "(mma_bt)."
    )
    assert "stalls-h200-cold-sptc" not in drawn, "no kernel of that study was profiled"


def test_labels_of_lines_that_end_together_stand_apart():
    assert labels.spread([100.0, 98.0, 100.0, 40.0], 6.0, 0.0, 100.0) == [100.0, 88.0, 94.0, 40.0]
    assert labels.spread([1.0, 1.0, 1.0], 1.0) == [2.0, 1.0, 0.0], "a run stands around the mean of its heights"
    assert labels.spread([], 1.0) == []


def test_sentences_follow_from_the_rows(tables, drawn):
    cases = tables["cases"]
    rows = cases[(cases["suite"] == "real-sample") & (cases["precision"] == "float16") & (cases["study"] != "cusparse")]
    wins = int((rows["speedup"] > 1).sum())
    says = drawn["heatmap-h200-real-sample-cold-float16"].says
    cells = int(rows["speedup"].notna().sum())
    assert says.startswith(f"{wins} of {cells} cells on 4 real matrices are faster than cuSPARSE, ")
    assert numbers.times(rows["speedup"].max()) in says
    assert drawn["statuses-h200-real-sample"].says == "4 of 120 rows have no time: 3 unsupported and 1 wrong."
    assert "FP16" not in drawn["throughput-h200-quick-cold-float32"].says


def test_sentences_change_with_the_rows(tmp_path):
    rows = [row for row in synthetic.measure_rows() if row["matrix"] == "cfd1" and row["n"] == 128]
    recorded = synthetic.write_recorded(tmp_path / "a100", [row | {"device": "a100"} for row in rows])
    folder = synthetic.analyse(tmp_path / "out", recorded=[recorded])
    tables = analysis.read(folder)
    says = {figure.name: figure.says for figure in figures.draw_all(tables)}
    # The record of the folder describes an h200: no limit is known for rows of an a100, and the sentence says so.
    assert "No limit is known" in says["roofline-a100-real-sample-cold"]
    assert "has the highest mean" in says["speedup-a100-real-sample-cold-float32"]
    assert "interval" not in says["speedup-a100-real-sample-cold-float32"]


def test_many_matrices_are_shown_as_distributions(tables):
    import matplotlib

    from spmm_roofline.figures import throughput

    rows = tables["cases"][tables["cases"]["precision"] == "float32"]
    many = pd.concat([rows.assign(matrix=rows["matrix"] + f"-{copy}") for copy in range(10)], ignore_index=True)
    styles = style.kernel_styles(many)
    with matplotlib.rc_context(style.RC):
        svg = style.svg(throughput.draw({"cases": many}, styles))
    assert "row_split" in text(svg)
    assert "cfd1-3" not in text(svg)


def test_a_kernel_looks_the_same_everywhere_and_cusparse_is_grey(tables):
    styles = style.kernel_styles(tables["cases"])
    assert set(styles) == set(tables["cases"]["kernel"])
    for kernel, look in styles.items():
        if kernel.startswith("cusparse"):
            red, green, blue = look["color"][:3] if not isinstance(look["color"], str) else (0, 0, 0)
            assert max(red, green, blue) - min(red, green, blue) < 0.08, f"{kernel} is not grey"
    assert len({str(look) for look in styles.values()}) == len(styles), "two kernels look alike"


def test_no_mark_is_weaker_than_its_colour(drawn):
    """Opacity would take from the contrast that test_colours.py asks for; labels may stand on a weak paper."""
    for figure in drawn.values():
        looks = [look for look in re.findall(r'style="([^"]*)"', figure.svg) if style.PAPER not in look]
        weak = {look for look in looks for part in re.findall(r"opacity: ([\d.]+)", look) if 0.01 < float(part) < 1}
        assert not weak, f"{figure.name} has weak marks"


def test_an_inline_figure_takes_the_colours_of_its_page_and_has_ids_of_its_own(drawn):
    first = drawn["speedup-h200-quick-cold-float16"]
    svg = first.inline
    assert svg.startswith('<svg role="img" aria-label="Speed-up over the best of cuSPARSE.')
    assert style.INK not in svg and style.PAPER not in svg
    assert "currentColor" in svg and "var(--card)" in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids and len({name.split("-")[0] for name in ids}) == 1
    for target in re.findall(r'(?:href="#|url\(#)([^")]+)', svg):
        assert target in ids, f"nothing has the id {target}"
    other = drawn["speedup-h200-quick-cold-float32"].inline
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', other))


@pytest.mark.parametrize(
    "names, expected",
    [
        (["a", "b"], ["a", "b"]),
        (["a-1" + "-tail" * 9, "a-2" + "-tail" * 9, "b"], ["a-1-…tail", "a-2-…tail", "b"]),
        (["a-0.9" + "-tail" * 9, "a-0.95" + "-tail" * 9], ["a-0.9-…tail", "a-0.95-…tail"]),
        (["x" * 50 + "1-end", "x" * 50 + "2-end"], ["x" * 20 + "…" + "x" * 14 + end for end in ("1-end", "2-end")]),
        (["x" * 50, "y" * 49 + "x"], ["x" * 20 + "…" + "x" * 19, "y" * 20 + "…" + "y" * 18 + "x"]),
        (["x" * 50, "x" * 51], ["x" * 50, "x" * 51]),
        (["only" * 20 + "-end"], ["only" * 5 + "…" + "nly" + "only" * 3 + "-end"]),
    ],
)
def test_long_names_lose_their_middle_and_stay_different(names, expected):
    assert labels.short_names(names) == expected


def test_a_mark_is_tied_to_the_row_whose_rate_it_shows(drawn, tables):
    figure = drawn["roofline-h200-real-sample-cold"]
    root = ElementTree.fromstring(figure.inline)
    heights = {}
    for group in root.iter("g"):
        if "data-cases" not in group.attrib:
            continue
        cases = [
            number
            for run in group.get("data-cases").split()
            for number in range(int(run.split("-")[0]), int(run.split("-")[-1]) + 1)
        ]
        marks = list(group.iter("use"))
        assert len(cases) == len(marks), "a mark without a row, or a row without a mark"
        heights |= {case: float(mark.get("y")) for case, mark in zip(cases, marks, strict=True)}
    rows = tables["cases"].loc[list(heights)]
    assert set(rows["suite"]) == {"real-sample"} and (rows["status"] == "ok").all() and len(rows) > 60
    # On a logarithmic axis heights are a line over the logarithm of the rate; tenths of a point are rounded away.
    rates, places = np.log(rows["useful_gflops"].to_numpy()), np.array(list(heights.values()))
    slope, base = np.polyfit(rates, places, 1)
    assert slope < 0 and np.abs(slope * rates + base - places).max() < 0.11


@pytest.mark.parametrize("numbers_, runs", [([], []), ([4], ["4"]), ([3, 4, 5, 9, 2, 3], ["3-5", "9", "2-3"])])
def test_numbers_in_a_row_are_runs(numbers_, runs):
    assert style._runs(numbers_) == runs


@pytest.mark.parametrize(
    "shown, expected",
    [
        (numbers.significant(1234.56), "1,235"),
        (numbers.significant(0.0123456), "0.0123"),
        (numbers.significant(float("nan")), "–"),
        (numbers.significant(0), "0"),
        (numbers.times(1.3456), "1.35×"),
        (numbers.times(None), "–"),
        (numbers.percent(0.4567), "46 %"),
        (numbers.percent(0.0123), "1.2 %"),
        (numbers.percent(0.0999), "10 %"),
        (numbers.percent(1.203), "120 %"),
        (numbers.percent(0.996), "99.6 %"),
        (numbers.percent(0.99999), "99.9 %"),
        (numbers.percent(0.0001), "<0.1 %"),
        (numbers.rate(8640.0), "8.64 TFLOP/s"),
        (numbers.rate(64.0), "64.0 GFLOP/s"),
        (numbers.bandwidth(4130.0), "4.13 TB/s"),
        (numbers.duration(0.0184), "18.4 µs"),
        (numbers.duration(1.84), "1.84 ms"),
        (numbers.size(13_278_058), "13.3 MB"),
        (numbers.size(48), "48.0 B"),
        (numbers.counted(1, "matrix", "matrices"), "1 matrix"),
        (numbers.counted(1200, "row"), "1,200 rows"),
        (numbers.listed(["a", "b", "c"]), "a, b and c"),
        (numbers.listed([]), "none"),
    ],
)
def test_numbers_as_people_read_them(shown, expected):
    assert shown == expected


def test_every_mark_is_named_in_the_numbers_behind_a_figure(drawn):
    for figure in drawn.values():
        rows = pd.read_csv(io.StringIO(figure.plotted), keep_default_na=False)
        marks = rows[rows["mark"].isin(["point", "bar", "line"])]
        assert (marks["series"] != "").all(), f"{figure.name} has marks without a name"
        assert ((marks["x_axis"] + marks["y_axis"]) != "").all(), f"{figure.name} has axes without labels"
    half = drawn["throughput-h200-real-sample-cold-float16"].plotted
    counts = pd.read_csv(io.StringIO(half)).query("mark == 'point'")["series"].value_counts()
    assert {"mma_bt", "mma_t", "cusparse_best_f16"} <= {*counts.index}


def test_a_figure_in_the_form_of_a_papers_own_names_its_place_there():
    """The dense product beside pruned weights is in no figure of its study."""
    without = {kind.name for kind in figures.kinds() if kind.section == "study" and not kind.paper}
    assert without == {"pruned_dense"}
    assert all(kind.study for kind in figures.kinds() if kind.paper)
