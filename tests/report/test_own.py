"""The opening of a page with a matrix of the user."""

import pandas as pd
import pytest
from scipy import sparse

from spmm_roofline import analysis, contracts, report
from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import heads
from spmm_roofline.matrices.features import features
from spmm_roofline.paths import MODEL
from spmm_roofline.report import own
from spmm_roofline.report.tables import made
from spmm_roofline.selector.terms import TERMS
from tests.analysis import synthetic
from tests.report.test_report import CONFIG, PROVENANCE, Outline, whole

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("own")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    row = synthetic.matrix_row("cfd1") | {
        "matrix": "mine",
        "source": "file",
        "origin": "a/mine.mtx",
        "occupancy": "12/01",
    }
    row["matrix_sha256"] = "0" * 64  # nobody has measured it
    path = folder / "mine.json"
    contracts.write_row({name: row.get(name) for name in contracts.table("matrices").names}, path, "matrices")
    recorded = synthetic.write_recorded(folder / "h200")
    asked = {"mine": {"n": [32, 128], "l2": "cold"}}
    synthetic.analyse(folder / "analysis", recorded=[recorded], matrices=[path], own=asked, model=[MODEL])
    html, figures = folder / "report.html", folder / "figures"
    report.build(folder / "analysis", CONFIG, synthetic.HEADS, synthetic.ROOT / "report", html, figures, PROVENANCE)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return whole((folder / "report.html").read_text())


@pytest.fixture(scope="module")
def best(folder):
    """The kernel of the headline: the fastest in FP32 at the largest width on the first device of the page."""
    rows = analysis.read(folder / "analysis")["predicted"]
    own = rows[(rows["device"] == "h200") & (rows["precision"] == "float32") & (rows["n"] == 128) & (rows["rank"] == 1)]
    return own.iloc[0]


def test_the_page_opens_with_the_matrix(page, best):
    outline = Outline(page)
    first = outline.text[outline.text.index("Your matrix") : outline.text.index("Measured")]
    for words in (
        "Your matrix: mine a/mine.mtx",
        f"In FP32 at N = 128, take {best['kernel']}:",
        "predicted (",
        "no GPU has run this matrix",
        f'multiply = spmm_roofline.SpMM(a, "float32", kernel="{best["kernel"]}")',
        'a = scipy.io.mmread("a/mine.mtx")',
        "Structure",
        "non-zeros on average",
        "Where the non-zeros lie.",
        "FP16: every kernel on",
    ):
        assert words in first, f"the opening does not say {words!r}"
    assert own.LACKS not in first, "kernels in FP64 were measured on another device"
    assert outline.unclosed == []
    assert page.index('id="own-1"') < page.index('id="answer"')
    assert 'id="figure-spy-mine"' in page and 'href="#own-1"' in page


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        ("rows_fma", 'multiply = spmm_roofline.SpMM(a, "float32", kernel="rows_fma")'),
        (
            "scale_cc",
            "# scale_cc takes B and C in memory of its own layout; SpMM takes the caller's: it chooses another",
        ),
        ("xw_vectors", "# xw_vectors takes B or C in column-major order"),
    ],
)
def test_the_line_of_python_names_a_kernel_only_if_spmm_takes_it(kernel, line):
    head = heads()[kernel]
    row = pd.Series({"study": head.study, "kernel": kernel, "precision": head.dtype["a"], "n": 32})
    said = own.python(pd.Series({"origin": "a.mtx", "k": 5}), row, {kernel: head.as_dict()})
    assert line in said and ("kernel=" in said) is (kernel == "rows_fma"), said


@pytest.mark.parametrize(
    ("origin", "lines"),
    [
        ("a.mtx.gz", 'import scipy.io, spmm_roofline\n\na = scipy.io.mmread("a.mtx.gz")\n'),
        ("a.npz", 'import scipy.sparse, spmm_roofline\n\na = scipy.sparse.load_npz("a.npz")\n'),
        ("a.mtx.xz", "import spmm_roofline\n\na = …  # your matrix\n"),
    ],
)
def test_the_lines_of_python_read_what_scipy_reads(origin, lines):
    row = pd.Series({"study": "cusparse", "kernel": "cusparse_csr", "precision": "float32", "n": 32})
    assert own.python(pd.Series({"origin": origin, "k": 5}), row, {}).startswith(lines)


def test_every_kernel_has_its_time(folder, page):
    rows = analysis.read(folder / "analysis")["predicted"]
    section = page[page.index("Every kernel</h3>") : page.index('id="answer"')]
    assert all(f"<code>{kernel}</code>" in section for kernel in rows["kernel"].unique())


def test_a_page_without_a_matrix_has_no_such_section():
    names = {"matrices": "matrices", "formats": "formats", "predicted": "analysis_predicted"}
    assert own.own({name: contracts.frame([], contract) for name, contract in names.items()}, [], {}) == []


def case(**changed):
    return {
        "device": "h200", "matrix": "mine", "precision": "float32", "n": 32, "l2": "cold", "kernel": "rows", "rank": 1,
        "study": "scalar", "sums": "float32",
        "predicted_ms": 0.02, "low_ms": 0.018, "high_ms": 0.022, "measured_ms": float("nan"),
        "origin": "", "bound": "memory", "memory_ms": 0.01, "spent_on": TERMS["launch"], "error_fraction": 0.03,
        "regret_fraction": 0.01, "extrapolated_from": "",
    } | changed  # fmt: skip


def table(*cases):
    import pandas as pd

    return pd.DataFrame(cases)


def test_the_advice_says_how_fast_why_and_what_is_next():
    vendor = case(kernel="cusparse_csr", study="cusparse", rank=2, predicted_ms=0.03)
    rows = table(case(), vendor)
    assert own.advice(rows, rows.iloc[0]) == (
        "In FP32 at N = 32, take rows: 20.0 µs predicted (18.0 µs to 22.0 µs), 1.50× as fast as the fastest algorithm "
        "of cuSPARSE. It cannot take less than 10.0 µs, the time of moving what must pass through memory, and reaches "
        "50 % of that limit; by the prediction, the largest part of it goes into the fixed cost of a call. "
        "The next kernel, cusparse_csr, takes 50 % longer."
    )
    measured = table(case(measured_ms=0.04, origin="local"), vendor)
    assert own.advice(measured, measured.iloc[0]).startswith("In FP32 at N = 32, take rows: 40.0 µs measured here.")
    alone = table(case(bound="", spent_on=""))
    assert own.advice(alone, alone.iloc[0]) == "In FP32 at N = 32, take rows: 20.0 µs predicted (18.0 µs to 22.0 µs)."


def test_no_time_reaches_more_than_its_limit():
    rows = table(case(predicted_ms=0.008, bound="launch", launch_ms=0.01))
    said = own.advice(rows, rows.iloc[0])
    assert "10.0 µs, the time of launching a kernel that does nothing, so that the prediction is too short;" in said
    assert own._cell(rows, rows.iloc[0])["share"] == "100 %"
    measured = rows.assign(measured_ms=0.008)
    assert "and reaches 100 % of that limit" in own.advice(measured, measured.iloc[0])
    assert own._cell(rows, table(case(bound="")).iloc[0])["share"] == "", "there is no limit to speak of"


def on_device(*elsewhere, formats=()):
    """What the page says of a device whose only time is in FP32; ``elsewhere``: cases of another device."""
    columns = {"format": "csr", "format_bytes": 900, "preprocess_ms": 1.0, "pays_back_calls": 2.0}
    packed = pd.DataFrame(list(formats), columns=contracts.table("formats").names)
    rows = table(case(**columns), *(case(device="h100", **columns | changed) for changed in elsewhere))
    return own._on_device("h200", "H200", rows, packed)


def test_what_only_another_device_has_a_time_of_is_a_dash():
    assert not on_device()["lacks"]
    said = on_device({"precision": "float64"}, {"n": 128})
    assert said["lacks"] == own.LACKS and said["widths"] == [32, 128]
    single, double = said["lines"]
    assert (single["precision"], double["precision"]) == ("FP32", "FP64")
    assert single["cells"][0]["kernel"] == "rows" and [single["cells"][1], *double["cells"]] == [None] * 3


@pytest.mark.parametrize(
    ("formats", "said", "note"),
    [
        ([{"format": "csr", "dtype": "float32", "status": "ok", "format_bytes": 720, "stored_slots": 50}], "720 B", ""),
        ([{"format": "csr", "dtype": "float16", "status": "ok", "format_bytes": 720, "stored_slots": 50}], "820 B", ""),
        (
            [{"format": "csr", "dtype": "none", "status": "out_of_memory", "message": "too large"}],
            "≈ 900 B",
            "estimated",
        ),
        ([], "≈ 900 B", "estimated"),
    ],
)
def test_bytes_of_a_are_those_of_the_packed_format(formats, said, note):
    found = on_device(formats=formats)["tables"][0]
    cell = found.rows[0][found.columns.index("A in this format")]
    assert (cell.text, cell.note) == (said, note)


def test_a_matrix_without_entries_has_no_fill():
    empty = pd.Series(features(sparse.csr_array((3, 4))), dtype=object)
    assert own.structure(empty) == "A is 3 × 4 and holds no entries: C = A·B is zero, whatever B holds."
    said = dict(own.facts(empty))
    for name in ("Bandwidth", "Fill of 16×16 tiles", "2:4 tiles (16×32)", "Brick density α"):
        assert said[name] == "–"
    entries = pd.Series(features(sparse.csr_array(([1.0], ([0], [1])), shape=(3, 4))), dtype=object)
    assert "–" not in dict(own.facts(entries)).values()


@pytest.mark.parametrize(("name", "bricks"), [("csr", False), ("hrpb", True)])
def test_a_format_that_stores_nothing_has_no_fill(name, bricks):
    for entries, dash in ((0, True), (1, False)):
        a = sparse.csr_array(([1.0] * entries, ([0] * entries, [1] * entries)), shape=(3, 4))
        packed = FORMATS[name].from_csr(a)
        row = {"format": name, "matrix": "mine", "dtype": packed.dtype, "status": "ok", "build_ms": 1.0}
        said = made.formats(pd.DataFrame([row | packed.stats()], columns=contracts.table("formats").names))
        cells = dict(zip(said.columns, (cell.text for cell in said.rows[0]), strict=True))
        assert (cells["per non-zero"] == "–") is (cells["filled slots"] == "–") is dash
        assert (cells["filled slots of bricks"] == "–") is (dash or not bricks)


def test_alpha_names_one_quantity():
    alphas = [column.field for column in (*made.MATRICES, *made.FORMATS) if "α" in column.title]
    assert alphas == ["alpha_fraction"]


def test_sums_in_fp16_are_told():
    rows = table(case(precision="float16", sums="float16"))
    assert "take rows (FP16 sums): 20.0 µs" in own.advice(rows, rows.iloc[0])


def test_trust_says_what_is_known_of_the_error():
    rows = table(case())
    assert own.trust(rows, rows.iloc[0]) == (
        "These times are predictions: no GPU has run this matrix. On matrices that its training did not see, the "
        "selector's predictions in FP32 were off by 3.0 % in the median, and its choices took 1.0 % longer than the "
        "fastest kernel."
    )
    elsewhere = table(case(extrapolated_from="h200", low_ms=float("nan")))
    assert "extrapolated from h200" in own.trust(elsewhere, elsewhere.iloc[0])
    one = table(case(), case(kernel="another", extrapolated_from="h100", low_ms=float("nan")))
    row = one[one["kernel"] == "another"].iloc[0]
    assert own.trust(one, row) == (
        f"No row of this kernel on this device has N near {row['n']}: its time is extrapolated from h100."
    )
    assert own.interval(row) == "extrapolated from h100" and " to " in own.interval(one.iloc[0])
    here = table(case(), case(kernel="another", extrapolated_from="h100", low_ms=float("nan"), measured_ms=0.04))
    assert own.trust(here, here[here["kernel"] == "another"].iloc[0]).startswith("1 of 2 times were measured")
    measured = table(case(measured_ms=0.04))
    assert own.trust(measured, measured.iloc[0]) == "All times were measured."
