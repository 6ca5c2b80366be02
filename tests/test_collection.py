"""A run as large as the SuiteSparse collection: the cost of planning, and the shards."""

import re
import subprocess
import sys

import pytest

from tests.project import make_project

MATRICES, KERNELS = 1100, 30


@pytest.fixture
def collection(tmp_path):
    """A project with all kernels and an index with the size of the suite ``collection``."""
    project = make_project(tmp_path, kernels=("*/*.cu", "include/*/*.cuh", "external/*.h"))
    index = project.root / "data/suitesparse/ssstats.csv"
    index.parent.mkdir(parents=True)
    rows = (f"Group{i % 40},matrix{i},{10_000 + i},{20_000 + i},99999,1,0,1,1,1,1,graph,99999" for i in range(MATRICES))
    index.write_text("\n".join([str(MATRICES), "31-Oct-2023 18:12:37", *rows]) + "\n")
    return project


# The peak of a child includes that of the process that forked it, so a small process forks the planning.
PLAN = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-m", "snakemake", "-n", "measure", "--config", "suite=collection"]).returncode
print("peak_kib", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def test_the_collection_is_planned_in_little_memory(collection):
    command = [sys.executable, "-c", PLAN]
    with (collection.root / "planned").open("w") as out:
        done = subprocess.run(
            command, cwd=collection.root, env=collection.environment, stdout=out, stderr=subprocess.STDOUT
        )
    planned = (collection.root / "planned").read_text()
    assert done.returncode == 0, planned[-3000:]
    counts = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE)}
    assert sum(count for rule, count in counts.items() if rule.startswith("import_matri")) == MATRICES
    assert sum(count for rule, count in counts.items() if rule.startswith("measure_collection")) >= MATRICES / 16
    peak = int(re.search(r"peak_kib (\d+)", planned).group(1))
    assert peak < 1_000_000, f"planning took {peak / 1e6:.2f} GB"
