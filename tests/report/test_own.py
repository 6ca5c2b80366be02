"""The opening of a page with a matrix of the user."""

import pandas as pd
import pytest

from spmm_roofline import analysis, contracts, report
from spmm_roofline.kernels import heads
from spmm_roofline.paths import MODEL
from spmm_roofline.report import own
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
        "origin": "", "bound": "memory", "memory_ms": 0.01, "spent_on": "launching", "error_fraction": 0.03,
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
        "of cuSPARSE. It cannot take less than 10.0 µs, the time of moving A, B and C through memory, and reaches 50 % "
        "of that limit; by the prediction, most of its time goes into launching. The next kernel, cusparse_csr, takes "
        "50 % longer."
    )
    measured = table(case(measured_ms=0.04, origin="local"), vendor)
    assert own.advice(measured, measured.iloc[0]).startswith("In FP32 at N = 32, take rows: 40.0 µs measured here.")
    alone = table(case(bound="", spent_on=""))
    assert own.advice(alone, alone.iloc[0]) == "In FP32 at N = 32, take rows: 20.0 µs predicted (18.0 µs to 22.0 µs)."


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
    measured = table(case(measured_ms=0.04))
    assert own.trust(measured, measured.iloc[0]) == "All times were measured."
