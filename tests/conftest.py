"""Fixtures for all tests."""

import os
import shutil
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

from tests import gpu_record
from tests.project import PROJECT, Project, make_project

# No deadline: the first example of a test may pay for an import, and the machine may be busy.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# Several processes test at a time, and threads of BLAS in each would wait for each other. NumPy is not loaded yet.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `make test` hands these down to every make that a test runs, with the targets' variables and options.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real matrices with an INDEX.csv, from SPMM_ROOFLINE_DATA or beside the checkout; skips without it."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SPMM_ROOFLINE_DATA", beside))
    if not (folder / "INDEX.csv").is_file():
        pytest.skip(f"there are no real matrices in {folder}; set SPMM_ROOFLINE_DATA to a folder with an INDEX.csv")
    return folder


@pytest.fixture
def cupy():
    """The stand-in for CuPy of the emulated device."""
    from tests import emulation

    with emulation.emulated() as cupy:
        yield cupy


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory):
    """A copy of the project whose suite ``tiny`` has run up to the report; a test that edits it restores it.

    It runs once, whatever the number of processes that test; each of them has a copy of its own.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # the folder of all processes holds one for each
        folder = folder.parent
    with FileLock(folder / "finished.lock"):
        if not (folder / "finished").exists():
            shutil.rmtree(folder / "running", ignore_errors=True)
            make_project(folder / "running").snakemake("report")
            (folder / "running").rename(folder / "finished")
    own = tmp_path_factory.mktemp("project") / "project"
    shutil.copytree(folder / "finished", own)
    return Project(own)


@pytest.fixture
def project_to_break(finished_project, tmp_path):
    """A copy of the finished project for a single test."""
    shutil.copytree(finished_project.root, tmp_path / "project")
    return Project(tmp_path / "project")


def pytest_configure(config):
    """Let the processes that tests start keep bytecode for each other where the environment forbids it beside sources.

    There are hundreds of them, and each would compile Snakemake and pandas for two seconds.
    """
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="bytecode-")
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_sessionstart():
    """Read the head of each kernel of the project once: a hundred tests search its whole folder, for a second each."""
    from spmm_roofline.kernels import registry

    read = registry.read

    @cache
    def remembered(file):
        return read(file)

    def read_once(path):
        file = path.resolve()
        if not file.is_relative_to(PROJECT):  # a test edits it
            return read(path)
        return [replace(head, path=path) for head in remembered(file)]

    registry.read = read_once


def pytest_addoption(parser):
    parser.addoption(
        "--no-pool",
        action="store_true",
        help="give each array of CuPy memory of its own, so that compute-sanitizer sees accesses beside it",
    )
    parser.addoption("--gpu-record", type=Path, metavar="FILE", help=gpu_record.__doc__.splitlines()[0])


def pytest_sessionfinish(session):
    """Record what ran on a GPU, in the process that has the reports of all workers."""
    from spmm_roofline.measure.device import visible
    from spmm_roofline.measure.rows import git_commit

    path = session.config.getoption("--gpu-record")
    if path and not hasattr(session.config, "workerinput") and (gpus := visible()):
        stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
        found = gpu_record.counted(report for kind in stats.values() for report in kind if hasattr(report, "keywords"))
        gpu_record.add(path, found, gpus[0].product, gpus[0].driver, git_commit())


def pytest_collection_modifyitems(items):
    """Skip tests marked ``gpu`` without a GPU and CuPy."""
    from importlib.util import find_spec

    from spmm_roofline.measure.device import visible

    if find_spec("cupy") and visible():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU and the extra cuda12 or cuda13"))
