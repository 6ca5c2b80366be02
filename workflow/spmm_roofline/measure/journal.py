"""The journal of a job: its finished rows, line by line, so that a job that starts again goes on from there.

The journal of a finished job stays: if a matrix joins the suite, only that matrix is measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import contracts

#: (matrix, n)
Case = tuple[str, int]
Row = dict[str, Any]

#: Key of the last line of the journal of a job that wrote its table: the fingerprint of what the plan made it of.
FINISHED = "finished"
#: Columns in which a row must agree with the job that goes on from it.
SAME = ("device", "driver", "kernel_sha256", "l2", "protocol")
#: Statuses that would come out again; whatever else happened is tried again.
FINAL = ("ok", "unsupported", "out_of_memory")
#: What stands for the status of a row that was dropped.
DROPPED = "dropped"


class Journal:
    """Rows of a job by case, in the order in which they were finished, on disk and in :attr:`rows`."""

    def __init__(
        self, path: Path, made_of: Mapping[str, str], common: Mapping[str, Any], widths: Iterable[int]
    ) -> None:
        """Open the journal and take over what still holds.

        ``made_of``: matrix → fingerprint of the inputs of its rows; ``common``: columns that all rows of the job have;
        ``widths``: values of n. The last row of a case holds if it is of the same inputs, kernel, device and protocol.
        A job with the very cases of one that ended is asked to measure again, so that it takes over nothing.
        """
        self._path = path
        self._made_of = made_of
        self.rows: dict[Case, Row] = {}
        wanted = {(name, n) for name in made_of for n in widths}
        cases: set[Case] = set()
        text = path.read_text(errors="replace")
        if text and not text.endswith("\n"):
            with path.open("a") as file:
                file.write("\n")  # so that the next row does not join what a killed job left unfinished
        for row in map(_row, text.splitlines()):
            if row is None:
                continue
            case = row["matrix"], row["n"]
            cases.add(case)
            inputs = row.pop("inputs", None)
            self.rows.pop(case, None)
            if (
                case in wanted
                and inputs == made_of[row["matrix"]]
                and all(row.get(key) == common[key] for key in SAME)
                and row.get("status") in FINAL
            ):
                self.rows[case] = row
        if finished(text) is not None and cases == wanted:
            path.write_text("")
            self.rows = {}

    def keep(self, row: Row) -> None:
        """Add a row, or replace that of its case."""
        self.rows[row["matrix"], row["n"]] = row
        with self._path.open("a") as file:
            file.write(self._line(row))

    def drop(self, cases: Iterable[Case]) -> None:
        """Forget rows for good, so that no later job takes them over.

        The file stays the same one, because its lock is the job's turn.
        """
        with self._path.open("a") as file:
            for matrix, n in cases:
                del self.rows[matrix, n]
                file.write(self._line({"matrix": matrix, "n": n, "status": DROPPED}))

    def finish(self, made_of: str = "") -> None:
        """Write each row once, and that the table is written, ``made_of`` what the plan says."""
        end = json.dumps({FINISHED: made_of}) + "\n"
        contracts.write_text(self._path, "".join(map(self._line, self.rows.values())) + end)

    def _line(self, row: Row) -> str:
        return json.dumps({"inputs": self._made_of[row["matrix"]], **row}) + "\n"


def after_timeout(made_of: str, limit_s: float) -> str:
    """``made_of`` of a table with rows ``timeout``, which another limit would give another chance."""
    return f"{made_of} timeout {limit_s:g}"


def finished(text: str) -> str | None:
    """What the plan made the table of, from the text of its journal or the end of it; None while it is under way."""
    last = text.rstrip("\n").rpartition("\n")[2] if text.endswith("\n") else ""
    try:
        found = json.loads(last)
    except json.JSONDecodeError:
        return None
    return found.get(FINISHED) if isinstance(found, dict) else None


def _row(line: str) -> Row | None:
    """The row of a line, or None for :data:`FINISHED`, the line that a killed job was writing, and anything else."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and {"matrix", "n"} <= row.keys() else None
