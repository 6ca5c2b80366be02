"""Which files a run finds damaged when it starts, and which it leaves alone."""

import gzip
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from spmm_roofline import batches, contracts, damage, matrices

CODE = b"\x7fELF machine code"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder ``results`` with an intact file of every kind."""
    monkeypatch.chdir(tmp_path)
    root = Path("results")
    suite = {"name": "s", "matrices": {"generated": [{"generator": "mesh2d", "name": "mesh", "nodes": 4}]}}
    (spec,) = matrices.expand(suite, {})
    matrices.build(spec, {}, root / "matrices/mesh.npz", root / "matrices/mesh.json")
    unsupported = {"format": "csr", "matrix": "mesh", "matrix_sha256": "0", "dtype": "none", "message": "too wide"}
    contracts.write_row({**unsupported, "status": "unsupported"}, root / "formats/csr/mesh.json", "formats")
    kernel = {
        "kernel": "k", "arch": "sm_90a", "status": "ok", "kernel_sha256": "0", "launch_sha256": "0",
        "cubin_sha256": hashlib.sha256(CODE).hexdigest(), "cubin_bytes": len(CODE), "registers": 40, "stack_bytes": 0,
        "spill_store_bytes": 0, "spill_load_bytes": 0, "static_shared_bytes": 0, "compiler": "none",
    }  # fmt: skip
    contracts.write_row(kernel, root / "kernels/sm_90a/k.json", "kernels")
    (root / "kernels/sm_90a/k.cubin").write_bytes(CODE)
    failed = {key: kernel[key] for key in ("arch", "kernel_sha256", "launch_sha256", "compiler")}
    failed |= {"kernel": "bad", "status": "compile_failed", "message": "no"}
    contracts.write_row(failed, root / "kernels/sm_90a/bad.json", "kernels")
    (root / "kernels/sm_90a/bad.cubin").write_bytes(b"")
    for path, name in {
        "measure/h200/ceilings.csv": "measure_ceilings",
        "measure/h200/blocks.csv": "measure_blocks",
        "measure/h200/s/k.csv": "measure",
        "profile/h200/s/k.csv": "profile",
        "analysis/speedup.csv": "analysis_speedup",
        "analysis/matrices.csv": "matrices",
    }.items():
        contracts.write(contracts.frame([], name), root / path, name)
    skipped = {"format": "csr", "matrix": "a", "arch": "sm_90a", "device": "h200", "driver": "1", "cuda": "13"}
    row = skipped | {
        "suite": "s", "study": "smat", "kernel": "k", "kernel_sha256": "0", "matrix_sha256": "0", "m": 1, "k": 1,
        "n": 8, "nnz": 1, "dtype_a": "float16", "dtype_b": "float16", "dtype_accumulator": "float32",
        "dtype_c": "float16",
        "l2": "cold", "protocol": 1, "git_commit": "0", "status": "timeout", "message": "no answer",
        "measured_at": "2026-01-01T00:00:00Z", "compulsory_bytes": 1,
    }  # fmt: skip
    contracts.write(contracts.frame([row], "measure"), root / "measure/h200/s/k.csv", "measure")
    (root / "measure/h200/device.json").write_text('{"device": "h200"}')
    (root / "analysis/selector.json").write_text('{"h200": 1}')
    figures = root / "report/figures"
    figures.mkdir(parents=True)
    (figures / "speedup.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>\n')
    (root / "report/report.html").write_text("<html></html>\n")
    (root / "report/bundle.tar.gz").write_bytes(gzip.compress(os.urandom(10_000)))
    return root


def files(root):
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_what_is_whole_is_found_whole(results):
    assert damage.find() == {}


def test_every_file_is_looked_at(results):
    """Truncated, emptied or overwritten: all files at once, each one named."""
    paths = [path for path in files(results) if path.name != "bad.cubin"]
    for change in (lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"\0" * 500):
        before = {path: path.read_bytes() for path in paths}
        for path in paths:
            path.write_bytes(change(before[path]))
        found = damage.find()
        # A cubin is checked against its row, so both are made again.
        wanted = [path for path in paths if path.suffix != ".cubin"]
        assert sorted(found) == [str(path) for path in wanted] and all(found.values())
        for path in paths:
            path.write_bytes(before[path])
        assert damage.find() == {}


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("kernels/sm_90a/k.cubin", b"machine", b"maschin", "not the machine code that was compiled"),
        ("kernels/sm_90a/bad.cubin", b"", b"more", "not the machine code that was compiled"),
        ("kernels/sm_90a/k.json", b'"registers": 40', b'"registers": "?"', "'registers': '?' is not of type integer"),
        ("formats/csr/mesh.json", b'"unsupported"', b'"unsuported"', "'status' is not one of"),
        ("measure/h200/s/k.csv", b"timeout", b"tim", "column 'status' is not one of"),
        ("measure/h200/s/k.csv", b"no answer\n", b"no answer", "its last line is cut off"),
        ("analysis/speedup.csv", b",", b",?", "unknown column"),
        ("analysis/matrices.csv", b",", b",?", "unknown column"),
        ("report/figures/speedup.svg", b"<g/>", b"<g>", "mismatched tag"),
        ("analysis/selector.json", b'{"h200": 1}', b"{}", "it is not a mapping with entries"),
        ("analysis/selector.json", b'{"h200": 1}', b"[1]", "it is not a mapping with entries"),
    ],
)
def test_what_is_wrong_is_said(results, name, old, new, what):
    path = results / name
    content = path.read_bytes()
    if name.endswith("k.csv") and old.endswith(b"\n"):
        content, old, new = content, content[-5:], content[-5:-1]
    assert old in content
    path.write_bytes(content.replace(old, new, 1) if old else new)
    found = damage.find()
    assert list(found) == [str(path)] and what in found[str(path)]
    assert "results" not in found[str(path)]


def test_a_bit_of_an_archive_is_found(results):
    for name, at in (("matrices/mesh.npz", 300), ("report/bundle.tar.gz", 5000)):
        path = results / name
        content = bytearray(path.read_bytes())
        start = max(content.find(b"NUMPY"), 0)
        content[start + at] ^= 1
        path.write_bytes(content)
    assert sorted(damage.find()) == ["results/matrices/mesh.npz", "results/report/bundle.tar.gz"]


def test_an_archive_that_python_does_not_unpack_and_endless_json_are_damaged(results):
    path = results / "matrices/mesh.npz"
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.find(signature) + offset] = 99  # a method of compression that there is not
    path.write_bytes(content)
    row = results / "formats/csr/mesh.json"
    row.write_text("[" * 100_000)
    found = damage.find()
    assert {*found} == {str(path), str(row)} and "compression" in found[str(path)]
    assert batches.said(str(row)) is None


def test_files_of_another_version_and_of_nobody_are_left_alone(results):
    header, *lines = (results / "measure/h200/s/k.csv").read_text().splitlines()
    (results / "measure/h200/s/k.csv").write_text("\n".join([f"{header},new_column", *(f"{x},1" for x in lines), ""]))
    row = json.loads((results / "kernels/sm_90a/k.json").read_text())
    (results / "kernels/sm_90a/k.json").write_text(json.dumps({**row, "new_column": 1}))
    (results / "analysis/somebodys.csv").write_text("a,b\n1,2\n")
    (results / "matrices/mesh.json.damaged").write_text("")
    assert damage.find() == {}


def test_files_that_did_not_change_are_not_read_again(results, monkeypatch):
    damage.find()
    for pattern in damage.CHECKS:
        monkeypatch.setitem(damage.CHECKS, pattern, lambda paths: pytest.fail(f"{paths} are read again"))
    assert damage.find() == {}


def test_what_a_run_has_just_written_is_read_only_if_it_changes(results, monkeypatch):
    table = Path("results/analysis/speedup.csv")
    damage.trust([table, table.parent, "results/none.csv"])
    asked = []
    monkeypatch.setitem(damage.CHECKS, "analysis/*.csv", lambda paths: asked.extend(paths) or {})
    damage.find()
    assert asked and table not in asked
    table.write_text("")
    damage.find()
    assert asked[-1] == table


def test_an_old_date_hides_nothing(results):
    damage.find()
    path = results / "report/figures/speedup.svg"
    before = path.stat()
    time.sleep(0.02)
    path.write_bytes(path.read_bytes().replace(b"<g/>", b"<g/<"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(damage.find()) == [str(path)]
    assert list(damage.find()) == [str(path)], "what is damaged is not remembered as whole"


@pytest.mark.parametrize("content", ["", "[]", '{"a'])
def test_a_damaged_memory_costs_a_look(results, content):
    damage.find()
    damage.KNOWN.write_text(content)
    (results / "report/report.html").write_text("<html>")
    assert list(damage.find()) == ["results/report/report.html"]


def test_what_goes_with_a_damaged_file_so_that_it_is_made_again(results):
    (results / "analysis/claims.csv").write_text("")
    ends = ["results/analysis/claims.csv", "results/report/report.html"]
    assert damage.to_move([]) == []
    assert damage.to_move(["results/measure/h200/s/k.csv"]) == ["results/measure/h200/s/k.csv", *ends]
    assert damage.to_move(["results/analysis/speedup.csv"]) == ["results/analysis/speedup.csv", ends[1]]
    for name, row in (("kernels/sm_90a/k.cubin", "kernels/sm_90a/k.json"), ("matrices/mesh.npz", "matrices/mesh.json")):
        assert damage.to_move([f"results/{name}"]) == [f"results/{name}", f"results/{row}", *ends]


@pytest.mark.parametrize("name", ["analysis/selector.json", "report/report.html", "report/bundle.tar.gz"])
def test_what_is_not_made_from_a_damaged_file_stays(results, name):
    (results / "analysis/claims.csv").write_text("")
    assert damage.to_move([f"results/{name}"]) == [f"results/{name}"]
    assert damage.to_move(["results/report/figures/speedup.svg"]) == ["results/report/figures"]
