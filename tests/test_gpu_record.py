"""The record of tests that ran on a GPU."""

import datetime
from types import SimpleNamespace

from tests import gpu_record


def report(test, outcome, when="call", marks=("gpu",)):
    return SimpleNamespace(nodeid=test, outcome=outcome, when=when, keywords=dict.fromkeys(marks, 1))


def test_a_test_counts_once_and_fails_in_any_phase():
    reports = [
        *(report("tests/kernels/test_launch.py::one", "passed", when) for when in ("setup", "call", "teardown")),
        report("tests/kernels/test_launch.py::two", "passed"),
        report("tests/kernels/test_launch.py::two", "failed", "teardown"),
        report("tests/kernels/test_launch.py::three", "failed", "setup"),
        report("tests/kernels/test_launch.py::four", "skipped", "setup"),
        report("tests/kernels/test_launch.py::five", "passed", marks=()),
        report("tests/multiply/test_plan.py::six", "skipped", "setup"),
    ]
    assert gpu_record.counted(reports) == {"tests/kernels": {"passed": 1, "failed": 2, "skipped": 1}}


def test_a_run_replaces_what_it_ran(tmp_path):
    path, day = tmp_path / "record.csv", datetime.date(2026, 1, 2)
    gpu_record.add(path, {"tests/a": {"passed": 3, "failed": 1, "skipped": 0}}, "H100", "580", "abc", day)
    gpu_record.add(path, {"tests/b": {"passed": 1, "failed": 0, "skipped": 0}}, "H100", "580", "abc", day)
    later = datetime.date(2026, 1, 3)
    gpu_record.add(path, {"tests/a": {"passed": 4, "failed": 0, "skipped": 2}}, "H100", "580", "def", later)
    gpu_record.add(path, {"tests/a": {"passed": 4, "failed": 0, "skipped": 0}}, "A100", "580", "def", later)
    lines = [tuple(line.values()) for line in gpu_record.read(path)]
    assert lines == [
        ("A100", "580", "tests/a", "2026-01-03", "def", "4", "0", "0"),
        ("H100", "580", "tests/a", "2026-01-03", "def", "4", "0", "2"),
        ("H100", "580", "tests/b", "2026-01-02", "abc", "1", "0", "0"),
    ]
