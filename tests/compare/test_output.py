"""What a user sees: the text, the page, the table, JSON, and the exit code of the command."""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spmm_roofline import contracts
from spmm_roofline.cli import main
from spmm_roofline.compare import Options, compare
from spmm_roofline.compare.page import drawn, render
from spmm_roofline.compare.text import printed
from spmm_roofline.compare.verdicts import judge
from tests.compare.runs import edit, run

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "resources/recorded/h100"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """An old run, a new one with a slower kernel, and the old one once more."""
    top = tmp_path_factory.mktemp("runs")
    runs = {"old": run(0, 6, noise=0.002), "again": run(2, 6, noise=0.002)}
    runs["new"] = run(1, 6, noise=0.002, edited=(3,), factor=1.03, shift=0.01)
    for name, side in runs.items():
        contracts.write(side.rows, top / name / "s" / "all.csv", "measure")
    return top


def command(capsys, *arguments):
    code = main(["compare", *map(str, arguments)])
    return code, capsys.readouterr()


def test_the_slower_kernel_is_named_and_fails_the_command(folders, capsys):
    code, said = command(capsys, folders / "old", folders / "new")
    lines = said.out.splitlines()
    assert code == 1 and lines[-1] == "1 kernel slower: k3."
    row = next(line for line in lines if line.startswith("k3 "))
    assert re.search(r" 26  1\.03\d  1\.0\d\d – 1\.0\d\d  slower  ", row)
    assert any("common shift of +1.0" in line and "removed" in line for line in lines)
    assert any(line.startswith("5 unchanged kernels: 5 the same") for line in lines)


def test_the_wrong_way_round_it_is_faster(folders, capsys):
    code, said = command(capsys, folders / "new", folders / "old")
    assert code == 0 and said.out.endswith("1 kernel faster: k3.\n")


def test_two_runs_of_one_code_pass(folders, capsys):
    code, said = command(capsys, folders / "old", folders / "again")
    assert code == 0 and said.out.endswith("no kernel changed, and none is faster or slower.\n")
    assert all(f"k{number} " in said.out for number in range(6))


def test_a_folder_with_itself_tells_nothing(folders, capsys):
    code, said = command(capsys, folders / "old", folders / "old")
    assert code == 0 and said.out.endswith("A and B are the same measurements.\n")
    assert command(capsys, folders / "old", folders / "old", "--strict")[0] == 3


def test_a_run_in_which_everything_failed_is_not_the_same():
    b = run(1, 2)
    said = printed(judge(run(0, 2), edit(b, b.rows.index >= 0, status="wrong"), Options()))
    assert said.endswith("\n104 cases of A without a time in B.".replace("104", str(len(b.rows))))
    assert "the same measurements" not in said and "insufficient" not in said


def test_what_becomes_of_the_shift_of_a_single_unchanged_kernel_is_said():
    a, b = run(0, 2, noise=0.001), run(1, 2, noise=0.001, shift=0.02, edited=(1,))
    assert re.search(
        r"common shift of \+[12]\.\d+ % is removed from the changed kernels alone\.", printed(judge(a, b, Options()))
    )
    ratios = {kernel.kernel: kernel.ratio for kernel in judge(a, b, Options()).kernels}
    assert ratios["k0"] == pytest.approx(1.02, abs=0.005) and ratios["k1"] == pytest.approx(1, abs=0.005)
    alone = judge(run(0, 1, noise=0.001), run(1, 1, noise=0.001, shift=0.02), Options())
    assert re.search(r"common shift of \+[12]\.\d+ % is kept\.", printed(alone))
    assert "Only 1 unchanged kernel tells what two runs differ by." in alone.notes


def test_two_kernels_of_one_folder_are_compared(folders, capsys):
    code, said = command(capsys, folders / "old", folders / "old", "--match", "k0=k1", "--json")
    told = json.loads(said.out)
    assert [kernel["kernel"] for kernel in told["kernels"]] == ["k0"] and told["exit_code"] == code
    assert told["spread"]["shift"] == 0 and told["kernels"][0]["changed"]
    assert "\nk1 over k0 " in command(capsys, folders / "old", folders / "old", "--match", "k0=k1")[1].out


def test_the_table_keeps_its_contract(folders, tmp_path, capsys):
    out = tmp_path / "compare.csv"
    command(capsys, folders / "old", folders / "new", "--csv", out)
    table = contracts.read(out, "compare")
    assert len(table) == 6 * 26 and set(table.loc[table["changed"].astype(bool), "kernel"]) == {"k3"}
    assert (table["ratio_low"] < table["ratio"]).all() and (table["ratio"] < table["ratio_high"]).all()
    ratio = table["time_b_ms"] / table["time_a_ms"] / table["ratio"]
    assert ratio.between(1.005, 1.015).all()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["{top}/old", "{top}/none"], "there is no such folder or bundle"),
        (["{top}/old", "{top}"], "repeats the key"),
        (["{top}/old", "{top}/new", "--kernel", "x"], "no kernel matches 'x'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(folders, capsys, arguments, said):
    code, printed = command(capsys, *(argument.format(top=folders) for argument in arguments))
    assert code == 2 and said in printed.err and len(printed.err.splitlines()) == 1 and not printed.out


@pytest.mark.parametrize("arguments", [["--least", "2"], ["--match", "k0"], ["--match", "k0=k1", "--kernel", "k0"]])
def test_bad_usage_is_exit_code_2(folders, capsys, arguments):
    with pytest.raises(SystemExit) as end:
        command(capsys, folders / "old", folders / "new", *arguments)
    assert end.value.code == 2 and len(capsys.readouterr().err.splitlines()) == 1


# --- the page ---------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects what a page would load."""

    VOID = frozenset({"meta", "link", "br", "circle", "rect", "line"})

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.seen = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.loaded += [
            value for name, value in attributes if name in ("src", "href") and not value.startswith("data:")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(folders, tmp_path, capsys):
    out = tmp_path / "compare.html"
    command(capsys, folders / "old", folders / "new", "--html", out)
    page, reader = out.read_text(encoding="utf-8"), Reader()
    reader.feed(page)
    assert not reader.open and not reader.loaded and "prefers-color-scheme: dark" in page
    assert reader.seen.count("details") == 7 and reader.seen.count("circle") == 6
    assert "1 kernel slower: k3." in page and "k3: slower, 26 cases" in page


def test_names_are_escaped_on_the_page():
    a, b = (edit(side, side.rows["kernel"] == "k1", kernel="<b>&") for side in (run(0, 4), run(1, 4)))
    page = render(judge(a, b, Options()))
    assert "<b>&" not in page and page.count("&lt;b&gt;&amp;") >= 3


@pytest.mark.parametrize("factor", [1.0001, 1.3, 40])
def test_the_axis_holds_every_mean(factor):
    comparison = judge(run(0, 4, noise=0.001), run(1, 4, noise=0.001, edited=(1,), factor=factor), Options())
    svg = drawn(comparison.kernels, 0.01)
    width = float(re.search(r'viewBox="0 0 (\d+)', svg)[1])
    centres = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)]
    assert len(centres) == 4 and all(0 < x < width - 20 for x in centres)
    assert 3 <= svg.count('class="axis"') - 1 <= 9


# --- recorded rows ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not RECORDED.is_dir(), reason="this checkout has no recorded rows")
def test_recorded_runs_of_one_code_show_no_difference():
    """Suites that measured the same cases of the same kernels in different processes: no verdict is loud, even if all
    kernels are judged."""
    for a, b in (("flagship", "real-sample"), ("attention", "attention-projections")):
        comparison = compare(RECORDED / a, RECORDED / b, Options(across_suites=True, unchanged=True))
        loud = [kernel.kernel for kernel in comparison.kernels if kernel.verdict in ("slower", "faster")]
        assert len(comparison.kernels) >= 10 and not loud
        assert comparison.exit_code() == 0 and abs(comparison.spread.shift) < 0.01


@pytest.mark.skipif(not RECORDED.is_dir(), reason="this checkout has no recorded rows")
def test_recorded_rows_slowed_on_purpose_are_found(tmp_path):
    for suite in ("flagship", "real-sample"):
        for path in (RECORDED / suite).glob("*.csv"):
            rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
            at = {name: rows[0].index(name) for name in ("time_ms", "kernel_sha256", "kernel")}
            edited = suite == "real-sample" and path.stem.startswith("rows_fma")
            for row in rows[1:]:
                row[at["kernel_sha256"]] = "edited" if edited else "as it was"
                if edited:
                    row[at["time_ms"]] = str(float(row[at["time_ms"]]) * 1.03)
            (tmp_path / suite).mkdir(exist_ok=True)
            with (tmp_path / suite / path.name).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)
    comparison = compare(tmp_path / "flagship", tmp_path / "real-sample", Options(across_suites=True))
    slower = {kernel.kernel for kernel in comparison.kernels if kernel.verdict == "slower"}
    assert slower == {kernel.kernel for kernel in comparison.kernels if kernel.kernel.startswith("rows_fma")} != set()
    assert comparison.exit_code() == 1
