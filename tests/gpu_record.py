"""When the tests marked ``gpu`` ran last: ``python -m pytest -m gpu --gpu-record docs/contribute/gpu-tests.csv``.

A line of the file is a folder of tests on a model of GPU; a run replaces the lines of the folders that it ran.
"""

from __future__ import annotations

import csv
import datetime
from collections import Counter
from pathlib import Path

COLUMNS = ("device", "driver", "tests", "date", "commit", "passed", "failed", "skipped")


def counted(reports):
    """Folder → how many of its tests marked ``gpu`` passed, failed and were skipped; a folder of which none ran is out.

    A test that fails while it is set up or torn down has failed.
    """
    outcomes = {}
    for report in reports:
        if "gpu" in report.keywords and (report.when == "call" or report.outcome != "passed"):
            known = outcomes.get(report.nodeid)
            outcomes[report.nodeid] = known if known == "failed" else report.outcome
    folders = {}
    for test, outcome in outcomes.items():
        folders.setdefault(Path(test.split("::")[0]).parent.as_posix(), Counter())[outcome] += 1
    return {folder: found for folder, found in folders.items() if found["passed"] or found["failed"]}


def read(path):
    """Lines of the record, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path, found, device, driver, commit, today=None):
    """Write ``found``, as of :func:`counted`, into the record."""
    today = today or datetime.date.today()
    common = {"device": device, "driver": driver, "date": today.isoformat(), "commit": commit}
    kept = [line for line in read(path) if line["device"] != device or line["tests"] not in found]
    new = [
        common | {"tests": folder} | {outcome: outcomes[outcome] for outcome in COLUMNS[-3:]}
        for folder, outcomes in found.items()
    ]
    lines = sorted([*kept, *new], key=lambda line: (line["device"], line["tests"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
