"""No text of a figure lies on another, reaches over the edge or stands for two things: on invented and recorded rows.

Texts are measured where the SVG puts them, in Matplotlib's own typeface, which is wider than those of most pages.
"""

import functools
import io
import itertools
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pandas as pd
import pytest
import yaml
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from spmm_roofline import analysis, contracts, figures
from spmm_roofline.analysis import bounds, cases, ceilings, families, ladder, published, speedup, status, synergy
from spmm_roofline.analysis import together as of_all
from spmm_roofline.figures import labels, matrices, style
from spmm_roofline.plan import Plan
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("overlap")

RECORDED = Path("resources/recorded/h200")
#: The suites of most kernels, of most widths, of the closest levels, of most matrices, and of those with one column.
SUITES = ("attention", "thesis-nmult", "gemm24", "cutespmm", "memory-bound-standins")
#: Suite → precisions whose figures have more rows and columns in another precision.
SMALLER = {"attention": ["bfloat16"], "gemm24": ["float16"], "cutespmm": ["float16", "bfloat16"]}
#: Points by which two texts may meet: less than what a screen shows.
TOUCH = 0.5


# --- finding overlapping text ----------------------------------------------------------------------------------------


@functools.cache
def measured(text, size, weight):
    """Width, height and depth below the line of a text, in points."""
    return text_to_path.get_text_width_height_descent(
        text, FontProperties(family="DejaVu Sans", size=size, weight=weight), ismath=False
    )


def product(a, b):
    """The affine map that does ``b`` first, both as the six numbers of SVG's ``matrix``."""
    linear = [
        a[0] * b[0] + a[2] * b[1],
        a[1] * b[0] + a[3] * b[1],
        a[0] * b[2] + a[2] * b[3],
        a[1] * b[2] + a[3] * b[3],
    ]
    return *linear, a[0] * b[4] + a[2] * b[5] + a[4], a[1] * b[4] + a[3] * b[5] + a[5]


def affine(transform):
    """The map that an attribute ``transform`` says."""
    found = (1, 0, 0, 1, 0, 0)
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\)", transform):
        values = [float(value) for value in re.split(r"[ ,]+", arguments.strip())]
        if name == "rotate":
            cosine, sine = math.cos(math.radians(values[0])), math.sin(math.radians(values[0]))
            x, y = values[1:] or (0, 0)
            own = cosine, sine, -sine, cosine, x - cosine * x + sine * y, y - sine * x - cosine * y
        elif name == "translate":
            own = 1, 0, 0, 1, values[0], (*values, 0)[1]
        elif name == "scale":
            own = values[0], 0, 0, values[-1], 0, 0
        else:
            assert name == "matrix", f"the test does not know the transformation {name}"
            own = tuple(values)
        found = product(found, own)
    return found


def boxes(svg):
    """Every text with the four corners of its box, which is turned as the text is."""
    found = []

    def walk(element, outer, look):
        at = product(outer, affine(element.get("transform", "")))
        words = (element.text or "").strip()
        if element.tag.endswith(("}text", "}tspan")):
            look = element.get("style", look)
            if words:
                size = float(re.search(r"([\d.]+)px", look)[1])
                width, height, depth = measured(words, size, 700 if re.search(r"\b(bold|700)\b", look) else 400)
                anchor = re.search(r"text-anchor: *(\w+)", look)
                x = float((element.get("x") or "0").split()[0])
                x -= {"middle": width / 2, "end": width}.get(anchor and anchor[1], 0)
                y = float(element.get("y", 0)) + depth
                corners = (x, y - height), (x + width, y - height), (x + width, y), (x, y)
                a, b, c, d, e, f = at
                found.append((words, [(a * u + c * v + e, b * u + d * v + f) for u, v in corners]))
        for child in element:
            walk(child, at, look)

    walk(ElementTree.fromstring(svg), affine(""), "")
    return found


def depth(one, other):
    """How far two convex quadrilaterals reach into each other: the least over the directions of their sides."""
    least = math.inf
    for corners in (one, other):
        for (x, y), (u, v) in itertools.pairwise(corners[:3]):
            length = math.hypot(u - x, v - y) or 1
            first, second = ([(p * (u - x) + q * (v - y)) / length for p, q in box] for box in (one, other))
            least = min(least, min(max(first), max(second)) - max(min(first), min(second)))
    return least


def overlaps(svg):
    """What is wrong with the texts of a figure, as sentences."""
    found = []
    left, top, width, height = map(float, ElementTree.fromstring(svg).get("viewBox").split())
    texts = [
        (words, box, *map(min, zip(*box, strict=True)), *map(max, zip(*box, strict=True))) for words, box in boxes(svg)
    ]
    for number, (words, box, x, y, right, bottom) in enumerate(texts):
        if min(x - left, y - top, left + width - right, top + height - bottom) < -TOUCH:
            found.append(f"{words!r} reaches over the edge")
        for others, other, u, v, end, base in texts[number + 1 :]:
            if x < end and u < right and y < base and v < bottom and depth(box, other) > TOUCH:
                found.append(f"{words!r} and {others!r} overlap")
    return found


def axes_labels(svg):
    """The labels of the ticks of each axis, and the label of the axis itself."""
    for axis in ElementTree.fromstring(svg).iter():
        if axis.get("id", "").startswith("matplotlib.axis"):
            texts = [element for element in axis.iter() if element.tag.endswith("}text")]
            yield [" ".join("".join(text.itertext()).split()) for text in texts]


# --- the figures -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    # All matrices in one suite: each figure once, with as many columns as there can be.
    rows = [row | {"suite": "real-sample"} for row in synthetic.measure_rows()]
    recorded = tmp_path_factory.mktemp("recorded") / "h200"
    synthetic.write_recorded(recorded, rows, ceilings=synthetic.ceiling_rows())
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    tables = analysis.read(folder)
    return list(figures.draw_all(tables, processes=2))


@pytest.fixture(scope="module")
def recorded_tables():
    """The tables of some recorded suites; those that take long and that few figures show stay empty."""
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["measure"]["device"] = "none"
    plan = Plan(config)
    heads = plan.head_dicts()
    sheet = contracts.document("config/devices/h200.yaml", "device")
    record = contracts.document(RECORDED / "device.json", "measured_device")
    rows = contracts.read_all(
        [path for suite in SUITES for path in sorted((RECORDED / suite).glob("*.csv"))], "measure"
    )
    for suite, precisions in SMALLER.items():
        rows = rows[(rows["suite"] != suite) | ~rows["dtype_a"].isin(precisions)]
    at_top = contracts.read(RECORDED / "ceilings.csv", "measure_ceilings")
    table = {name: contracts.frame([], contract) for name, contract in analysis.tables().items()}
    table |= {name: contracts.read(RECORDED / f"{name}.csv", name) for name in ("matrices", "formats", "kernels")}
    table["ceilings"] = ceilings.ceilings({"h200": sheet}, {"h200": record}, at_top, table["kernels"], heads, {})
    peaks, reached = {"h200": sheet["peak_gflops"]}, ceilings.peaks(table["ceilings"])
    table["cases"] = cases.cases(
        contracts.frame([], "measure"), rows, table["matrices"], table["kernels"], heads, {}, peaks,
        ceilings.bandwidths(table["ceilings"], "dram"), reached,
    )  # fmt: skip
    table["speedup"] = speedup.speedup(table["cases"], 10)
    table["families"] = families.families(table["cases"], heads)
    table["ladder"] = ladder.ladder(table["cases"], heads, 10)
    rivals = contracts.document(synthetic.ROOT / "config" / "claims.yaml", "claims")["rivals"]
    table["synergy"] = synergy.synergy(table["cases"], table["matrices"], table["formats"], heads, rivals)
    table["bounds"] = bounds.bounds(table["cases"], table["counters"], heads, peaks, reached)
    table["published"] = published.published(
        contracts.read_all(sorted(map(str, plan.papers())), "analysis_papers"), table["cases"], table["synergy"]
    )
    table["together"] = of_all.together(table["cases"])
    table["performance"] = of_all.performance(table["together"])
    table["status"] = status.status(table["cases"])
    return table


@pytest.fixture(scope="module")
def recorded(recorded_tables):
    return list(figures.draw_all(recorded_tables, processes=2))


def drawn(draw):
    with matplotlib.rc_context(style.RC):
        figure, (ax, *_) = style.canvas(1, 1, 3)
        draw(ax)
        return style.svg(figure)


def test_overprinted_labels_are_found():
    overprinted = drawn(lambda ax: ax.set_xticks([0.50, 0.51, 1], ["one name", "another", "far away"]))
    assert overlaps(overprinted) == ["'one name' and 'another' overlap"]
    assert overlaps(drawn(lambda ax: ax.set_xticks([0, 0.5, 1], ["one name", "another", "far away"]))) == []
    outside = drawn(lambda ax: ax.text(1, 0.5, "over the edge of the figure").set_in_layout(False))
    assert overlaps(outside) == ["'over the edge of the figure' reaches over the edge"]


def test_turned_text_is_judged_as_it_stands():
    def lean(gap, turned=45):
        def draw(ax):
            ax.text(0.3, 0.3, "a name that leans", rotation=45)
            ax.text(0.3 + gap, 0.3, "a name beside it", rotation=turned)

        return overlaps(drawn(draw))

    assert lean(0.05) == [], "upright boxes around the two would meet"
    assert lean(0.05, turned=135) == ["'a name that leans' and 'a name beside it' overlap"]
    assert lean(0.005) == ["'a name that leans' and 'a name beside it' overlap"]


@pytest.mark.parametrize("world", ["invented", "recorded"])
def test_no_text_lies_on_another(world, request):
    found = request.getfixturevalue(world)
    assert len(found) > 20
    wrong = {figure.name: overlaps(figure.svg)[:3] for figure in found}
    assert {name: sentences for name, sentences in wrong.items() if sentences} == {}


@pytest.mark.parametrize("world", ["invented", "recorded"])
def test_labels_of_an_axis_differ(world, request):
    for figure in request.getfixturevalue(world):
        for texts in map(list, axes_labels(figure.svg)):
            named = [label for label in texts if label]
            assert len({*named}) == len(named), f"labels of {figure.name} look alike: {sorted(named)}"


def test_every_mark_of_recorded_rows_is_named_in_the_numbers_behind_a_figure(recorded):
    for figure in recorded:
        rows = pd.read_csv(io.StringIO(figure.plotted), keep_default_na=False)
        marks = rows[rows["mark"].isin(["point", "bar", "line"])]
        assert (marks["series"] != "").all(), f"{figure.name} has marks without a name"


def test_heat_maps_name_every_row_and_column(recorded, recorded_tables):
    rows = recorded_tables["cases"]
    rows = rows[rows["speedup"].notna() & (rows["study"] != "cusparse")]
    maps = [figure for figure in recorded if figure.kind.name == "heatmap"]
    assert len(maps) > 5
    assert any('fill="url(#' in figure.svg or "fill: url(#" in figure.svg for figure in maps), "no cell is hatched"
    for figure in maps:
        own = rows
        for column, value in figure.of.items():
            own = own[own[column] == value]
        texts = {words for words, _ in boxes(figure.svg)}
        assert {*own["kernel"], *labels.short_names(own["matrix"].unique())} <= texts, f"{figure.name} lacks names"


def test_the_pointer_tells_the_matrices_that_a_heat_map_does_not_name(recorded, recorded_tables):
    (figure,) = (figure for figure in recorded if figure.name == "speedup_heatmap-h200-cold")
    told = [title.text for title in ElementTree.fromstring(figure.inline).iter("title")]
    assert {"bcsstk32", "circuit_4", "dblp-2010"} < {*told} < {*recorded_tables["cases"]["matrix"]}


def test_a_roofline_names_all_of_its_levels(recorded):
    (figure,) = (figure for figure in recorded if figure.name == "roofline-h200-attention-cold")
    texts = [words for words, _ in boxes(figure.svg)]
    for level in (
        "FP16 tensor, mma:",
        "FP16 tensor, wgmma:",
        "FP16 tensor 2:4, mma:",
        "FP16 tensor 2:4, wgmma:",
        "DRAM",
    ):
        assert any(words.startswith(level) for words in texts), f"{level} is not in the figure"
    across = list(axes_labels(figure.svg))[::2]
    assert len(across) > 3 and all(map(any, across)), "a panel has no numbers under it"


def test_no_two_series_look_alike(recorded_tables):
    rows = recorded_tables["cases"]
    styles = style.kernel_styles(rows)
    for _, own in rows.groupby("study"):
        looks = [str(styles[kernel]) for kernel in own["kernel"].unique()]
        assert len({*looks}) == len(looks)
    for of, own in rows.groupby(["suite", "precision"]):
        looks = style.apart(styles, own)
        assert {*looks} == {*own["kernel"]}
        assert len({*map(str, looks.values())}) == len(looks), f"kernels of {of} look alike"
    crowd = pd.DataFrame({"study": "flagship", "kernel": [f"k{number}" for number in range(24)]})
    looks = style.apart(style.kernel_styles(crowd), crowd)
    assert len({str(look["color"]) for look in looks.values()}) == len(style.HUES)
    kinds = matrices._kinds(pd.DataFrame({"kind": [f"kind {number}" for number in range(30)]}))
    assert len({*map(str, kinds.values())}) == 30


def test_a_study_stays_on_one_panel_where_it_fits():
    rows = pd.DataFrame(
        [
            {"study": study, "kernel": f"{study}{n:02}"}
            for study, count in (("a", 3), ("b", 25), ("c", 4))
            for n in range(count)
        ]
    )
    groups = style.groups_of(style.kernel_styles(rows), rows, most=12)
    assert [len(group) for group in groups] == [11, 8, 9, 4]
    assert sorted(itertools.chain(*groups)) == sorted(rows["kernel"])


def test_a_legend_is_no_wider_than_its_figure():
    kernels = [{"study": "sptc", "kernel": f"mma_obts_large_tiled_listed_stages{number}"} for number in range(12)]
    styles = style.kernel_styles(pd.DataFrame(kernels))

    def legends(ax):
        style.legend(ax.figure, styles, styles)
        style.key(ax, styles, styles, 0.2)

    assert overlaps(drawn(legends)) == []
    with matplotlib.rc_context(style.RC):
        figure, axes = style.canvas(1, 3, 3)
        style.legend(figure, styles, styles)
        style.key(axes[0], styles, styles, 0.2)
        legend, key = figure.legends[0], axes[0].get_legend()
        assert (legend._ncols, key._ncols) == (3, 1)
        short = {f"k{number}": {} for number in range(12)}
        style.legend(figure, short, short)
        style.key(axes[0], short, short, 0.2)
        assert (figure.legends[1]._ncols, axes[0].get_legend()._ncols) == (5, 2)


def test_ticks_are_as_fine_as_the_axis_is_long():
    choices = [[1, 2, 5, 10, 20, 50, 100], [1, 10, 100], [1, 100]]
    assert labels._fit(choices, 1, 100, 200, labels.short) == [1, 2, 5, 10, 20, 50]
    assert labels._fit(choices, 1, 100, 60, labels.short) == [1, 10], "100 would reach into the neighbouring axes"
    assert labels._fit(choices, 1, 100, 10, labels.short) == [1]
    assert labels._fit(choices, 1, 100, 90, None) == choices[0], "labels above each other take less room"
