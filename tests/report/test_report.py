"""The page: one file that needs nothing else, says where its numbers come from, and keeps its bytes."""

import re
from html.parser import HTMLParser

import pytest

from spmm_roofline import report
from spmm_roofline.report import tables as page_tables
from tests.analysis import synthetic

CONFIG = {"report": {"title": "Which SpMM kernel is fastest, and what limits it?"}}
PROVENANCE = {
    "version": "0.1.0",
    "protocol": 1,
    "timing": {"least_samples": 20, "interval_goal_fraction": 0.01},
    "tolerances": [{"sums": "float32", "c": "float16", "rel_error": 2e-3, "max_row_error": 1e-2}],
    "suites": {"quick": "One matrix of each generator"},
    "compiler": "NVRTC 13.0.88",
}


def build(folder, heads=synthetic.HEADS, provenance=PROVENANCE, **inputs):
    """The page of an analysis of ``inputs``, as text; its figures lie in ``folder/figures``."""
    out = synthetic.analyse(folder / "analysis", **inputs)
    html = folder / "report.html"
    report.build(out, CONFIG, heads, synthetic.ROOT / "report", html, folder / "figures", provenance)
    return html.read_text()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def page(folder, recorded):
    return build(folder, recorded=[recorded], fingerprints=synthetic.FINGERPRINTS | {"mma_t": "changed"})


class Outline(HTMLParser):
    """What a page consists of: elements with their attributes, text outside of scripts, and unclosed elements."""

    VOID = frozenset({"meta", "link", "input", "br", "path", "use", "image"})

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open, self.unclosed = [], [], [], []
        self.feed(text)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.unclosed.append((tag, self.open[-1:]))
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page)


def test_the_page_is_well_formed(page, outline):
    assert page.startswith("<!DOCTYPE html>")
    assert outline.unclosed == []
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), f"ids that stand twice: {sorted({name for name in ids if ids.count(name) > 1})}"
    targets = [attributes["href"][1:] for attributes in outline.all("a") if attributes["href"].startswith("#")]
    assert targets and set(targets) <= set(ids)


def test_the_page_loads_nothing(page, outline):
    for tag, attributes in outline.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            value = attributes.get(name) or ""
            assert not re.match(r"(https?:)?//", value), f"<{tag}> loads {value}"
    assert all("src" not in attributes for attributes in outline.all("script"))
    assert [attributes["rel"] for attributes in outline.all("link")] == ["icon"]
    assert not re.search(r"@import|url\((?!#)", page.split("</style>")[0])
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(", page)


def test_every_figure_has_a_text_for_those_who_cannot_see_it(outline, folder):
    figures = outline.all("svg")
    assert len(figures) == len(list((folder / "figures").glob("*.svg"))) > 10
    for attributes in figures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 60, f"{attributes['aria-label']!r} says too little"
    assert len(outline.all("figcaption")) == len(figures)


def test_the_first_screen_answers(outline):
    start = outline.text[: outline.text.index("Suite quick")]
    for words in (
        "Which SpMM kernel is fastest",
        "NVIDIA H200 (SXM) , cold L2",
        "recorded",
        "not measured on this machine",
        "580.65.06",
        "2026-11-20",
        "180 recorded",
        "In FP16 another kernel beats cuSPARSE in 12 of 18 cases",
        "In BF16 only cuSPARSE ran",
        "The kernel to choose",
        "On h200, 1 of 2 claims that can be tested hold; for 1 more the rows are missing.",
        "not reproduced",
        "no measured matrix is of the kind",
        "structural",
        "N = 512",
    ):
        assert words in start, f"the first screen does not say {words!r}"


def test_a_class_without_cusparse_wins_only_where_it_is_faster(tmp_path):
    rows = [row for row in synthetic.measure_rows() if row["kernel"] in ("bricks", "cusparse_csr_alg2_f32")]
    for row in rows:
        row["time_ms"] = {"bricks": 2.0, "cusparse_csr_alg2_f32": 1.0}[row["kernel"]]
        if row["matrix"] == "cfd1" and row["kernel"] == "bricks":
            row["time_ms"] = 0.5
    page = build(tmp_path, recorded=[synthetic.write_recorded(tmp_path / "h200", rows)])
    told = "In TF32 another kernel beats cuSPARSE in FP32 in 3 of 18 cases, there by 2.00× in the geometric mean"
    assert told in Outline(page).text


def test_stale_rows_are_marked(outline):
    assert "Kernels have changed since 18 of the rows were recorded" in outline.text
    assert re.search(r"mma_t stale smat FP16", outline.text)
    assert not re.search(r"mma_bt stale", outline.text)


def test_rows_without_a_time_are_listed_with_their_message(outline):
    assert "relative error 0.31 is above the tolerance 0.002" in outline.text
    assert "needs as many rows as columns" in outline.text


def test_kernels_methods_and_structure_are_told(outline):
    for words in (
        "44 reg · 8 B · 4,096 B spills",
        "the idea of mma_obts",
        "values are real numbers, not ones",
        "One matrix of each generator",
        "Protocol 1",
        "interval goal 1 %",
        "4.13 TB/s",
        "bcsr_16x16",
        "make report",
        "NVRTC 13.0.88",
    ):
        assert words in outline.text, f"the page does not say {words!r}"


def test_the_page_says_whether_ceilings_were_measured(outline, tmp_path):
    assert (
        "No ceilings of computation were measured on h200: the peaks of its datasheet stand for them." in outline.text
    )
    recorded = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    own = Outline(build(tmp_path, recorded=[recorded])).text
    # 950 of 1979 through 2:4 products, 60 of 66.9 on CUDA cores.
    assert "On h200, 4 ceilings of computation were measured; they reach 48 % to 90 % of its datasheet." in own
    # With the rates of DRAM and L2 there is something to predict with.
    assert "A kernel for your matrix" in own and "A kernel for your matrix" not in outline.text
    told = "What limits a kernel at the bytes that were counted, and what it must save to be twice as fast"
    assert told in own and re.search(r"mma_bt 1 0 1 0 \d+ % \S+× \S+ of 1", own)
    assert re.search(r"float16 tensor mma 635 TFLOP/s 989 TFLOP/s 64 % products on 2026-11-20", own)


def test_equal_tables_give_equal_bytes(page, recorded, tmp_path):
    again = build(tmp_path, recorded=[recorded], fingerprints=synthetic.FINGERPRINTS | {"mma_t": "changed"})
    assert again == page


def test_without_measurements_the_page_says_so(tmp_path):
    outline = Outline(build(tmp_path, provenance={}))
    assert outline.unclosed == [] and outline.open == []
    assert "No measurements yet" in outline.text
    assert "There are no rows." in outline.text
    assert outline.all("svg") == []


def test_rows_measured_here_are_called_so(tmp_path):
    files = synthetic.write_measures(synthetic.measure_rows(), tmp_path / "measure")
    outline = Outline(build(tmp_path, measured=files))
    assert "measured here" in outline.text
    assert "not measured on this machine" not in outline.text
    assert "What limits them is unknown" in outline.text  # no device record was given


def test_figures_of_an_earlier_report_do_not_stay(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.svg").write_text("<svg/>")
    build(tmp_path)
    assert list((tmp_path / "figures").iterdir()) == []


def test_names_and_messages_cannot_become_markup(tmp_path):
    message = "</script><script>alert(1)</script> & <b>bold</b>"
    row = synthetic.measure_row("mma_bt", "cfd1", 32, status="launch_failed", message=message)
    text = build(tmp_path, measured=synthetic.write_measures([row], tmp_path / "measure"))
    outline = Outline(text)
    assert "alert(1)</script>" not in text
    assert outline.unclosed == []
    assert message in outline.text


def test_all_rows_carry_no_nan(tmp_path, recorded):
    import json

    from spmm_roofline import contracts

    cases = contracts.read(synthetic.analyse(tmp_path, recorded=[recorded]) / "cases.csv", "analysis_cases")
    content = page_tables.all_rows(cases)
    assert len(content["rows"]) == len(cases)
    assert "NaN" not in json.dumps(content, allow_nan=False)
    columns = content["columns"]
    time, status = columns.index("time_ms"), columns.index("status")
    failed = [row for row in content["rows"] if content["texts"][status][row[status]] != "ok"]
    assert failed and all(row[time] is None for row in failed)
