"""Locks that end with their process, and damaged files that are moved aside."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spmm_roofline import contracts, folder

ENTER = """
import sys
from spmm_roofline import folder
alone = folder.enter(sys.argv[1])
if alone:
    folder.drop_locks(sys.argv[1])
print(alone, flush=True)
sys.stdin.read()
"""


def member(path, script=ENTER):
    """A process that works in a folder, and whether it was alone, or what another script says."""
    environment = {**os.environ, "PYTHONPATH": str(Path(contracts.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", script, path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip() == "True"


def test_locks_of_the_dead_are_dropped_and_those_of_the_living_stay(tmp_path):
    lock = tmp_path / "locks" / "0.output.lock"
    first, alone = member(tmp_path)
    assert alone
    lock.parent.mkdir()
    lock.touch()
    second, alone = member(tmp_path)
    first.kill()
    first.wait()
    third, also_alone = member(tmp_path)
    assert not alone and not also_alone and lock.exists()
    for process in (second, third):
        process.kill()
        process.wait()
    last, alone = member(tmp_path)
    last.kill()
    last.wait()
    assert alone and not lock.exists()


CLAIM = """
import sys
from spmm_roofline import folder
try:
    for _ in range(2):  # one process may start several runs in turn
        folder.claim(sys.argv[1])
    print(True, flush=True)
except folder.Occupied:
    print(False, flush=True)
sys.stdin.read()
"""


def test_one_run_at_a_time_has_the_folder(tmp_path):
    first, has_it = member(tmp_path, CLAIM)
    second, also_has_it = member(tmp_path, CLAIM)
    assert has_it and not also_has_it
    for process in (first, second):
        process.kill()
        process.wait()
    last, has_it = member(tmp_path, CLAIM)
    last.kill()
    last.wait()
    assert has_it


def test_no_run_is_refused_where_nothing_can_be_locked(tmp_path, monkeypatch):
    def without_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder.fcntl, "lockf", without_locks)
    folder.claim(tmp_path)


def test_entering_a_folder_changes_nothing_in_it(tmp_path):
    lock = tmp_path / "locks" / "0.output.lock"
    lock.parent.mkdir()
    lock.touch()
    assert folder.enter(tmp_path) and lock.exists()


def test_results_are_moved_and_other_files_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("results/a.json", "results/a.json.damaged", "results/figures/x.svg", "config/a.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    assert folder.set_aside(["results/a.json"]) == ("it was moved to results/a.json.damaged: rerun to make it again")
    assert not Path("results/a.json").exists() and Path("results/a.json.damaged").read_text() == "results/a.json"
    # A folder, twice; and a file that another job has already moved.
    for _ in range(2):
        Path("results/figures").mkdir(exist_ok=True)
        said = folder.set_aside(["results/figures", "results/gone.csv", "config/a.yaml"])
    assert said == (
        "they were moved to results/figures.damaged, results/gone.csv.damaged: rerun to make them again; "
        "repair or delete config/a.yaml"
    )
    assert not Path("results/figures").exists() and Path("config/a.yaml").exists()


def test_what_was_set_aside_goes_once_its_file_has_been_made_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.json.damaged", "b.json.damaged", "c.json.damaged", "figures.damaged/x.svg"):
        Path("results", name).parent.mkdir(parents=True, exist_ok=True)
        Path("results", name).touch()
    for name in ("a.json", "b.json"):
        Path("results", name).touch()
    Path("results/figures").mkdir()
    # b is damaged again, and c has not been made.
    dropped = ["results/a.json.damaged", "results/figures.damaged"]
    assert folder.drop_set_aside({"results/b.json": "empty"}) == dropped
    assert sorted(path.name for path in Path("results").glob("*.damaged")) == ["b.json.damaged", "c.json.damaged"]
    assert folder.drop_set_aside({"results/b.json": "empty"}) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(folder.Unwritable, match="cannot be written: run in a folder of your own"):
        folder.enter(tmp_path / ".snakemake")


def test_a_read_only_file_system_is_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(folder.os, "open", refuse)
    with pytest.raises(folder.Unwritable, match="cannot be written: run in a folder of your own"):
        folder.enter(tmp_path)
