"""Pictures agree with the code: formats with what they pack, ladders with heads, the road with the rules."""

import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from docs.pictures import arrays, formats, kernels, ladders, limits, measuring, road
from docs.pictures.gallery import PICTURES
from spmm_roofline import contracts
from spmm_roofline.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path: path.read_text() for path in (ROOT / "docs").rglob("*.md")}
SVG = "{http://www.w3.org/2000/svg}"

#: Arrays of which a picture shows a section, with the reason; all others are drawn whole.
IN_PART = {
    ("dasp", "indices"): "the columns of one tile",
    ("hrpb", "packed"): "the values; its other fields are drawn as bricks, ids and units",
}
#: Formats that store one value for many entries.
SHARED = {name for name in FORMATS if not FORMATS[name].stores_structure}


@pytest.fixture(scope="module", params=sorted(formats.FAMILIES))
def drawn(request):
    """Name of a format, the matrix and the packed arrays of its picture, and the picture as a tree."""
    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            formats,
            "matrix",
            lambda d, x, y, a, *rest, **options: seen.update(a=a) or arrays.matrix(d, x, y, a, *rest, **options),
        )
        cls = FORMATS[request.param]
        packing = cls.from_csr.__func__

        def from_csr(own, *arguments, **options):
            seen["packed"] = packing(own, *arguments, **options)
            return seen["packed"]

        patch.setattr(cls, "from_csr", classmethod(from_csr))
        drawing = formats.draw(request.param)
    return request.param, seen["a"], seen["packed"], ET.fromstring(drawing.svg("x"))


def groups(tree, key):
    """Value of an attribute → the elements inside the groups that have it."""
    found = {}
    for group in tree.iter(f"{SVG}g"):
        if key in group.attrib:
            found.setdefault(group.attrib[key], []).extend(group.iter())
    return found


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_picture_on_its_page(name):
    formats.draw(name)  # its error says what to do
    page = PAGES[ROOT / "docs" / "how" / "formats.md"]
    assert f"```{{picture}} formats/{name}\n" in page, f"docs/how/formats.md does not show formats/{name}: add it"


def test_a_format_without_a_picture_is_told_what_to_do():
    with pytest.raises(LookupError, match=r"draws no format 'new': add it to the family of its layout, or write"):
        formats.draw("new")


def test_entries_drawn_are_those_of_the_matrix(drawn):
    name, a, _, tree = drawn
    ((where, elements),) = groups(tree, "data-matrix").items()
    x, y, across, down = map(float, where.split())
    found = {}
    for rect in elements:
        if "data-v" in rect.attrib:
            place = (float(rect.attrib["y"]) - y) / down, (float(rect.attrib["x"]) - x) / across
            row, column = map(round, place)
            assert np.abs(np.subtract(place, (row, column))).max() < 0.06, f"{name}: an entry lies between cells"
            found[row, column] = float(rect.attrib["data-v"])
    coordinates = a.tocoo()
    assert found == dict(
        zip(zip(*map(np.ndarray.tolist, coordinates.coords), strict=True), coordinates.data, strict=True)
    )


def test_every_entry_has_one_slot_of_its_value(drawn):
    name, a, _, tree = drawn
    slots = [float(each.attrib["data-v"]) for each in tree_of_values(tree) if "data-v" in each.attrib]
    if name in SHARED:
        assert sorted(slots) == sorted(set(a.data))
    else:
        assert sorted(slots) == sorted(a.data), f"{name}: slots and entries differ"


def tree_of_values(tree):
    return [each for group in tree.iter(f"{SVG}g") if "data-values" in group.attrib for each in group.iter()]


def test_every_array_is_drawn_with_its_numbers(drawn):
    name, _, packed, tree = drawn
    found = groups(tree, "data-array")
    for field, array in packed.arrays().items():
        assert field in found, f"the picture of {name} does not show the array {field}"
        if (name, field) in IN_PART or any("data-v" in each.attrib for each in found[field]):
            continue  # slots of entries have a test of their own
        told = [each.text for each in found[field] if each.tag == f"{SVG}text" and each.text != "empty"]
        # Unsigned words are hexadecimal.
        numbers = [int(text, 16) if array.dtype.kind == "u" else float(text) for text in told]
        assert np.allclose(numbers, np.asarray(array, dtype=float).reshape(-1), atol=5e-3), f"{name}: {field}"
    assert set(found) <= set(packed.arrays()), f"{name} draws arrays that the format does not have"


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_every_kernel_of_a_ladder_appears_in_its_drawing():
    shown = {}
    for study, own in ladders.ladders().items():
        tree = ET.fromstring(ladders.draw(study).svg("x"))
        drawn = groups(tree, "data-kernel")
        assert own.keys() <= drawn.keys(), f"the ladder of {study} lacks {sorted(own.keys() - drawn.keys())}"
        told = " ".join(text.text or "" for text in tree.iter(f"{SVG}text"))
        for head in own.values():
            assert head.idea.split()[0] in told
        shown |= own
    for name, head in ladders.kernels().items():
        assert name in shown or not head.after, f"{name} builds on {head.after}, and no ladder shows it"


@pytest.mark.parametrize("study", sorted(ladders.ladders()))
def test_every_ladder_is_on_the_page(study):
    page = PAGES[ROOT / "docs" / "how" / "kernels.md"]
    assert f"```{{picture}} ladders/{study}\n" in page, (
        f"docs/how/kernels.md does not show the ladder of {study}: add it"
    )


def test_every_panel_is_of_a_kernel_and_on_a_sheet():
    known = ladders.kernels()
    shown = [name for _, names in kernels.SHEETS.values() for name in names]
    assert set(shown) == set(kernels.PANELS) and len(shown) == len(set(shown))
    assert set(shown) <= known.keys(), f"docs/pictures/kernels.py draws {set(shown) - known.keys()}, no kernels"


def test_studies_with_panels_show_each_file():
    """A file whose first kernel is a tile or dtype of another one needs no panel."""
    for sheet in kernels.SHEETS:
        files = {head.path.stem for head in ladders.kernels().values() if head.study == sheet and not head.vendor}
        shown = {ladders.kernels()[name].path.stem for name in kernels.PANELS}
        missing = {name for name in files - shown if not name.endswith("_f8")}
        assert not missing, f"docs/pictures/kernels.py draws nothing for kernels/{sheet}/{min(missing)}.cu: add a panel"


# --- the road, measuring, limits --------------------------------------------------------------------------------------


def test_the_road_shows_the_stages_in_order():
    assert list(road.STAGES) == list(contracts.document(ROOT / "config" / "config.yaml", "config"))
    for stage, (_, files) in road.STAGES.items():
        assert files[0].startswith(f"results/{stage}/")
    for edit, again in road.RERUNS:
        assert set(again) <= set(road.STAGES), edit


def test_every_entry_of_the_log_is_told():
    log = (ROOT / "kernels" / "flagship" / "NOTES.md").read_text()
    numbers = set(re.findall(r"^(\d+)\. ", log, re.MULTILINE))
    told = set(re.findall(r"^\*\*\[(\d+)\]\*\*", PAGES[ROOT / "docs" / "how" / "limits.md"], re.MULTILINE))
    assert numbers == told, f"docs/how/limits.md and the log differ by {sorted(numbers ^ told, key=int)}"


def test_the_number_of_dropped_ideas_is_that_of_the_page():
    page = PAGES[ROOT / "docs" / "how" / "limits.md"]
    ideas = set(re.findall(r"^\*\*\[(\d+)\]\*\*", page, re.MULTILINE))
    dropped = re.findall(r"\*Kept\*:\s+no[.:;]", page)
    assert f"{len(dropped)} of the {len(ideas)} ideas were dropped" in page


def test_gains_drawn_are_those_of_the_log():
    log = (ROOT / "kernels" / "flagship" / "NOTES.md").read_text()
    entries = dict(re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", log, re.MULTILINE | re.DOTALL))
    for each in limits.EXPERIMENTS:
        for number in set(re.findall(r"[a-z]+|\d+(?:\.\d+)?", f"{each.expected} {each.outcome}")) - {"1"}:
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", entries[str(each.entry)]), (each.entry, number)


def test_figures_of_the_limits_have_rows():
    gains = limits.gains()
    assert all(count >= 50 and 0.3 < gain < 5 for gain, count in gains.values())
    assert limits.counters().svg("x").count("<circle") > 100


def test_no_matrix_lies_left_of_the_axis():
    tree = ET.fromstring(limits.fullness().svg("x"))
    ticks = [float(text.attrib["x"]) for text in tree.iter(f"{SVG}text") if (text.text or "").endswith("×")]
    circles = [float(circle.attrib["cx"]) - float(circle.attrib["r"]) for circle in tree.iter(f"{SVG}circle")]
    assert min(circles) > max(ticks), "a mark would lie on a tick label"


def test_measuring_draws_the_numbers_of_the_code():
    from spmm_roofline.measure import timing

    assert f"submit {timing.BATCH} ×" in measuring.batch().svg("x")


# --- all pictures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_stable_described_and_shown_once(name):
    text = PICTURES[name]().svg("picture")
    assert text == PICTURES[name]().svg("picture"), f"{name} differs from run to run"
    tree = ET.fromstring(text)
    assert tree.find(f"{SVG}title").text and len(tree.find(f"{SVG}desc").text) > 20
    shown = [
        path.name for path, page in PAGES.items() for _ in re.findall(rf"^```{{picture}} {name}$", page, re.MULTILINE)
    ]
    assert len(shown) == 1, f"{name} is on {shown or 'no page'}"


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_leaves_the_canvas(name):
    tree = ET.fromstring(PICTURES[name]().svg("picture"))
    low, _, width, height = map(float, tree.attrib["viewBox"].split())
    high = low + width
    for rect in tree.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert low < x and y >= 0 and x + w < high and y + h < height, (name, rect.attrib)
    for left, right, _, _, words in boxes(tree):
        assert low <= left and right <= high, f"{name}: {words!r} leaves the picture"


def boxes(tree):
    """Left and right edge, upper and lower edge of each text, and its words."""
    groups = {
        text: group
        for group in tree.iter(f"{SVG}g")
        for text in group.iter(f"{SVG}text")
        if "cells" in group.get("class", "")
    }
    for text in tree.iter(f"{SVG}text"):
        told = {**(groups[text].attrib if text in groups else {}), **text.attrib}
        size, x, y = (float(told[key]) for key in ("font-size", "x", "y"))
        mono = "mono" if "cells" in told.get("class", "") else ""
        wide = size * width_of(text.text or "", told.get("class", "") + mono)
        x -= wide * {"middle": 0.5, "end": 1.0}.get(told.get("text-anchor", ""), 0.0)
        yield x, x + wide, y - 0.72 * size, y, text.text


@cache
def width_of(text, kind):
    """Width of a text in DejaVu, which is wider than most fonts, in units of its size."""
    family = "DejaVu Sans Mono" if "mono" in kind else "DejaVu Sans"
    font = FontProperties(family=family, weight="bold" if "bold" in kind else "normal", size=10)
    return TextToPath().get_text_width_height_descent(text, font, False)[0] / 10


@pytest.mark.parametrize("name", PICTURES)
def test_no_words_overlap(name):
    found = sorted(boxes(ET.fromstring(PICTURES[name]().svg("picture"))), key=lambda box: box[2])
    for index, (left, right, _, bottom, words) in enumerate(found):
        for other_left, other_right, top, _, other in found[index + 1 :]:
            if top >= bottom - 0.5:
                break
            shared = min(right, other_right) - max(left, other_left)
            assert shared < 1.5, f"{name}: {words!r} overlaps {other!r}"
