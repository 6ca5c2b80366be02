"""Running Nsight Compute and reading its counters."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import contracts, share_package
from ..kernels import registry
from ..measure import device as gpu_device
from ..measure.job import Job, check_source, matrices_of, request, rows_once
from ..measure.journal import FINISHED
from ..measure.rows import identity, sizes
from ..measure.run import Task

TIME = "gpu__time_duration.sum"
#: CTAs of a launch; those of a call are the CTAs of all its launches.
GRID = "launch__grid_size"

#: Usual locations of the profiler if it is not on the PATH; of several versions the newest is used.
USUAL_PATHS = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")

#: How Nsight treats the caches before each launch, so that L2 is in the same state as for a timed call. It flushes
#: before every launch of a call, so the later launches of a cold call start colder than when they are timed.
CACHE_CONTROL = {"cold": "all", "warm": "none"}

#: Options for the exported page: plain numbers in base units, each launch named after its range.
PAGE = ("--csv", "--page", "raw", "--print-units", "base", "--print-nvtx-rename", "kernel")

#: Advice in messages: a table of failures is finished, unless the profiler itself was the hindrance.
AGAIN = "delete this table, and run `snakemake --cores 4 profile` again"
ADVICE_ABSENT = "install it, or give its path as profile.ncu in the config, and run again"
ADVICE_PERMISSION = (
    "the driver lets only administrators read the counters (ERR_NVGPUCTRPERM); as root, set "
    "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, load the driver again, and run again"
)
ADVICE_METRIC = "`ncu --query-metrics` lists what this device counts: correct config/metrics.yaml"
#: Nsight's message for a counter that this version or this chip does not have.
REFUSED = re.compile(r"Failed to find metric (\S+)")
NOTHING = (
    "Nsight Compute succeeded but profiled nothing of this case; see in the log whether the call launched a kernel, "
    f"and {AGAIN}"
)


#: Statuses whose cause lies outside the project: the next run tries again.
MENDED_OUTSIDE = ("unavailable", "no_permission")
#: Seconds for writing the counters of a report as text.
EXPORT_TIMEOUT_S = 300


class ProfileError(RuntimeError):
    """A failed profile.

    ``status`` is the status of its rows, ``refused`` are counters that Nsight does not know, and ``told`` says that the
    profiled process itself gave the reason.
    """

    def __init__(self, status: str, message: str, refused: frozenset[str] = frozenset(), told: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.refused = refused
        self.told = told


@dataclass(frozen=True)
class Case:
    """One call to profile."""

    kernel: int
    """Number of its job."""
    npz: str
    """The canonical matrix."""
    known: dict[str, Any]
    """Row of table ``matrices``."""
    n: int


@dataclass(frozen=True)
class Counter:
    """One counter of one case under Nsight's own name."""

    metric: str
    unit: str
    value: float | None
    """None if Nsight gives no number, for example for a ratio to zero or a counter that it does not know."""

    def row(self) -> dict[str, Any]:
        """The columns of table ``profile`` that a counter fills."""
        if self.value is None:
            return {"status": "failed", "message": "Nsight Compute gives no number for this counter here", **vars(self)}
        return {"status": "ok", **vars(self)}


def profile(tasks: Iterable[Task], metrics: str | Path, path: str | None, log: str | Path) -> None:
    """Profile one call of each case of kernels that share the state of L2, all in one run of Nsight Compute.

    If that run breaks off, the kernels that it left uncounted are profiled one by one, so that a kernel that crashes
    or hangs costs its own cases and nothing else. A counter that Nsight does not know is left out, and its rows say
    so: names differ between versions and chips.

    Writes a table ``profile`` for each task, Nsight's own report beside them (see :func:`report_of`; empty if there is
    none) and ``log`` (the output of Nsight and the target). ``path`` is the path of ncu, or None to search for it. A
    failed profile is a status of its rows and never an error: counters explain times, and times are valid without
    them. A profiler that is absent or may not read the counters is tried again by the next run.
    """
    tasks = list(tasks)
    heads = [registry.head(task.job.kernel, task.job.kernels, task.job.external) for task in tasks]
    record = contracts.document(tasks[0].job.device_record, "measured_device")
    read = rows_once()
    for task, head in zip(tasks, heads, strict=True):
        if task.job.kernel_row:
            check_source(task.job.kernel_row, head.sha256())
    cases = [
        Case(number, npz, known, n)
        for number, task in enumerate(tasks)
        for npz, known in matrices_of(task.job, read).values()
        for n in task.job.n
    ]
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    report = report_of(tasks)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_bytes(b"")
    jobs = [task.job for task in tasks]
    try:
        names, program = metric_names(metrics, jobs[0].arch), find(path)
        with gpu_device.lease() as gpu:
            counted = _count(jobs, gpu, record, cases, names, program, report, log)
            if len(tasks) > 1:
                _one_by_one(tasks, gpu, record, cases, counted, names, program, log)
    except ProfileError as error:
        counted = [error] * len(cases)
    keys = [column.name for column in contracts.table("profile").columns]
    for number, (task, head) in enumerate(zip(tasks, heads, strict=True)):
        common = identity(task.job, head, record)
        rows = []
        outside = False
        for case, found in zip(cases, counted, strict=True):
            if case.kernel != number:
                continue
            row = common | sizes(head, case.known, case.n) | {"matrix": case.known["matrix"]}
            row = {key: row[key] for key in keys if key in row}
            if isinstance(found, ProfileError):
                rows.append(row | {"status": found.status, "message": str(found), "metric": "none"})
                outside |= found.status in MENDED_OUTSIDE
            else:
                rows += [row | counter.row() for counter in found]
        contracts.write(contracts.frame(rows, "profile", str(task.csv)), task.csv, "profile")
        if outside:
            task.journal.unlink(missing_ok=True)
        else:
            contracts.write_text(task.journal, json.dumps({FINISHED: task.made_of}) + "\n")


def report_of(tasks: Sequence[Task]) -> Path:
    """Nsight's report of a job, beside its tables: named after the kernel, or after the suite if there are several."""
    first = tasks[0]
    shard = "".join(first.csv.suffixes[:-1])
    name = first.csv.stem if len(tasks) == 1 else f"{first.job.suite}{shard}"
    return first.csv.with_name(f"{name}.ncu-rep")


def find(path: str | None) -> str:
    """Path of ncu. Raises :class:`ProfileError` if there is none."""
    if path:
        candidates = [path]
    else:
        candidates = [
            "ncu",
            *(str(p) for usual in USUAL_PATHS for p in sorted(Path("/").glob(usual[1:]), reverse=True)),
        ]
    found = next(filter(None, map(shutil.which, candidates)), None)
    if not found:
        raise ProfileError("unavailable", f"Nsight Compute was not found as {path or 'ncu'}; {ADVICE_ABSENT}")
    return found


def metric_names(path: str | Path, arch: str) -> list[str]:
    """Counters of the document ``metrics`` for an architecture."""
    document = contracts.document(path, "metrics")
    return [*document["common"], *document["archs"].get(arch.rstrip("a"), [])]


def command(ncu: str, metrics: list[str], ranges: list[str], l2: str, report: Path, target: list[str]) -> list[str]:
    """Command that profiles the launches of ``target`` inside the NVTX ``ranges``, without locking the clocks.

    ``l2`` is the state of L2 before a launch, ``cold`` or ``warm``.
    """
    # With a trailing slash, ncu matches push/pop ranges instead of start/end ranges.
    included = [argument for name in ranges for argument in ("--nvtx-include", f"{name}/")]
    return [
        *(ncu, "--nvtx", *included, "--clock-control", "none", "--cache-control", CACHE_CONTROL[l2]),
        *("--metrics", ",".join(metrics), "--force-overwrite", "--export", str(report), *target),
    ]


def read(text: str, metrics: list[str]) -> dict[str, list[Counter]]:
    """Range → counters, from Nsight's raw page as CSV with kernels renamed to their ranges.

    Over several launches of a range, counters that are sums are added; others are averaged, weighted by the time of
    each launch. Raises :class:`ProfileError` if the text is no such page or is truncated.
    """
    lines = [line for line in io.StringIO(text) if not line.startswith("==")]
    table = [row for row in csv.reader(lines) if row]
    if len(table) < 2 or "Kernel Name" not in table[0]:
        raise ProfileError("failed", f"Nsight Compute wrote no table of counters: {text.strip()[-300:]!r}; {AGAIN}")
    header, units, *launches = table
    if not lines[-1].endswith("\n") or any(len(row) != len(header) for row in table):
        raise ProfileError("failed", f"Nsight Compute's table of counters is cut short at {table[-1]}; {AGAIN}")
    columns = {name: i for i, name in enumerate(header) if name in metrics}
    by_range: dict[str, list[list[str]]] = {}
    for launch in launches:
        # Nsight writes a renamed kernel as range/kernel.
        by_range.setdefault(launch[header.index("Kernel Name")].split("/")[0], []).append(launch)
    found = {}
    for name, rows in by_range.items():
        weights = [_number(row[columns[TIME]]) or 1.0 for row in rows] if TIME in columns else [1.0] * len(rows)
        found[name] = [
            Counter(metric, units[i], _of_call(metric, [_number(row[i]) for row in rows], weights))
            for metric, i in columns.items()
        ]
    return found


def _of_call(metric: str, values: list[float | None], weights: list[float]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if metric.endswith(".sum") or metric.startswith("memory_") or metric == GRID:
        return sum(known)
    return sum(value * weight for value, weight in zip(known, weights, strict=True)) / sum(weights)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _one_by_one(
    tasks: Sequence[Task],
    gpu: gpu_device.Gpu,
    record: dict[str, Any],
    cases: list[Case],
    counted: list[Any],
    metrics: list[str],
    ncu: str,
    log: Path,
) -> None:
    """Profile each kernel alone of which a run of several left cases without counters and without a reason."""
    for number, task in enumerate(tasks):
        own = [i for i, case in enumerate(cases) if case.kernel == number]
        if any(isinstance(counted[i], ProfileError) and not counted[i].told for i in own):
            alone = [replace(cases[i], kernel=0) for i in own]
            found = _count([task.job], gpu, record, alone, metrics, ncu, report_of([task]), log)
            for i, outcome in zip(own, found, strict=True):
                counted[i] = outcome


def _count(
    jobs: list[Job],
    gpu: gpu_device.Gpu,
    record: dict[str, Any],
    cases: list[Case],
    metrics: list[str],
    ncu: str,
    report: Path,
    log: Path,
) -> list[list[Counter] | ProfileError]:
    matrices: dict[str, dict[str, Any]] = {}
    for index, case in enumerate(cases):
        name = case.known["matrix"]
        entry = matrices.setdefault(name, {"matrix": name, "npz": case.npz, "cases": []})
        entry["cases"].append((case.kernel, case.n, index))
    ranges = [f"case{index}" for index in range(len(cases))]
    hindrance, wanted = None, list(metrics)
    report.write_bytes(b"")
    with tempfile.TemporaryDirectory() as folder:
        asked, answers = Path(folder) / "job.json", Path(folder) / "answers"
        answers.touch()
        asked.write_text(json.dumps(request(jobs, gpu, record, list(matrices.values()))))
        share_package()
        target = [sys.executable, "-m", "spmm_roofline.profile.target", str(asked), str(answers)]
        while True:
            line = command(ncu, wanted, ranges, jobs[0].l2, report, target)
            try:
                _run(line, jobs[0].options["case_timeout_s"], log, answers)
            except ProfileError as error:
                if error.status == "no_permission":
                    raise
                rest = [name for name in wanted if name not in error.refused]
                if rest and len(rest) < len(wanted):
                    wanted = rest
                    answers.write_text("")
                    continue
                hindrance = error  # earlier cases may have been counted
            break
        said = {answer["index"]: answer["message"] for answer in map(json.loads, answers.read_text().splitlines())}
    counters: dict[str, list[Counter]] = {}
    if report.stat().st_size:
        try:
            counters = read(_run([ncu, "--import", str(report), *PAGE], EXPORT_TIMEOUT_S, log), wanted)
            refused = [Counter(name, "", None) for name in metrics if name not in wanted]
            counters = {name: [*found, *refused] for name, found in counters.items()}
        except ProfileError as error:
            hindrance = hindrance or error
    otherwise = hindrance or ProfileError("failed", NOTHING)
    return [
        ProfileError("failed", said[index], told=True) if said.get(index) else counters.get(name, otherwise)
        for index, name in enumerate(ranges)
    ]


def _run(arguments: list[str], timeout_s: float, log: Path, answers: Path | None = None) -> str:
    """Run a command; it must end, or add to ``answers``, within ``timeout_s``."""
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    answered = 0
    while True:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
            break
        except BaseException as error:
            if isinstance(error, subprocess.TimeoutExpired):
                before, answered = answered, answers.stat().st_size if answers else 0
                if answered > before:
                    continue
            # Kill the target together with Nsight: it must not keep a GPU that is no longer leased.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                message = f"Nsight Compute finished no case within {timeout_s:.0f} s; raise measure.case_timeout_s"
                raise ProfileError("failed", f"{message}, {AGAIN}") from None
            raise
    output = stdout + stderr
    with log.open("a") as file:
        file.write(output)
    if "ERR_NVGPUCTRPERM" in output:
        raise ProfileError("no_permission", ADVICE_PERMISSION)
    if process.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        complaint = next((line for line in lines if line.startswith("==ERROR==")), lines[-1] if lines else "nothing")
        advice = ADVICE_METRIC if "Failed to find metric" in complaint else f"see the log, and {AGAIN}"
        message = f"Nsight Compute ended with code {process.returncode}: {complaint[:300]}; {advice}"
        raise ProfileError("failed", message, frozenset(REFUSED.findall(output)))
    return stdout
