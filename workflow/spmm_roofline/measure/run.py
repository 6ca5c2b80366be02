"""A measure job: plan the cases, let a worker measure them, keep its rows, write the table.

Whatever happens to a worker (a broken context, a hang, the job cancelled) costs the case under way and nothing else:
:mod:`.journal` has the finished rows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import contracts, folder
from ..kernels import registry
from . import device as gpu_device
from .job import Job, inputs, job_of, matrices_of, reasons_to_skip, request
from .journal import Journal
from .process import NoWorker, WorkerProcess
from .progress import Progress
from .rows import identity, sizes

__all__ = ["WrongResult", "job_of", "run"]

WORKER_COMMAND = [sys.executable, "-m", "spmm_roofline.measure.worker"]
#: Workers in a row that end before their first case until the job gives up.
BARREN_WORKERS = 2


class WrongResult(RuntimeError):
    """A kernel gave a wrong result: the job fails, its finished rows are kept."""


def run(job: Job, csv: str | Path, journal: str | Path, log: str | Path | None = None) -> None:
    """Measure one kernel on one suite and write a table ``measure``.

    Raises :class:`WrongResult` if an output was wrong; the journal keeps the finished rows, and only the wrong ones
    are measured again by the next run. Raises :class:`~spmm_roofline.contracts.Damaged` for files that cannot be read,
    :class:`.process.NoWorker` if no worker starts and :class:`.device.NoDevice` without a GPU. ``log`` is a file that
    gets the progress, beside standard error.
    """
    # A job that outlived its Snakemake may still be at work on this table; the two take turns.
    with folder.turn(journal):
        _run(job, Path(csv), Path(journal), Progress(log))


def _run(job: Job, csv: Path, journal_path: Path, say: Progress) -> None:
    worker = WorkerProcess(WORKER_COMMAND)  # loads CuPy while the cases are planned here
    head = registry.head(job.kernel, job.kernels, job.external)
    record = contracts.document(job.device_record, "measured_device")
    features = matrices_of(job)
    common = identity(job, head, record)
    journal = Journal(journal_path, inputs(job, features), common, job.n)
    if journal.rows:
        say(f"{job.kernel} on {job.suite}: going on after {len(journal.rows)} finished rows")

    def keep(row: dict[str, Any]) -> None:
        _, known = features[row["matrix"]]
        journal.keep({**common, **sizes(head, known, row["n"]), **row, "measured_at": gpu_device.timestamp()})

    skip = reasons_to_skip(job, head)
    waiting: dict[str, list[int]] = {}
    for name in features:
        for n in job.n:
            if (name, n) in journal.rows:
                continue
            status, message = skip.get(name, skip.get("", ("", "")))
            if status:
                keep({"matrix": name, "n": n, "status": status, "message": message})
            else:
                waiting.setdefault(name, []).append(n)
    if waiting:
        files = {name: npz for name, (npz, _) in features.items()}
        with gpu_device.lease(log=say) as gpu:
            _measure(job, gpu, record, files, waiting, journal, keep, worker, say)
    else:
        worker.ask(None)

    rows = list(journal.rows.values())
    wrong = [row for row in rows if row["status"] == "wrong"]
    if wrong:
        first = wrong[0]
        raise WrongResult(
            f"{job.kernel} on {job.suite}: {len(wrong)} of {len(rows)} cases are wrong, first {first['matrix']} with "
            f"n = {first['n']}: {first['message']}. The other rows are kept in {journal_path}; mend the kernel and run "
            "again"
        )
    order = {name: i for i, name in enumerate(features)}
    table = contracts.frame(sorted(rows, key=lambda row: (order[row["matrix"]], row["n"])), "measure", str(csv))
    contracts.write(table, csv, "measure")
    journal.finish()


def _measure(
    job: Job,
    gpu: gpu_device.Gpu,
    record: dict[str, Any],
    files: dict[str, str],
    waiting: dict[str, list[int]],
    journal: Journal,
    keep: Callable[[dict[str, Any]], None],
    worker: WorkerProcess,
    say: Progress,
) -> None:
    """Have workers measure all cases that wait (matrix → widths); ``files`` are the ``.npz`` of the matrices."""
    total = sum(map(len, waiting.values()))
    done = 0
    barren = 0
    while waiting:
        cases = [{"matrix": name, "npz": files[name], "n": ns} for name, ns in waiting.items()]
        under_way: tuple[str, int] | None = None
        before = done
        worker.ask(request(job, gpu, record, cases))
        # Writing the table needs pandas, which takes its time to load: now, while the worker starts.
        importlib.import_module("pandas")
        for event in worker.events(job.options["case_timeout_s"]):
            if "begin" in event:
                under_way = event["begin"]["matrix"], event["begin"]["n"]
            elif "row" in event:
                row = event["row"]
                keep(row)
                _strike(waiting, row["matrix"], row["n"])
                done += 1
                under_way = None
                say(f"[{done}/{total}] {_said(job.kernel, row)}")
            elif "damaged" in event:
                raise contracts.Damaged(event["damaged"])
            elif "spent" in event:
                say(f"{job.kernel} on {job.suite}: " + ", ".join(f"{k} {v:.2f} s" for k, v in event["spent"].items()))
            elif "noisy" in event:
                for row in list(journal.rows.values()):
                    if row["matrix"] == event["noisy"] and row["status"] == "ok":
                        keep({**row, "noisy": True})
        if not waiting:
            return
        if under_way is None:
            # It died between cases, which no case is to blame for: it is started again, until that helps nobody.
            barren = barren + 1 if done == before else 0
            if barren >= BARREN_WORKERS:
                raise NoWorker(f"{job.kernel} on {job.suite}: the worker does not start: {worker.complaint()}")
            worker = WorkerProcess(WORKER_COMMAND)
            continue
        name, n = under_way
        status = "timeout" if worker.timed_out else "launch_failed"
        message = f"no answer within {job.options['case_timeout_s']} s" if worker.timed_out else worker.complaint()
        keep({"matrix": name, "n": n, "status": status, "message": message})
        _strike(waiting, name, n)
        done += 1
        say(f"[{done}/{total}] {job.kernel} {name} n={n}: {status}: {message}")
        if waiting:
            worker = WorkerProcess(WORKER_COMMAND)


def _strike(waiting: dict[str, list[int]], name: str, n: int) -> None:
    waiting[name].remove(n)
    if not waiting[name]:
        del waiting[name]


def _said(kernel: str, row: dict[str, Any]) -> str:
    case = f"{kernel} {row['matrix']} n={row['n']}"
    if row["status"] != "ok":
        return f"{case}: {row['status']}: {row['message']}"
    return f"{case}: {row['time_ms']:.4f} ms, {row['useful_gflops']:.0f} GFLOP/s, error {row['rel_error']:.1e}"
