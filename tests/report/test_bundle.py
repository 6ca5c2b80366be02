"""A bundle is what was packed, or it is refused."""

import gzip
import io
import subprocess
import tarfile

import pytest

from spmm_roofline import contracts
from spmm_roofline.report.bundle import BundleError, bundle, check
from spmm_roofline.report.drawings import sha256
from tests.analysis import synthetic


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A bundle of a few files, in the folder of a project."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"config/config.yaml": "a: 1\n", "results/kernels/sm_80/k.cubin": "code"}.items():
        contracts.write_text(name, text)
    contracts.write(contracts.frame([], "measure"), "results/measure/h200/s/k.csv", "measure")
    bundle(["config", "results/kernels/sm_80/k.cubin", "results/measure/h200/s/k.csv"], {"version": "1"}, "b.tar.gz")
    return tmp_path / "b.tar.gz"


def members(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def write(path, parts):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in parts.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)


def test_a_whole_bundle_is_content_and_the_same_run_gives_the_same_bytes(packed):
    assert check(packed) == {"files": 4, "rows": 0, "recorded": 0}
    before = packed.read_bytes()
    paths = ["results/measure/h200/s/k.csv", "results/kernels/sm_80/k.cubin", "config"]
    bundle(paths, {"version": "1"}, packed)
    assert packed.read_bytes() == before
    assert not list(packed.parent.glob(".b.tar*"))


def test_sha256sum_agrees(packed, tmp_path):
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=tmp_path / "out", check=True)


def link(name):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: {**parts, "config/config.yaml": b"a: 2\n"}, r"config/config\.yaml was changed: its SHA-256 is"),
        (lambda parts: {k: v for k, v in parts.items() if "cubin" not in k}, r"k\.cubin is missing"),
        (lambda parts: {**parts, "config/more.yaml": b""}, r"config/more\.yaml is not in the manifest"),
        (lambda parts: {**parts, "../out": b""}, r"'\.\./out' is no plain file"),
        (lambda parts: {**parts, "/out": b""}, "'/out' is no plain file"),
        (lambda parts: {**parts, "link": link("link")}, "'link' is no plain file"),
        (lambda parts: dict(list(parts.items())[1:]), r"does not begin with MANIFEST\.sha256"),
        (lambda parts: {**parts, "MANIFEST.sha256": b"x"}, r"does not begin with MANIFEST\.sha256"),
        (lambda parts: {}, r"MANIFEST\.sha256 is missing"),
    ],
)
def test_another_bundle_is_refused(packed, change, message):
    write(packed, change(members(packed)))
    with pytest.raises(BundleError, match=message):
        check(packed)


def test_what_is_no_bundle_is_refused(packed):
    whole = packed.read_bytes()
    flipped = whole[:200] + bytes([whole[200] ^ 0xFF]) + whole[201:]
    for content in (b"", b"text", whole[: len(whole) // 2], flipped, gzip.compress(b"text")):
        packed.write_bytes(content)
        with pytest.raises(BundleError, match=r"not a whole bundle|is missing|is no bundle"):
            check(packed)
    with pytest.raises(BundleError, match="not a whole bundle"):
        check(packed.with_name("nowhere.tar.gz"))


def test_a_table_that_breaks_its_contract_is_refused(packed):
    contracts.write_text("results/measure/h200/s/k.csv", "a,b\n1,2\n")
    bundle(["results/measure/h200/s/k.csv"], {}, packed)
    with pytest.raises(BundleError, match="unknown column 'a'"):
        check(packed)


def test_a_file_of_elsewhere_is_no_part(packed, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x"
    elsewhere.touch()
    with pytest.raises(ValueError, match="lies outside of the project"):
        bundle([elsewhere], {}, packed)


def test_a_damaged_figure_is_not_packed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    svg = "<svg><g/></svg>"
    contracts.write_text("results/report/figures/speed-h200.svg", svg)
    contracts.write_text("results/report/figures/not-on-the-page.svg", "")
    page = f'<figure id="figure-speed-h200" data-sha256="{sha256(svg)}">'
    contracts.write_text("results/report/report.html", page)
    paths = ["results/report/report.html", "results/report/figures"]
    bundle(paths, {}, "b.tar.gz")
    contracts.write_text("results/report/figures/speed-h200.svg", svg[:-3])
    with pytest.raises(contracts.ContractError, match=r"speed-h200\.svg: not the figure that results"):
        bundle(paths, {}, "b.tar.gz")


def test_measured_and_recorded_rows_are_counted_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    recorded = synthetic.write_recorded(tmp_path / "resources/recorded/h200", ceilings=synthetic.ceiling_rows())
    tables = sorted(recorded.glob("*/*.csv"))
    count = len(contracts.read_all(tables, "measure"))
    first = contracts.read(tables[0], "measure")
    contracts.write(first, "results/measure/h200/s/k.000.csv", "measure")
    bundle(["resources/recorded/h200", "results/measure/h200/s/k.000.csv"], {"version": "1"}, "b.tar.gz")
    found = check("b.tar.gz")
    assert (found["rows"], found["recorded"]) == (len(first), count) and len(first) and count
    assert f"{len(first):,} measured and {count:,} recorded rows" in capsys.readouterr().out
