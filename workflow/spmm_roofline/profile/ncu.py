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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, share_package
from ..kernels import registry
from ..measure import device as gpu_device
from ..measure.job import Job, request
from ..measure.rows import identity, sizes

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

#: Advice in messages: a table of failures is a finished output for Snakemake, so it must be forced to profile again.
AGAIN = "profile again with `snakemake --cores 4 profile --forcerun profile_kernel`"
ADVICE_ABSENT = f"install it, or give its path as profile.ncu in the config, and {AGAIN}"
ADVICE_PERMISSION = (
    "the driver lets only administrators read the counters (ERR_NVGPUCTRPERM); as root, set "
    f"`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, load the driver again, and {AGAIN}"
)
ADVICE_METRIC = "`ncu --query-metrics` lists what this device counts: correct config/metrics.yaml"
#: Nsight's message for a counter that this version or this chip does not have.
REFUSED = re.compile(r"Failed to find metric (\S+)")
NOTHING = (
    "Nsight Compute succeeded but profiled nothing of this case; see in the log whether the call launched a kernel, "
    f"and {AGAIN}"
)


class ProfileError(RuntimeError):
    """A failed profile; ``status`` is the status of its rows, ``refused`` are counters that Nsight does not know."""

    def __init__(self, status: str, message: str, refused: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.status = status
        self.refused = refused


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


def profile(
    job: Job,
    metrics: str | Path,
    path: str | None,
    table: str | Path,
    report: str | Path,
    log: str | Path,
) -> None:
    """Profile one call of each case of ``job``.

    A counter that Nsight does not know is left out, and its rows say so: names differ between versions and chips.

    Writes ``table`` (contract ``profile``), ``report`` (Nsight's own file, empty if there is none) and ``log`` (the
    output of Nsight and the target). ``path`` is the path of ncu, or None to search for it. A failed profile is a
    status of its rows and never an error: counters explain times, and times are valid without them.
    """
    head = registry.head(job.kernel, job.kernels, job.external)
    record = contracts.document(job.device_record, "measured_device")
    files = [(npz, json.loads(Path(features).read_text())) for npz, features in job.matrices]
    cases = [(npz, known, n) for npz, known in files for n in job.n]
    for empty in map(Path, (report, log)):
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.write_bytes(b"")
    try:
        counted = _count(job, record, cases, metric_names(metrics, job.arch), find(path), Path(report), Path(log))
    except ProfileError as error:
        counted = [error] * len(cases)
    keys = [column.name for column in contracts.table("profile").columns]
    common = identity(job, head, record)
    rows = []
    for (_, known, n), found in zip(cases, counted, strict=True):
        case = common | sizes(head, known, n) | {"matrix": known["matrix"]}
        case = {key: case[key] for key in keys if key in case}
        if isinstance(found, ProfileError):
            rows.append(case | {"status": found.status, "message": str(found), "metric": "none"})
        else:
            rows += [case | counter.row() for counter in found]
    contracts.write(contracts.frame(rows, "profile", str(table)), table, "profile")


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


def _count(
    job: Job,
    record: dict[str, Any],
    cases: list[Any],
    metrics: list[str],
    ncu: str,
    report: Path,
    log: Path,
) -> list[list[Counter] | ProfileError]:
    matrices: dict[str, dict[str, Any]] = {}
    for index, (npz, known, n) in enumerate(cases):
        entry = matrices.setdefault(known["matrix"], {"matrix": known["matrix"], "npz": npz, "cases": []})
        entry["cases"].append({"index": index, "n": n})
    ranges = [f"case{index}" for index in range(len(cases))]
    hindrance, wanted = None, list(metrics)
    with tempfile.TemporaryDirectory() as folder:
        asked, answers = Path(folder) / "job.json", Path(folder) / "answers"
        answers.touch()
        with gpu_device.lease() as gpu:
            asked.write_text(json.dumps(request([job], gpu, record, list(matrices.values()))))
            share_package()
            target = [sys.executable, "-m", "spmm_roofline.profile.target", str(asked), str(answers)]
            while True:
                line = command(ncu, wanted, ranges, job.l2, report, target)
                try:
                    _run(line, job.options["case_timeout_s"] * len(cases), log)
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
            counters = read(_run([ncu, "--import", str(report), *PAGE], 120, log), wanted)
            refused = [Counter(name, "", None) for name in metrics if name not in wanted]
            counters = {name: [*found, *refused] for name, found in counters.items()}
        except ProfileError as error:
            hindrance = hindrance or error
    otherwise = hindrance or ProfileError("failed", NOTHING)
    return [
        ProfileError("failed", said[index]) if said.get(index) else counters.get(name, otherwise)
        for index, name in enumerate(ranges)
    ]


def _run(arguments: list[str], timeout_s: float, log: Path) -> str:
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except BaseException as error:
        # Kill the target together with Nsight: it must not keep a GPU that is no longer leased.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            message = f"Nsight Compute did not end within {timeout_s:.0f} s; raise measure.case_timeout_s, and {AGAIN}"
            raise ProfileError("failed", message) from None
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
