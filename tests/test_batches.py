"""Which files are stale, and the jobs that make them again."""

import json
import os

import pytest

from spmm_roofline import batches
from spmm_roofline.batches import Batch, Stale, batches_of


def row(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(columns))
    return str(path)


def test_a_row_that_says_what_it_will_say_is_not_stale(tmp_path):
    path = row(tmp_path / "a.json", made_of="now")
    assert not Stale()(path, "now") and Stale()(path, "other")
    assert Stale(everything=True)(path, "now")


def test_a_missing_file_is_stale_and_so_is_the_row_of_a_missing_cubin(tmp_path):
    path = row(tmp_path / "a.json", made_of="now")
    cubin = tmp_path / "a.cubin"
    assert Stale()(str(tmp_path / "b.json"), "now") and Stale()(path, "now", str(cubin))
    cubin.write_bytes(b"code")
    assert not Stale()(path, "now", str(cubin))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"other": 1}', "\x00"])
def test_a_row_that_does_not_say_is_stale(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    assert Stale()(str(path), "now")


@pytest.mark.parametrize(
    ("journal", "stale"),
    [
        ('{"matrix": "a", "n": 8}\n{"finished": "now"}\n', False),
        ('{"matrix": "a", "n": 8}\n{"finished": "before"}\n', True),
        ('{"matrix": "a", "n": 8}\n{"finished": "no', True),
        ('{"matrix": "a", "n": 8}\n', True),
        ("", True),
        (None, True),
    ],
)
def test_the_journal_says_what_a_measured_table_was_made_of(tmp_path, journal, stale):
    table = tmp_path / "mma_bt.000.csv"
    table.write_text("kernel\n")
    if journal is not None:
        batches.journal(str(table)).write_text(journal)
    assert batches.journal(str(table)).name == ".mma_bt.000.journal"
    assert Stale()(str(table), "now") == stale


def test_a_journal_is_read_from_its_end(tmp_path):
    table = tmp_path / "k.csv"
    table.write_text("kernel\n")
    rows = json.dumps({"matrix": "a", "n": 8, "message": "x" * 1000}) + "\n"
    batches.journal(str(table)).write_text(rows * 50 + '{"finished": "now"}\n')
    assert not Stale()(str(table), "now")


def test_the_jobs_of_a_run_see_what_it_saw_when_it_started(tmp_path):
    path = row(tmp_path / "results/formats/csr/a.json", made_of="before")
    (batch,) = batches_of("pack_formats", [("a", (path,), {path: "now"})], 1)
    batches.write_snapshot([batch], tmp_path / "batches.json")
    row(tmp_path / "results/formats/csr/a.json", made_of="now")  # another job has finished it
    seen = Stale(batches.read_snapshot(tmp_path / "batches.json"))
    assert seen(path, "now") and not seen("another", "now")
    assert batches.read_snapshot(tmp_path / "none.json") == {}


def test_a_job_whose_sources_have_changed_since_the_run_started_has_its_files_made_again(tmp_path):
    files = "results/formats/csr/a.json", "results/formats/csr/b.json"
    batches.write_snapshot(
        batches_of("pack_formats", [(file, (file,), {file: "then"}) for file in files], 2), tmp_path / "s"
    )
    seen = Stale(batches.read_snapshot(tmp_path / "s"))
    now = {files[0]: "then", files[1]: "now"}
    assert seen.agreed(now) == {files[0]: "then", files[1]: ""}
    assert Stale().agreed(now) == now


def test_a_deleted_file_keeps_its_fingerprint_and_an_edited_one_gets_another(tmp_path):
    contents, file = batches.Contents(tmp_path / "contents.json"), tmp_path / "a.mtx"
    assert contents(str(file)) == ""
    file.write_text("one")
    first = contents(str(file))
    file.unlink()
    assert contents(str(file)) == first and len(first) == 64
    file.write_text("other")
    assert contents(str(file)) not in ("", first)


def test_a_file_of_the_same_size_and_time_is_read_again(tmp_path):
    contents, file = batches.Contents(tmp_path / "contents.json"), tmp_path / "a.mtx"
    found = set()
    for text in ("one", "two"):
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        found.add(contents(str(file)))
    assert len(found) == 2


def test_an_unchanged_file_is_read_once(tmp_path, monkeypatch):
    file = tmp_path / "a.mtx"
    file.write_text("one")
    read = []
    of_content = batches.fingerprint.of_content
    monkeypatch.setattr(batches.fingerprint, "of_content", lambda path: read.append(path) or of_content(path))
    assert len({batches.Contents(tmp_path / "contents.json")(str(file)) for _ in range(3)}) == len(read) == 1


def test_batches_hold_each_file_once_and_no_more_than_they_may():
    wanted = [
        (f"k{i}", (f"results/kernels/a/k{i}.cubin", f"results/kernels/a/k{i}.json"), {f"k{i}": "x"}) for i in range(7)
    ]
    made = batches_of("compile_kernels", wanted, 3, lambda items: [f"{item}.cu" for item in items])
    assert [batch.rule for batch in made] == ["compile_kernels_0", "compile_kernels_1", "compile_kernels_2"]
    assert [len(batch.items) for batch in made] == [3, 3, 1]
    files = [file for batch in made for file in batch.files]
    assert len(files) == len(set(files)) == 14 and made[2].inputs == ("k6.cu",)
    assert made[0].log == "results/kernels/log/compile_kernels_0.log"


def test_no_stale_file_is_no_job():
    assert batches_of("compile_kernels", [], 3) == []
    assert Batch("r", (), ("results/formats/csr/a.json",), {}).log == "results/formats/log/r.log"
