"""The pages of the studies show the recorded rows of today, and what they say of verdicts is so."""

import csv
import json
import math
import re
import shlex

import pytest

from docs import tables  # first: it makes the other modules of docs importable
from spmm_roofline import contracts, figures
from spmm_roofline.analysis.claims import verdict
from spmm_roofline.figures.papers import PAPERS
from tests.docs.test_snippets import check_snakemake

evidence, study_pages = tables.study_pages.evidence, tables.study_pages
ROOT = tables.ROOT
PAGES = [ROOT / "docs/studies" / f"{study_pages.PAGE.get(study, study)}.md" for study in PAPERS]
AGAIN = "run `python docs/evidence.py`, which takes minutes, and `python docs/tables.py`"
CLAIMS = {claim["id"]: claim for claim in contracts.document(ROOT / "config/claims.yaml", "claims")["claims"]}
ENTRIES = [
    pytest.param(study, entry, id=f"{study}: {entry['place']}")
    for study, entries in study_pages.counterparts().items()
    for entry in entries
]


def test_claims_and_figures_are_those_of_the_recorded_rows():
    changed = evidence.out_of_date()
    assert not changed, f"the pages of the studies are older than {', '.join(changed)}: {AGAIN}"


def test_what_has_changed_is_named(tmp_path, monkeypatch):
    kept = tmp_path / "made_from.json"
    kept.write_text(json.dumps(evidence.made_from() | {"config/claims.yaml": "another"}))
    monkeypatch.setattr(evidence, "MADE_FROM", kept)
    assert evidence.out_of_date() == ["config/claims.yaml"]
    kept.unlink()
    assert "recorded rows" in evidence.out_of_date()


def test_every_figure_of_the_pages_is_there_and_small():
    drawn = {path.stem: path.stat().st_size for path in evidence.FIGURES.glob("*.svg")}
    others = (evidence.OPENING, *evidence.beside().values())
    assert set(drawn) == {*evidence.wanted(), *(path.stem for path in others)}, AGAIN
    assert max(drawn.values()) <= 150_000 and sum(drawn.values()) <= 2_000_000


def test_a_figure_that_no_module_draws_is_refused():
    with pytest.raises(ValueError, match="no module of figures draws"):
        evidence.kind_of("pie-h200")
    assert evidence.kind_of("ladder_real-h200-x").name == "ladder_real"
    assert evidence.kind_of("scale-h200-memory-bound-scale-warm").name == "scale"


def test_the_figure_of_a_papers_numbers_has_a_line_for_each_claim_with_one():
    import pandas as pd

    judged = pd.read_csv(evidence.CLAIMS)
    for path, svg in evidence._paper_numbers(judged).items():
        study = path.stem.removeprefix("paper-numbers-")
        rows = tables.study_pages.paper_numbers.shown(judged, study)
        assert words(svg) == words(path.read_text()), AGAIN
        assert all(any(text.startswith(claim) for text in words(svg)) for claim in rows["claim"])


def test_the_opening_has_the_fastest_kernel_of_each_side():
    import pandas as pd

    case = {"suite": "cutespmm", "n": 128, "status": "ok", "precision": "float32", "noisy": False}
    case["device"] = evidence.opening.DEVICE
    times = [
        {"study": "cusparse", "time_ms": 3.0},
        {"study": "cusparse", "time_ms": 2.0},
        {"study": "scalar", "time_ms": 1.5},
        {"study": "tcgnn", "time_ms": 1.2, "precision": "tf32"},
        {"study": "flagship", "time_ms": 1.0},
        {"study": "flagship", "time_ms": 0.5, "precision": "float16"},
        {"study": "flagship", "time_ms": 0.5, "n": 512},
        {"study": "flagship", "time_ms": 0.5, "status": "wrong"},
        {"study": "flagship", "time_ms": 0.9, "matrix": "noise", "noisy": True},
        {"study": "flagship", "time_ms": 1.0, "matrix": "noise"},
    ]
    rows = evidence.opening.shown(pd.DataFrame([case | {"matrix": "mesh"} | row for row in times]))
    assert dict(zip(rows["side"], rows["time_ms"], strict=True)) == {
        "fastest of cuSPARSE": 2.0,
        "fastest published kernel": 1.2,
        "fastest of ours": 1.0,
    }
    assert set(rows["matrix"]) == {"mesh"}, "a fastest row that is noisy is no time"


def words(svg):
    """Texts of a picture, as often as they occur."""
    return sorted(re.findall(r"<text[^>]*>([^<]+)</text>", svg))


# --- claims -----------------------------------------------------------------------------------------------------------


def test_every_claim_is_judged_on_every_device_as_it_says():
    judged = study_pages.judged()
    assert {row["claim"] for row in judged} == set(CLAIMS)
    for row in judged:
        if row["value"]:
            value, low, high = (float(row[name]) if row[name] else None for name in ("value", "low", "high"))
            assert verdict(CLAIMS[row["claim"]]["expect"], value, low, high) == row["verdict"], row


@pytest.mark.parametrize("device", study_pages.devices())
def test_a_mean_follows_from_the_recorded_rows(device):
    """The gain of pipelining, without the analysis: times of two kernels in two files."""
    folder = ROOT / "resources/recorded" / device / "thesis-synthetic"

    def times(kernel):
        with (folder / f"{kernel}.csv").open(newline="") as file:
            return {row["matrix"]: float(row["time_ms"]) for row in csv.DictReader(file) if row["n"] == "128"}

    slow, fast = times("mma_bt"), times("mma_obt")
    mean = math.exp(sum(math.log(slow[matrix] / fast[matrix]) for matrix in fast) / len(fast))
    (row,) = (
        row
        for row in study_pages.judged()
        if (row["claim"], row["set"], row["device"]) == ("pipelining", "percentages", device)
    )
    assert float(row["value"]) == pytest.approx(mean, rel=1e-4) and int(float(row["matrices"])) == len(fast)


def relied_on():
    for page in PAGES:
        for line in re.findall(r"<!-- relies: (.*?) -->", page.read_text()):
            for part in line.split(", "):
                yield pytest.param(page.name, *part.split(), id=part)


@pytest.mark.parametrize(("page", "claim", "verdicts"), list(relied_on()))
def test_a_paragraph_relies_on_verdicts_that_hold(page, claim, verdicts):
    found = {row["device"]: row["overall"] for row in study_pages.judged() if row["claim"] == claim}
    now = "/".join(found[device] for device in study_pages.devices())
    assert now == verdicts, f"{page}: read what is said of the claim {claim!r} again: it is {now}, and was {verdicts}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_number_of_a_paragraph_is_of_a_claim_that_the_paragraph_relies_on(page):
    for paragraph in page.read_text().split("\n\n"):
        relied = re.findall(r"(?:: |, )([\w-]+) \w+/\w+", "".join(re.findall(r"<!-- relies.*?-->", paragraph)))
        for claim in re.findall(r"<!-- ours: ([\w-]+)", paragraph):
            assert claim in relied, f"{page.name}: the paragraph with a value of {claim!r} does not rely on its verdict"


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_no_line_begins_with_a_number_that_is_generated(page):
    """Markdown would end the paragraph there: a line that begins with a comment is a block of HTML."""
    assert not re.search(r"^ *<!-- (?:ours|paper|over|time):", page.read_text(), re.MULTILINE)


def test_a_value_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="names 0 values"):
        study_pages.ours("pipelining, moons")
    with pytest.raises(ValueError, match="not one per device"):
        study_pages.ours("pipelining")


def test_rungs_of_hopper_are_compared_with_the_fastest_kernel_of_the_thesis(monkeypatch):
    import pandas as pd

    case = {"study": "sptc", "n": 128, "m": 4096, "dtype_accumulator": "float16", "noisy": False}
    times = [
        {"matrix": "even", "kernel": "mma_t", "study": "smat", "time_ms": 9.0},
        {"matrix": "even", "kernel": "mma_obt", "time_ms": 3.0},
        {"matrix": "even", "kernel": "mma_obt_f32", "time_ms": 1.0, "dtype_accumulator": "float32"},
        {"matrix": "even", "kernel": "csr", "time_ms": 1.0, "study": "cusparse"},
        {"matrix": "even", "kernel": "wgmma_obt", "time_ms": 2.0},
        {"matrix": "even", "kernel": "wgmma_obts", "time_ms": 1.5},
        {"matrix": "uneven", "kernel": "mma_obt", "time_ms": 4.0},
        {"matrix": "uneven", "kernel": "wgmma_obts", "time_ms": 0.5},
        {"matrix": "noise", "kernel": "mma_obt", "time_ms": 4.0},
        {"matrix": "noise", "kernel": "wgmma_obts", "time_ms": 1.0, "noisy": True},
        {"matrix": "small", "kernel": "mma_obt", "time_ms": 1.0, "m": 2048},
        {"matrix": "small", "kernel": "wgmma_obt", "time_ms": 2.0, "m": 2048},
    ]
    rows = pd.DataFrame([case | row for row in times])
    monkeypatch.setattr(study_pages, "_recorded", lambda device, suite: rows)
    monkeypatch.setattr(study_pages, "RUNGS_ON", {"large": ("suite", (4096,)), "small": ("suite", (2048,))})
    large, small = study_pages.rungs("h100").splitlines()[2:]
    assert large == "| large (2) |  |  |  | 4.00 <small>(2.00 to 8.00)</small> |  |"
    assert small == "| small (1) |  |  |  | 0.500 |  |"
    assert study_pages.over("h100, suite, 128, mma_obt, wgmma_obt") == "0.500 to 1.50"
    assert study_pages.time("h100, suite, uneven, 128, wgmma_obts") == "0.500 ms"


# --- tables and figures of the studies --------------------------------------------------------------------------------


def test_every_study_has_its_page_and_its_counterparts():
    assert list(study_pages.counterparts()) == list(PAPERS) == list(study_pages.FOLDERS)
    assert all(page.is_file() for page in PAGES)


@pytest.mark.parametrize(("study", "entry"), ENTRIES)
def test_a_counterpart_exists_or_its_absence_has_a_reason(study, entry, monkeypatch):
    assert entry.keys() <= {"place", "shows", "suites", "profile", "figures", "target", "also", "none"}
    assert ("none" in entry) != bool({"figures", "also", "target"} & entry.keys())
    of_study = {kind.name for kind in figures.kinds() if kind.study == study}
    assert set(entry.get("figures", ())) <= of_study
    for suite in entry.get("suites", ()):
        assert (ROOT / "config/suites" / f"{suite}.yaml").is_file()
    for claim in re.findall(r"claims? `([\w*-]+)`", f"{entry.get('also', '')} {entry.get('none', '')}"):
        assert any(name.startswith(claim.rstrip("*")) for name in CLAIMS), f"no claim is called {claim}"
    monkeypatch.chdir(ROOT)
    if made := study_pages.command(entry):
        check_snakemake(shlex.split(made)[1:])


def test_every_figure_in_the_form_of_a_papers_own_has_its_line():
    listed = {name for entries in study_pages.counterparts().values() for e in entries for name in e.get("figures", ())}
    own = {kind.name for kind in figures.kinds() if kind.section == "study" and kind.paper}
    assert own - listed <= {"wide_tiles"}, f"docs/studies/counterparts.yaml lists none of {sorted(own - listed)}"


def test_every_numbered_figure_and_table_is_accounted_for():
    """As many as each text has."""
    numbers = {
        "sptc": {"figure": ["1.1-1.6", "2.1-2.4", "3.1-3.7"], "table": ["2.1", "3.1-3.2"]},
        "cutespmm": {"figure": ["1-10"], "table": ["1-4"]},
        "attention": {"figure": ["3.1-3.2", "4.1-4.16"], "table": ["5.1-5.5"]},
        "memory_bound": {"figure": ["1-8"], "table": ["1-3"]},
    }
    for study, kinds in numbers.items():
        text = "; ".join(entry["place"] for entry in study_pages.counterparts()[study])
        for kind, ranges in kinds.items():
            expected = {number for span in ranges for number in spread(span)}
            assert mentioned(text, kind) == expected, f"{study}: {sorted(expected ^ mentioned(text, kind))}"


def spread(span):
    """``4.1-4.3`` as 4.1, 4.2 and 4.3."""
    first, _, last = span.partition("-")
    chapter = first.rpartition(".")[0] + "." if "." in first else ""
    ends = [int(end.rpartition(".")[2]) for end in (first, last or first)]
    return [f"{chapter}{number}" for number in range(ends[0], ends[1] + 1)]


def mentioned(text, kind):
    """Numbers that follow ``figure`` or ``figures``: single ones, lists and ``4.3 to 4.6``."""
    found = set()
    for listing in re.findall(rf"{kind}s? ([\d., to]+(?:and [\d.]+(?: to [\d.]+)?)?)", text):
        for first, last in re.findall(r"(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?", listing):
            found.update(spread(f"{first}-{last}" if last else first))
    return found
