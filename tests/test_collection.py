"""A run of the size of the SuiteSparse collection: what planning costs, and how it is cut."""

import os
import re
import subprocess
import sys

import pytest

from tests.project import make_project

MATRICES, KERNELS = 1100, 30


@pytest.fixture
def collection(tmp_path):
    """A project with all kernels and an index of as many matrices as the collection's suite has."""
    project = make_project(tmp_path, kernels=("*/*.cu", "include/*/*.cuh", "external/*.h"))
    index = project.root / "data/suitesparse/ssstats.csv"
    index.parent.mkdir(parents=True)
    rows = (f"Group{i % 40},matrix{i},{10_000 + i},{20_000 + i},99999,1,0,1,1,1,1,graph,99999" for i in range(MATRICES))
    index.write_text("\n".join([str(MATRICES), "31-Oct-2023 18:12:37", *rows]) + "\n")
    return project


def test_the_collection_is_planned_in_little_memory(collection):
    command = [sys.executable, "-m", "snakemake", "-n", "measure", "--config", "suite=collection"]
    with (collection.root / "planned").open("w") as out:
        process = subprocess.Popen(
            command, cwd=collection.root, env=collection.environment, stdout=out, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    planned = (collection.root / "planned").read_text()
    assert os.waitstatus_to_exitcode(status) == 0, planned[-3000:]
    counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE)}
    assert counts["import_matrix"] == MATRICES
    assert counts["measure_kernel"] >= KERNELS * MATRICES / 16
    assert used.ru_maxrss < 1_000_000, f"planning took {used.ru_maxrss / 1e6:.2f} GB"
