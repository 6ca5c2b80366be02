"""A measure job: plan the cases of some tables, let a worker measure them, keep their rows, write the tables.

Whatever happens to a worker (a broken context, a hang) costs the case under way and nothing else, and a cancelled job
costs the rows since the last canary: :mod:`.journal` has all earlier ones. One worker measures all tables of a job,
matrix by matrix, so that its start, the packed formats and the float64 products are paid once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, folder
from ..kernels import registry
from . import device as gpu_device
from .job import Job, Reader, check_source, inputs, job_of, matrices_of, reasons_to_skip, request, rows_once
from .journal import Journal, after_timeout
from .process import NoWorker, WorkerProcess
from .progress import Progress
from .rows import identity, sizes

__all__ = ["Task", "WrongResult", "job_of", "run"]

WORKER_COMMAND = [sys.executable, "-m", "spmm_roofline.measure.worker"]
#: Workers in a row that end before their first case until the job gives up.
BARREN_WORKERS = 2

#: (number of a task, matrix, n)
Case = tuple[int, str, int]


class WrongResult(RuntimeError):
    """A kernel of the project gave a wrong result: the job fails, its finished rows are kept."""


@dataclass(frozen=True)
class Task:
    """One table to measure: its job, the table's path, the path of its journal, and the fingerprint of the plan."""

    job: Job
    csv: Path
    journal: Path
    made_of: str = ""
    left_over: tuple[Path, ...] = ()
    """Tables that this one and those beside it replace, because the suite was cut into other shards."""


def run(tasks: Iterable[Task], log: str | Path | None = None) -> None:
    """Measure kernels on one leased GPU and write a table ``measure`` for each task.

    Raises :class:`WrongResult` if an output of a kernel of the project was wrong; the journals keep the finished rows,
    and only the wrong ones are measured again by the next run. What an external library does wrong is a row of its
    table, with the status ``wrong``. Raises :class:`~spmm_roofline.contracts.Damaged` for files that cannot be read,
    :class:`.process.NoWorker` if no worker starts or the job is cancelled, and :class:`.device.NoDevice` without a GPU.
    ``log`` is a file that gets the progress, beside standard error.
    """
    tasks = list(tasks)
    with ExitStack() as stack:
        # A job that outlived its Snakemake may still be at work on these tables; the two take turns.
        for task in tasks:
            stack.enter_context(folder.turn(task.journal))
        _run(tasks, Progress(log))


class _Table:
    """One table under way: its journal, and what all its rows have in common."""

    def __init__(self, task: Task, record: dict[str, Any], read: Reader) -> None:
        job = self.job = task.job
        self.task = task
        self.head = registry.head(job.kernel, job.kernels, job.external)
        self.features = matrices_of(job, read)
        self.common = identity(job, self.head, record)
        if job.kernel_row:
            check_source(job.kernel_row, self.common["kernel_sha256"])
        self.journal = Journal(task.journal, inputs(job, self.features, read), self.common, job.n)
        #: Rows of a library may be of another version than today's, which only the worker that loads it can tell.
        self.taken_over = dict(self.journal.rows)
        skip = reasons_to_skip(job, self.head, read)
        self.waiting: dict[tuple[str, int], None] = {}
        for name in self.features:
            for n in job.n:
                status, message = skip.get(name, skip.get("", ("", "")))
                if (name, n) in self.journal.rows:
                    continue
                if status:
                    self.keep({"matrix": name, "n": n, "status": status, "message": message})
                else:
                    self.waiting[name, n] = None

    def keep(self, row: dict[str, Any]) -> None:
        """Add a row to the journal, with the columns that the worker does not know."""
        _, known = self.features[row["matrix"]]
        self.journal.keep(
            {**self.common, **sizes(self.head, known, row["n"]), **row, "measured_at": gpu_device.timestamp()}
        )
        self.waiting.pop((row["matrix"], row["n"]), None)

    def compare_library(self, vendor: str | None, version: str) -> int:
        """Have rows that were taken over measured again if the library was another version; returns how many."""
        if self.head.vendor != vendor:
            return 0
        again = [case for case, row in self.taken_over.items() if row["status"] == "ok" and row["cuda"] != version]
        self.taken_over = {}
        if again:
            self.journal.drop(again)
            self.waiting |= dict.fromkeys(again)
        return len(again)

    def wrong(self) -> list[dict[str, Any]]:
        return [row for row in self.journal.rows.values() if row["status"] == "wrong"]

    def finish(self) -> None:
        """Say in the journal that the table is written, and delete what it replaces."""
        made_of = self.task.made_of
        if any(row["status"] == "timeout" for row in self.journal.rows.values()):
            made_of = after_timeout(made_of, self.job.options["case_timeout_s"])
        self.journal.finish(made_of)
        for path in self.task.left_over:
            path.unlink(missing_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the suite."""
        order = {name: i for i, name in enumerate(self.features)}
        return sorted(self.journal.rows.values(), key=lambda row: (order[row["matrix"]], row["n"]))


def _run(tasks: Sequence[Task], say: Progress) -> None:
    worker = WorkerProcess(WORKER_COMMAND)  # loads CuPy while the cases are planned here
    record = contracts.document(tasks[0].job.device_record, "measured_device")
    read = rows_once()
    tables = [_Table(task, record, read) for task in tasks]
    finished = sum(len(table.journal.rows) for table in tables)
    if finished:
        say(f"{finished} rows are finished already")
    if any(table.waiting for table in tables):
        with (
            gpu_device.lease(log=say) as gpu,
            gpu_device.locked_clocks(gpu.uuid, int(tasks[0].job.options.get("lock_clocks_mhz", 0)) or None),
        ):
            _measure(tables, gpu, record, worker, say)
    else:
        worker.ask(None)

    wrong = [row for table in tables if not table.head.external for row in table.wrong()]
    for table in tables:
        if table.head.external and (rows := table.wrong()):
            say(f"{table.job.kernel}: {len(rows)} of {len(table.journal.rows)} cases are wrong; its other rows count")
    if wrong:
        first = wrong[0]
        cases = sum(len(table.journal.rows) for table in tables)
        names = ", ".join(dict.fromkeys(row["kernel"] for row in wrong))
        raise WrongResult(
            f"{names} on {first['suite']}: {len(wrong)} of {cases} cases are wrong, first {first['matrix']} with "
            f"n = {first['n']}: {first['message']}. All other rows are kept: mend the kernel and run again"
        )
    contracts.write_each({table.task.csv: table.rows() for table in tables}, "measure")
    for table in tables:
        table.finish()


def _measure(
    tables: Sequence[_Table], gpu: gpu_device.Gpu, record: dict[str, Any], worker: WorkerProcess, say: Progress
) -> None:
    """Have workers measure all cases that wait."""
    say.begin(sum(len(table.waiting) for table in tables), gpu_device.Monitor(gpu.uuid).busy_fraction)
    barren = 0
    jobs = [table.job for table in tables]
    timeout_s = max(job.options["case_timeout_s"] for job in jobs)
    while any(table.waiting for table in tables):
        under_way: Case | None = None
        unsure: list[tuple[_Table, dict[str, Any]]] = []
        before = say.done
        worker.ask(request(jobs, gpu, record, _by_matrix(tables)))
        # Writing the tables needs pandas, which takes its time to load: now, while the worker starts.
        importlib.import_module("pandas")
        for event in worker.events(timeout_s):
            if "begin" in event:
                under_way = event["begin"]["kernel"], event["begin"]["matrix"], event["begin"]["n"]
            elif "row" in event:
                row = event["row"]
                table = tables[row.pop("kernel")]
                if "cuda" in row and not table.head.external:
                    say.expect(sum(each.compare_library(table.head.vendor, row["cuda"]) for each in tables))
                if row["status"] == "ok":
                    unsure.append((table, row))
                else:
                    table.keep(row)
                under_way = None
                say.row(table.job.kernel, row)
            elif "damaged" in event:
                raise contracts.Damaged(event["damaged"])
            elif "spent" in event:
                say("seconds: " + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in event["spent"].items()))
            elif "off" in event:
                _settle(unsure, event["off"])
        if worker.was_cancelled():
            raise NoWorker(f"{jobs[0].suite}: the job was cancelled; the next run goes on from its last sure row")
        # No canary will tell of the last rows of a worker that died.
        _settle(unsure, off=True)
        if not any(table.waiting for table in tables):
            return
        if under_way is None:
            # It died between cases, which no case is to blame for: it is started again, until that helps nobody.
            barren = barren + 1 if say.done == before else 0
            if barren >= BARREN_WORKERS:
                raise NoWorker(f"{jobs[0].suite}: the worker does not start: {worker.complaint()}")
            worker = WorkerProcess(WORKER_COMMAND)
            continue
        index, name, n = under_way
        status = "timeout" if worker.timed_out else "launch_failed"
        message = f"no answer within {timeout_s:g} s" if worker.timed_out else worker.complaint()
        row = {"matrix": name, "n": n, "status": status, "message": message}
        tables[index].keep(row)
        say.row(jobs[index].kernel, row)
        if any(table.waiting for table in tables):
            worker = WorkerProcess(WORKER_COMMAND)


def _settle(unsure: list[tuple[_Table, dict[str, Any]]], off: bool) -> None:
    """Keep the rows since the last canary, which are noisy if the machine is ``off``."""
    for table, row in unsure:
        table.keep({**row, "noisy": row["noisy"] or off})
    unsure.clear()


def _by_matrix(tables: Sequence[_Table]) -> list[dict[str, Any]]:
    """The cases that wait, matrix by matrix, in the order of the tasks."""
    found: dict[str, dict[str, Any]] = {}
    for index, table in enumerate(tables):
        for name, n in table.waiting:
            npz, _ = table.features[name]
            found.setdefault(npz, {"matrix": name, "npz": npz, "cases": []})["cases"].append([index, n])
    return list(found.values())
