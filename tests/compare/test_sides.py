"""Where the rows of a side are found, and what is said of a folder or a bundle that is none."""

import re
import shutil

import pytest

from spmm_roofline import contracts
from spmm_roofline.compare import CompareError
from spmm_roofline.compare.sides import side
from spmm_roofline.report.bundle import MANIFEST, bundle
from tests.compare.runs import run


def write(folder, seed=0, **kinds):
    """The rows of a run, one file a kernel, in ``folder``/s."""
    for kernel, rows in run(seed, 3, 2, **kinds).rows.groupby("kernel"):
        contracts.write(rows, folder / "s" / f"{kernel}.csv", "measure")
    return folder


def compiled(kernel, sha):
    row = {name: 0 for name in contracts.table("kernels").names}
    row |= {"kernel": kernel, "arch": "sm_90a", "status": "ok", "message": "", "kernel_sha256": sha}
    return row | {"launch_sha256": "l", "cubin_sha256": f"cubin of {kernel}", "compiler": "NVRTC", "made_of": ""}


@pytest.mark.parametrize(
    "below, named", [("results/measure/h200", "."), ("results/measure/h200", "results"), ("h200", "h200"), ("x", "x/s")]
)
def test_rows_are_found_below_what_a_user_would_name(tmp_path, below, named):
    write(tmp_path / below)
    assert len(side(tmp_path / named).rows) == 12


def test_compilations_lie_beside_recorded_and_measured_rows(tmp_path):
    write(tmp_path / "recorded/h200")
    contracts.write(
        contracts.frame([compiled("k0", "a")], "kernels"), tmp_path / "recorded/h200/kernels.csv", "kernels"
    )
    for named in ("recorded", "recorded/h200", "recorded/h200/s"):
        assert side(tmp_path / named).code == {("sm_90a", "a"): ("l", "cubin of k0")}
    write(tmp_path / "results/measure/h200")
    contracts.write_row(compiled("k1", "b"), tmp_path / "results/kernels/sm_90a/k1.json", "kernels")
    for named in ("results", "results/measure/h200"):
        assert side(tmp_path / named).code == {("sm_90a", "b"): ("l", "cubin of k1")}


def test_tables_of_the_analysis_are_not_measured_rows(tmp_path):
    write(tmp_path / "results/analysis")
    with pytest.raises(CompareError, match="no table of measured rows is below it; name"):
        side(tmp_path / "results")


@pytest.fixture
def packed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results/measure/h200")
    bundle(["results"], {}, "out/bundle.tar.gz")
    return tmp_path / "out/bundle.tar.gz"


def test_a_bundle_is_a_side_packed_and_unpacked(packed, tmp_path):
    assert len(side(packed).rows) == 12
    shutil.unpack_archive(packed, tmp_path / "unpacked", filter="data")
    assert (tmp_path / "unpacked" / MANIFEST).is_file() and len(side(tmp_path / "unpacked").rows) == 12
    table = tmp_path / "unpacked/results/measure/h200/s/k0.csv"
    table.write_text(table.read_text().replace("ok", "ok", 1).replace("580", "581", 1))
    with pytest.raises(CompareError, match=rf"k0.csv: differs from {MANIFEST}; unpack the bundle again"):
        side(tmp_path / "unpacked")


def test_a_damaged_bundle_is_refused(packed):
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(CompareError, match=r"not a whole bundle.*make the bundle again"):
        side(packed)


def break_table(folder, old, new):
    path = folder / "s/k1.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("time_ms", "time_us", "no table of measured rows is below it"),
        ("useful_gflops", "gflops", "unknown column 'gflops'.*another version"),
        (",warm,", ",tepid,", "is not one of cold, warm"),
    ],
)
def test_a_table_that_breaks_its_contract_is_refused_in_a_sentence(tmp_path, old, new, said):
    write(tmp_path)
    break_table(tmp_path, old, new)
    if old == "time_ms":
        for other in ("k0", "k2"):
            (tmp_path / f"s/{other}.csv").unlink()
    with pytest.raises(CompareError, match=said) as caught:
        side(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_table_that_was_cut_into_shards_is_named(tmp_path):
    write(tmp_path)
    shutil.copy(tmp_path / "s/k1.csv", tmp_path / "s/k1.000.csv")
    with pytest.raises(CompareError, match=r"s/k1.csv: the suite was cut into shards since, and k1.000.csv beside it"):
        side(tmp_path)


def test_an_empty_table_is_damaged(tmp_path):
    write(tmp_path)
    (tmp_path / "s/k1.csv").write_text("")
    with pytest.raises(CompareError, match=re.escape("k1.csv: the file is empty") + ".*measure these rows again"):
        side(tmp_path)


def test_a_path_that_is_not_there_is_said(tmp_path):
    with pytest.raises(CompareError, match="there is no such folder or bundle; name"):
        side(tmp_path / "nothing")
