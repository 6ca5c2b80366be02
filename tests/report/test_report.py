"""The page: one file that needs nothing else, says where its numbers come from, and keeps its bytes."""

import base64
import gzip
import json
import re
import shutil
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from spmm_roofline import analysis, contracts, figures, report
from spmm_roofline.figures import FigureError, rivals, throughput
from spmm_roofline.figures.numbers import rate, significant, times
from spmm_roofline.report import drawings, embedded
from spmm_roofline.report.tables import every, study
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("report")

CONFIG = {"report": {"title": "Which SpMM kernel is fastest, and what limits it?"}}
PROVENANCE = {
    "version": "0.1.0",
    "protocol": 1,
    "timing": {"least_samples": 20, "interval_goal_fraction": 0.01, "energy": False, "lock_clocks_mhz": None},
    "tolerances": [{"sums": "float32", "c": "float16", "rel_error": 2e-3, "max_row_error": 1e-2}],
    "suites": {"quick": "One matrix of each generator"},
    "compiler": "NVRTC 13.0.88",
}


def build(folder, heads=synthetic.HEADS, provenance=PROVENANCE, **inputs):
    """The page of an analysis of ``inputs``, as text; its figures lie in ``folder/figures``."""
    out = synthetic.analyse(folder / "analysis", **inputs)
    html = folder / "report.html"
    report.build(out, CONFIG, heads, synthetic.ROOT / "report", html, folder / "figures", provenance)
    return whole(html.read_text())


def content(packed):
    """What was packed into a text of the page."""
    signs = packed.encode().translate(bytes.maketrans(embedded.IN_PAGE, embedded.OF_HTML))
    return gzip.decompress(base64.b85decode(signs)).decode()


def whole(page):
    """The page as it stands when its script has unpacked its figures and long tables."""
    later = re.compile(r'<div class="later"[^>]*><script type="text/plain">([^<]*)</script></div>')
    return later.sub(lambda found: content(found[1]), page)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without figures: where a test asks for the text alone, drawing them would take most of its time."""
    monkeypatch.setattr(figures, "draw_all", lambda tables, processes, suites: iter(()))


@pytest.fixture
def drawn_in_part(monkeypatch):
    """Pages with the figures of one kind."""
    monkeypatch.setattr(figures, "draw_all", partial(figures.draw_all, only=["throughput"]))


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
    # What is imported is the bundle that the page holds itself.
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\((?!bundle\))", page)


def test_every_figure_has_a_text_for_those_who_cannot_see_it(outline, folder):
    figures = [svg for svg in outline.all("svg") if svg["role"] != "group"]  # the interactive one has a test of its own
    assert len(figures) == len(list((folder / "figures").glob("*.svg"))) > 10
    for attributes in figures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 60, f"{attributes['aria-label']!r} says too little"
    assert len(outline.all("figcaption")) == len(figures)


def test_a_suite_without_a_section_is_listed_and_its_rows_are_kept(tmp_path, folder, page):
    html, drawn, pages = tmp_path / "report.html", tmp_path / "figures", {None: page}
    made_of = folder / "analysis", CONFIG, synthetic.HEADS, synthetic.ROOT / "report"
    for suites in (("quick",), ()):
        report.build(*made_of, html, drawn, PROVENANCE, suites=suites)
        pages[suites] = whole(html.read_text())
    for suites, text in pages.items():
        assert ("Those without a link have no section" in text) == (suites is not None)
        assert text.count('id="h200-quick"') == 1, "links to the suite lead nowhere"
    drawn = [{*re.findall(r'id="figure-\w+-h200-quick', text)} for text in pages.values()]
    assert drawn[0] == drawn[1] and drawn[0] and not drawn[2]
    assert len({re.search(r'id="data">([^<]+)', text).group(1) for text in pages.values()}) == 1


def test_a_study_has_a_section_with_its_figures_and_points_to_its_suites(tmp_path, recorded, page, monkeypatch):
    assert "of the paper</span>" not in page, "too few matrices for a paper's figures"
    monkeypatch.setattr(rivals, "LEAST_MATRICES", 2)
    rival = ("bricks", "ladder_width", "pruned_dense", "scalar_cores", "synergy", "synergy_classes", "synergy_heatmap")
    monkeypatch.setattr(figures, "draw_all", partial(figures.draw_all, only=["preprocessing", *rival]))
    page = build(tmp_path, recorded=[recorded])
    section = page[page.index('<section id="studies">') :]
    section = section[: section.index("</section>")]
    assert 'href="#studies"' in page and 'id="study-cutespmm"' in section
    assert '<a href="#h200-real-sample">Suite real-sample</a> on h200, cold L2' in section
    assert 'id="figure-synergy-h200-real-sample-cold"' in section
    assert 'href="#figure-preprocessing-h200-real-sample-cold"' in section
    assert Outline(page).unclosed == []


def test_the_first_screen_answers(outline):
    start = outline.text[: outline.text.index("Suite quick")]
    for words in (
        "Which SpMM kernel is fastest",
        "NVIDIA H200 (SXM) , cold L2",
        "1 reproduced 0 in part 1 not reproduced 0 undecided 1 not testable",
        "recorded",
        "not measured on this machine",
        "580.65.06",
        "2026-11-20",
        "180 recorded",
        "Stale, noisy, throttled 18 · 1 · 0",
        "Empty replay 4.0 µs",
        "Counters 2 cases, 0 of other code left out",
        "In FP16 another kernel beats cuSPARSE in 12 of 18 cases",
        "In BF16 only cuSPARSE ran",
        "The kernel to choose",
        "On h200, 1 of 2 claims that can be tested is reproduced; 1 more cannot be tested.",
        "not reproduced",
        "no measured matrix is of the kind",
        "structural",
        "N = 512",
    ):
        assert words in start, f"the first screen does not say {words!r}"


def test_a_class_without_cusparse_wins_only_where_it_is_faster(tmp_path, undrawn):
    told = {"bricks": 2.0, "cusparse_csr_alg2_f32": 1.0, "cusparse_csr_alg3_f32": 3.0}
    rows = [row for row in synthetic.measure_rows() if row["kernel"] in told]
    for row in rows:
        was = row["time_ms"]
        row["time_ms"] = told[row["kernel"]]
        if row["matrix"] == "cfd1" and row["kernel"] == "bricks":
            row["time_ms"] = 0.5
        row["useful_gflops"] *= was / row["time_ms"]
    page = build(tmp_path, recorded=[synthetic.write_recorded(tmp_path / "h200", rows)])
    told = "In TF32 another kernel beats cuSPARSE in FP32 in 3 of 18 cases, there by 2.00× in the geometric mean"
    assert told in Outline(page).text


def test_a_cell_says_how_many_matrices_it_stands_for_and_what_qualifies_it(tmp_path, undrawn):
    matrices = ("bcsstk32", "cfd1", "dblp-2010", "lp_nug30")
    # At N = 512 three of the four ran; in FP16 two kernels take the same time but for 1 %.
    rows = [
        row
        for row in synthetic.measure_rows()
        if row["matrix"] in matrices and (row["n"] == 128 or (row["n"] == 512 and row["matrix"] != "lp_nug30"))
    ]
    for row in rows:
        if row["kernel"] in ("mma_bt", "mma_bt_f32"):
            was = row["time_ms"]
            row["time_ms"] = 0.02 * row["n"] / (1.01 if row["kernel"] == "mma_bt" else 1.0)
            row["useful_gflops"] *= was / row["time_ms"]
    rows = [row for row in rows if row["kernel"] not in ("mma_t", "mma_obts", "cusparse_csr_alg2_f16")]
    jsons = [tmp_path / f"{name}.json" for name in matrices]
    for path in jsons:
        contracts.write_row(synthetic.matrix_row(path.stem) | {"kind": "mesh"}, path, "matrices")
    files = synthetic.write_measures(rows, tmp_path / "measure")
    text = Outline(build(tmp_path, measured=files, matrices=jsons)).text
    kinds = contracts.read(tmp_path / "analysis" / "kinds.csv", "analysis_kinds")
    four, three = kinds[kinds["precision"] == "float32"].sort_values("n").itertuples()
    assert (four.matrices, three.matrices) == (4, 3)
    assert four.speedup_low < four.speedup < four.speedup_high
    told = f"{four.kernel} {times(four.speedup)} ({significant(four.speedup_low)}–{significant(four.speedup_high)})"
    assert "mesh 4 matrices" in text and told in text
    assert f"{three.kernel} {times(three.speedup)} · – 3 of 4 matrices" in text, "three matrices have no interval"
    # No cuSPARSE ran in FP16 and the device has no file: neither a speed-up nor a limit.
    assert "mma_bt FP16 sums – · – ≈ mma_bt_f32 mma_bt FP16 sums – · – ≈ mma_bt_f32 3 of 4 matrices" in text
    assert "In FP16 no case has a baseline" in text
    assert "In FP16 no row has a speed-up: cuSPARSE was not run." in text


def test_every_figure_says_how_to_make_it_again(outline):
    assert outline.text.count("To make it again from results/analysis/") == len(outline.all("figure"))
    sources = "results/analysis/cases.csv, results/analysis/ceilings.csv and results/analysis/matrices.csv"
    assert f"from {sources}: snakemake --cores 4 report" in outline.text
    # The other suite is none of those that the provenance of this page names.
    assert "report --config suite=quick" in outline.text and "suite=real-sample" not in outline.text


def test_a_claim_shows_its_number_or_why_there_is_none(folder, page):
    judged = contracts.read(folder / "analysis" / "claims.csv", "analysis_claims")
    (table,) = study.claims(judged)
    shown = [line.text for row in table.rows for line in row[table.columns.index("ours")].lines]
    numbers = [text for text in shown if re.match(r"[\d.,]+×( \([\d.,]+× – [\d.,]+×\))? on \w+, \d+ matrices: $", text)]
    assert len(numbers) == judged["value"].notna().sum() > 0
    assert {text for text in shown if text not in numbers} == {
        "generated: no measured matrix is of the kind that it speaks of"
    }
    assert all(text.strip() in page for text in shown)


def test_a_claim_stands_in_the_section_of_its_study_with_the_papers_number(outline, page):
    section = page[page.index('<h3 id="study-sptc">') :]
    for words in (
        "At N = 4096 sparse tensor cores double the speed",
        "2.00×",
        "≥ 2 and ≤ 3",
        "on generated, 2 matrices",
    ):
        assert words in section, f"the section of the study does not say {words!r}"
    assert "Claims by study and verdict" in outline.text


def test_claims_lead_to_the_suites_that_they_were_judged_on(outline):
    links = [attributes["href"] for attributes in outline.all("a")]
    assert "#h200-real-sample" in links[links.index("#rows") :], "no claim leads to its suite"


def test_stale_rows_are_marked(outline):
    assert "of these rows, 18 are stale, " in outline.text
    assert "Kernels have changed since the rows marked stale were recorded." in outline.text
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
        "energy no",
        "lock clocks mhz no",
        "4.13 TB/s",
        "bcsr_16x16",
        "make report",
        "NVRTC 13.0.88",
    ):
        assert words in outline.text, f"the page does not say {words!r}"


def test_the_page_says_whether_ceilings_were_measured(outline, tmp_path, monkeypatch):
    assert (
        "No ceilings of computation were measured on h200: the peaks of its datasheet stand for them." in outline.text
    )
    recorded = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    monkeypatch.setattr(figures, "draw_all", partial(figures.draw_all, only=["bounds", "selector"]))
    own = Outline(build(tmp_path, recorded=[recorded])).text
    # 950 of 1979 through 2:4 products, 60 of 66.9 on CUDA cores.
    assert "On h200, 4 ceilings of computation were measured; they reach 48 % to 90 % of its datasheet." in own
    # With the rates of DRAM and L2 there is something to predict with.
    assert "A kernel for your matrix" in own and "A kernel for your matrix" not in outline.text
    told = "What limits a kernel at the bytes that were counted, and what it must save to be twice as fast"
    assert told in own and re.search(r"mma_bt 1 0 1 0 0 \d+ % \S+× \S+ of 1", own)
    assert re.search(r"float16 tensor mma 635 TFLOP/s 989 TFLOP/s 64 % products on 2026-11-20", own)


def test_every_profiled_kernel_is_told_what_limits_it(outline, tmp_path, monkeypatch, undrawn):
    # The rate of L2 was not measured, DRAM moves 2.00 of 4.13 TB/s, and six of ten waiting warps wait for memory.
    told = (
        "mma_bt Limited by the latency of memory, because 60 % of the waiting warps stand in long scoreboard, 6.00 for "
        "each instruction issued, while DRAM moves 48 % of the highest measured rate; 0.500 bank conflicts for each "
        "instruction."
    )
    assert told in outline.text
    waits = "long scoreboard 6.00, short scoreboard 1.50"
    assert re.search(rf"mma_bt FP16 1 the latency of memory .* 25 % .*{waits}", outline.text)
    # Of 8 and 4.4 TB/s, 0.2 GB through L2 and 0.1 GB of DRAM are 93 % and 84 % in 27 µs, 62 % and 57 % in 40 µs.
    rows = synthetic.profile_rows()
    for row in rows:
        if row["metric"] == "gpu__time_duration.sum":
            row["value"] = {"mma_bt": 27_000.0, "bricks": 40_000.0}[row["kernel"]]
    monkeypatch.setattr(synthetic, "profile_rows", lambda: rows)
    recorded = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    own = Outline(build(tmp_path, recorded=[recorded])).text
    assert "mma_bt Limited by the bandwidth of L2, because L2 moves 93 % of the highest measured rate; 0.500" in own
    told = "DRAM moves 57 % of the highest measured rate and L2 moves 62 % of the highest measured rate; 0.500"
    assert f"bricks No single limit: {told}" in own
    assert re.search(r"bricks TF32 1 no single unit ", own)


def test_too_few_matrices_give_no_profile_and_still_a_page(tmp_path):
    rows = [row for row in synthetic.measure_rows() if row["suite"] == "quick"]
    own = Outline(build(tmp_path, recorded=[synthetic.write_recorded(tmp_path / "h200", rows)]))
    drawn = {path.stem.split("-")[0] for path in (tmp_path / "figures").glob("*.svg")}
    assert "performance" not in drawn and {"speedup_heatmap", "break_even"} <= drawn
    assert "Share of the cases on which a kernel is the fastest" not in own.text
    assert "after how many products it has paid back against cuSPARSE" in own.text


def test_equal_tables_give_equal_bytes(page, recorded, tmp_path):
    again = build(tmp_path, recorded=[recorded], fingerprints=synthetic.FINGERPRINTS | {"mma_t": "changed"})
    assert again == page


def test_without_measurements_the_page_says_so(tmp_path):
    outline = Outline(build(tmp_path, provenance={}))
    assert outline.unclosed == [] and outline.open == []
    assert "No measurements yet" in outline.text
    assert "There are no rows." in outline.text
    assert outline.all("svg") == []


def test_several_devices_stand_side_by_side(page, tmp_path, recorded, undrawn):
    assert "Devices side by side" not in page
    # The other device is half as fast and has one matrix less.
    rows = [row | {"device": "a100"} for row in synthetic.measure_rows() if row["matrix"] != "cfd1"]
    for row in rows:
        if row["status"] == "ok":
            row |= {"time_ms": 2 * row["time_ms"], "useful_gflops": row["useful_gflops"] / 2}
    other = synthetic.write_recorded(tmp_path / "a100", rows)
    outline = Outline(build(tmp_path, recorded=[recorded, other]))
    assert outline.unclosed == []
    assert "Devices side by side" in outline.text
    across = contracts.read(tmp_path / "analysis" / "across.csv", "analysis_across")
    of = across[across["kernel"] == "row_split"].set_index("device")
    assert set(of["cases"]) == {15}, "six matrices but cfd1, at three widths"
    here, there = of.loc["h200"], of.loc["a100"]
    assert here["useful_gflops"] == pytest.approx(2 * there["useful_gflops"])
    # Each device is compared with its own cuSPARSE, of which all times doubled too.
    assert here["speedup"] == pytest.approx(there["speedup"])
    told = f"row_split FP32 cold 15 {rate(here['useful_gflops'])} {times(here['speedup'])}"
    assert told in outline.text
    assert f"{rate(there['useful_gflops'])} 0.500× {times(there['speedup'])}" in outline.text


def test_rows_measured_here_are_called_so(tmp_path, undrawn):
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


def test_a_figure_that_fails_leaves_the_old_report(tmp_path, recorded, monkeypatch, drawn_in_part):
    before = build(tmp_path, recorded=[recorded])
    files = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}

    def fails(tables, styles):
        raise ZeroDivisionError("no rows")

    monkeypatch.setattr(throughput, "draw", fails)
    with pytest.raises(FigureError, match=r"the figure throughput of .* cannot be drawn: ZeroDivisionError: no rows"):
        build(tmp_path, recorded=[recorded])
    assert whole((tmp_path / "report.html").read_text()) == before
    assert {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()} == files


def test_names_and_messages_cannot_become_markup(tmp_path):
    message = "</script><script>alert(1)</script> & <b>bold</b>"
    row = synthetic.measure_row("mma_bt", "cfd1", 32, status="launch_failed", message=message)
    text = build(tmp_path, measured=synthetic.write_measures([row], tmp_path / "measure"))
    outline = Outline(text)
    assert "alert(1)</script>" not in text
    assert outline.unclosed == []
    assert message in outline.text


def unpacked(page, name):
    """What the page holds packed under an id."""
    (text,) = re.findall(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    return content(text)


def test_the_page_holds_all_rows_and_the_library_that_shows_them(page, folder):
    cases = every.in_order(contracts.read(folder / "analysis" / "cases.csv", "analysis_cases"))
    data = json.loads(unpacked(page, "data"))
    columns, values, texts = (data[name] for name in ("columns", "values", "texts"))
    assert {len(column) for column in values} == {len(cases)} and len(columns) == len(values)
    for name in ("kernel", "matrix", "status"):
        at = columns.index(name)
        assert [texts[str(at)][place] for place in values[at]] == list(cases[name])
    times = values[columns.index("time_ms")]
    assert [time is None for time in times] == list(cases["status"] != "ok")
    assert "DataTables" in unpacked(page, "library-script") and ".dataTable" in unpacked(page, "library-style")


def test_all_rows_have_every_column_of_their_table(page, folder):
    cases = every.in_order(contracts.read(folder / "analysis" / "cases.csv", "analysis_cases"))
    data = json.loads(unpacked(page, "data"))
    columns = data["columns"]
    assert len(columns) == len(set(columns)), "a column stands twice"
    assert set(columns) == set(contracts.table("analysis_cases").names) | set(every.OF_ROOFLINE)
    assert set(every.OF_ROOFLINE) - {"ceiling"} <= set(contracts.table("analysis_roofline").names)
    assert columns[: data["shown"]] == every.SHOWN

    def column(name):
        at = columns.index(name)
        texts = data["texts"].get(str(at))
        return [value if texts is None or value is None else texts[value] for value in data["values"][at]]

    assert column("host") == ["" if host is pd.NA else host for host in cases["host"]]
    assert column("throttled") == [{True: "yes", False: ""}.get(value, "") for value in cases["throttled"]]
    assert column("steps") == list(cases["steps"])
    assert column("baseline_missing") == ["" if name is pd.NA else name for name in cases["baseline_missing"]]
    limit = [None if value != value else value for value in cases["memory_limit_gflops"]]
    assert column("memory_limit_gflops") == [value and float(f"{value:.{every.DIGITS}g}") for value in limit]


def test_values_that_the_page_holds_as_factors_are_those_of_the_table(page, folder):
    """As ``rows.js`` computes them, to four significant digits."""
    tables = analysis.read(folder / "analysis")
    cases = every.in_order(every.with_limits(tables["cases"], tables["roofline"]))
    data = json.loads(unpacked(page, "data"))
    values = data["values"]
    assert len(data["relative"]) == len(every.RELATIVE)
    for at, multiplied, over in data["relative"]:
        wanted = cases[data["columns"][at]].astype("float64").tolist()
        for row, factor in enumerate(values[at]):
            if factor is None:
                assert wanted[row] != wanted[row]
                continue
            for name in multiplied:
                factor *= 1 if values[name][row] is None else values[name][row]
            values[at][row] = factor / (1 if over is None or not factor else values[over][row] or 1)
            assert values[at][row] == pytest.approx(wanted[row], rel=1e-3), data["columns"][at]


def test_all_rows_carry_no_nan(page):
    assert "NaN" not in unpacked(page, "data")


def test_what_binds_a_row_stands_in_it(page, folder):
    roofline = contracts.read(folder / "analysis" / "roofline.csv", "analysis_roofline")
    data = json.loads(unpacked(page, "data"))
    columns = data["columns"]

    def column(name):
        at = columns.index(name)
        texts = data["texts"].get(str(at))
        return [value if texts is None or value is None else texts[value] for value in data["values"][at]]

    rows = zip(*map(column, ("kernel", "ceiling", "distance", "save_dram_bytes")), strict=True)
    bound = [
        row for row in rows if not row[0].startswith("cusparse_best_") and row[1] in ("dram", "l2", "compute", "launch")
    ]
    assert len(bound) == len(roofline)
    assert all(distance > 0 and save is not None for _, _, distance, save in bound)


def test_the_page_knows_its_figures_by_their_bytes(folder, page, tmp_path):
    html, figures = folder / "report.html", folder / "figures"
    known = re.findall(r'<figure id="figure-([^"]+)" data-sha256="', page)
    assert sorted(f"{name}.svg" for name in known) == sorted(path.name for path in figures.iterdir())
    drawings.check(html, figures)
    copy = Path(shutil.copytree(figures, tmp_path / "figures"))
    truncated, gone = copy / f"{known[3]}.svg", copy / f"{known[5]}.svg"
    truncated.write_bytes(truncated.read_bytes()[:-20])
    gone.unlink()
    with pytest.raises(contracts.ContractError, match=rf"^{truncated}, {gone}: not the figure that"):
        drawings.check(html, copy)


def test_a_figure_that_did_not_reach_the_disk_fails_the_build(tmp_path, recorded, monkeypatch, drawn_in_part):
    def cut_short(drawn, folder):
        drawings_write(drawn, folder)
        victim = min(folder.iterdir())
        victim.write_text(victim.read_text()[:100])

    drawings_write = drawings.write
    monkeypatch.setattr(drawings, "write", cut_short)
    with pytest.raises(contracts.ContractError, match=r"\.svg: not the figure that"):
        build(tmp_path, recorded=[recorded])
