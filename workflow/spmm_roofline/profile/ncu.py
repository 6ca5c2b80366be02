"""Running Nsight Compute and reading what it counted."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, share_package
from ..kernels.head import Head
from ..kernels.registry import heads
from ..measure import device as gpu_device
from ..measure.run import Job, identity, sizes

TIME = "gpu__time_duration.sum"

#: Where installers put the profiler when it is not on the PATH.
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")

#: The page that is read: plain numbers in base units, each launch named after its range.
PAGE = ("--csv", "--page", "raw", "--print-units", "base", "--print-nvtx-rename", "kernel")

ADVICE_ABSENT = "Nsight Compute (ncu) was not found; install it, or give its path as profile.ncu in the config"
ADVICE_PERMISSION = (
    "the driver lets only administrators read the counters (ERR_NVGPUCTRPERM); as root, set "
    "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and load the driver again"
)


class ProfileError(RuntimeError):
    """A profile that did not come about; ``status`` is that of its rows."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Counter:
    """One counter of one case under Nsight's own name."""

    metric: str
    unit: str
    value: float


def profile(job: Job, metrics: str | Path, most: int, path: str | None, table: str | Path, report: str | Path) -> None:
    """Profile one call of each case of the first ``most`` matrices of ``job``.

    Writes ``table`` (contract ``profile``) and ``report`` (Nsight's own file, empty where there is none). ``path`` is
    that of ncu, or None to look for it. What hinders a profile is a status of its rows and never an error: the counters
    explain times, they do not make them.
    """
    head = heads(job.kernels)[job.kernel]
    record = contracts.document(job.device_record, "measured_device")
    files = [(npz, json.loads(Path(features).read_text())) for npz, features in job.matrices[:most]]
    cases = [(npz, known, n) for npz, known in files for n in job.n]
    Path(report).parent.mkdir(parents=True, exist_ok=True)
    Path(report).touch()
    try:
        counted = _count(job, head, record, cases, metric_names(metrics, job.arch), find(path), Path(report))
    except ProfileError as error:
        counted = [error] * len(cases)
    keys = [column.name for column in contracts.table("profile").columns]
    rows = []
    for (_, known, n), found in zip(cases, counted, strict=True):
        case = identity(job, head, record) | sizes(head, known, n) | {"matrix": known["matrix"]}
        case = {key: case[key] for key in keys if key in case}
        if isinstance(found, ProfileError):
            rows.append(case | {"status": found.status, "message": str(found), "metric": "none"})
        else:
            rows += [case | {"status": "ok", **vars(counter)} for counter in found]
    contracts.write(contracts.frame(rows, "profile", str(table)), table, "profile")


def find(path: str | None) -> str:
    """Path of ncu. Raises :class:`ProfileError` if there is none."""
    found = shutil.which(path or "ncu")
    if not found and not path:
        candidates = [str(p) for place in PLACES for p in sorted(Path("/").glob(place.lstrip("/")))]
        found = next((candidate for candidate in reversed(candidates) if shutil.which(candidate)), None)
    if not found:
        raise ProfileError("unavailable", ADVICE_ABSENT)
    return found


def metric_names(path: str | Path, arch: str) -> list[str]:
    """Counters of the document ``metrics`` for an architecture."""
    document = contracts.document(path, "metrics")
    return [*document["common"], *document["archs"].get(arch.rstrip("a"), [])]


def command(ncu: str, metrics: list[str], ranges: list[str], report: Path, target: list[str]) -> list[str]:
    """Command that profiles what ``target`` launches inside the NVTX ``ranges``; the card's clocks are left alone."""
    # A trailing slash tells a range that was pushed and popped from one that was started and ended.
    included = [part for name in ranges for part in ("--nvtx-include", f"{name}/")]
    return [
        *(ncu, "--nvtx", *included, "--clock-control", "none", "--metrics", ",".join(metrics)),
        *("--force-overwrite", "--export", str(report), *target),
    ]


def read(text: str, metrics: list[str]) -> dict[str, list[Counter]]:
    """Range → counters, from Nsight's raw page as CSV with kernels renamed to their ranges.

    Counters of a range with several launches are added where they are sums and otherwise averaged, each launch weighted
    by its time. Raises :class:`ProfileError` if the text is no such page.
    """
    table = list(csv.reader(line for line in io.StringIO(text) if not line.startswith("==")))
    if len(table) < 2 or "Kernel Name" not in table[0]:
        raise ProfileError("failed", f"Nsight Compute wrote no table of counters: {text.strip()[-300:]!r}")
    header, units, *launches = table
    columns = {name: i for i, name in enumerate(header) if name in metrics}
    by_range: dict[str, list[list[str]]] = {}
    for launch in launches:
        if len(launch) == len(header):
            # Nsight writes a renamed kernel as range/kernel.
            by_range.setdefault(launch[header.index("Kernel Name")].split("/")[0], []).append(launch)
    found = {}
    for name, rows in by_range.items():
        weights = [_number(row[columns[TIME]]) or 1.0 for row in rows] if TIME in columns else [1.0] * len(rows)
        found[name] = []
        for metric, i in columns.items():
            values = [_number(row[i]) for row in rows]
            if any(value is None for value in values):
                continue
            total = sum(values)
            if not metric.endswith(".sum") and not metric.startswith("memory_"):
                total = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
            found[name].append(Counter(metric, units[i], total))
    return found


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _count(
    job: Job, head: Head, record: dict[str, Any], cases: list[Any], metrics: list[str], ncu: str, report: Path
) -> list[list[Counter] | ProfileError]:
    matrices: dict[str, dict[str, Any]] = {}
    for index, (npz, known, n) in enumerate(cases):
        entry = matrices.setdefault(known["matrix"], {"matrix": known["matrix"], "npz": npz, "cases": []})
        entry["cases"].append({"index": index, "n": n})
    with tempfile.TemporaryDirectory() as folder, gpu_device.lease() as gpu:
        request = Path(folder) / "job.json"
        wanted = {
            "kernel": head.name,
            "kernels": job.kernels,
            "cubin": job.cubin,
            "read_cubin": job.read_cubin,
            "copy_cubin": job.copy_cubin,
            "l2": job.l2,
            "options": job.options,
            "uuid": gpu.uuid,
            "copy_gb_per_s": record["copy_gb_per_s"],
            "started": time.monotonic(),
            "matrices": list(matrices.values()),
        }
        request.write_text(json.dumps(wanted))
        share_package()
        ranges = [f"case{index}" for index in range(len(cases))]
        target = [sys.executable, "-m", "spmm_roofline.profile.target", str(request)]
        ran = _run(command(ncu, metrics, ranges, report, target), job.options["case_timeout_s"] * len(cases))
        page = _run([ncu, "--import", str(report), *PAGE], 120)
    counters = read(page, metrics)
    said = {}
    for line in ran.splitlines():
        if line.startswith('{"index"'):
            answer = json.loads(line)
            said[answer["index"]] = answer["message"]
    result: list[list[Counter] | ProfileError] = []
    for index, name in enumerate(ranges):
        if name in counters:
            result.append(counters[name])
        else:
            why = said.get(index) or "Nsight Compute ended well and profiled nothing of this case"
            result.append(ProfileError("failed", why))
    return result


def _run(arguments: list[str], timeout_s: float) -> str:
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise ProfileError("failed", f"Nsight Compute did not end within {timeout_s:.0f} s") from None
    output = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in output:
        raise ProfileError("no_permission", ADVICE_PERMISSION)
    if done.returncode != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        complaint = next((line for line in lines if line.startswith("==ERROR==")), lines[-1] if lines else "nothing")
        raise ProfileError("failed", f"Nsight Compute ended with code {done.returncode}: {complaint[:300]}")
    return done.stdout
