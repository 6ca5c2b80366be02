"""Locks that end with their process."""

import os
import subprocess
import sys
from pathlib import Path

from spmm_roofline import contracts

JOIN = "import sys; from spmm_roofline import folder; print(folder.join(sys.argv[1]), flush=True); sys.stdin.read()"


def member(folder):
    environment = {**os.environ, "PYTHONPATH": str(Path(contracts.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", JOIN, folder], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
