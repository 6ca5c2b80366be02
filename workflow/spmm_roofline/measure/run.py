"""A measure job: plan the cases, let a worker measure them, keep what it says, write the table.

Whatever happens to a worker (a broken context, a hang, the job cancelled) costs the case under way and nothing else:
finished rows lie in a journal, and a job that starts again goes on from there. The journal stays, so that a matrix more
in a suite costs that matrix.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, fingerprint, folder, share_package
from ..formats import FORMATS
from ..formats.base import itemsize
from ..kernels.head import Head, supports
from ..kernels.registry import heads
from . import PROTOCOL
from . import device as gpu_device

Case = tuple[str, int]

#: Last line of the journal of a job that wrote its table.
FINISHED = "{}\n"

WORKER_COMMAND = [sys.executable, "-m", "spmm_roofline.measure.worker"]

#: Caps of the config's ``measure`` section: they bound the cost of a job and do not change what a time means.
DEFAULT_OPTIONS = {"repeat_cap": 200.0, "time_cap_ms": 1000.0, "case_timeout_s": 120.0}


class WrongResult(RuntimeError):
    """A kernel gave a wrong result: the job fails, its finished rows are kept."""


class DamagedInput(RuntimeError):
    """A file of an earlier stage cannot be read: the job fails, its finished rows are kept."""


@dataclass(frozen=True)
class Job:
    """What one job measures and where its files lie."""

    suite: str
    kernel: str
    device: str
    arch: str
    n: list[int]
    l2: str
    matrices: list[tuple[str, str]]
    """(canonical ``.npz``, features ``.json``) of each matrix."""
    formats: list[str]
    """JSON row of each matrix in the kernel's format."""
    kernel_row: str | None
    """JSON row of the compiled kernel; None for a library."""
    cubin: str | None
    read_cubin: str
    copy_cubin: str
    device_record: str
    options: dict[str, float]
    kernels: str = "kernels"
    external: tuple[str, ...] = ()
    """The library of an external kernel."""


def job_of(planned: dict[str, Any], inputs: Any, options: dict[str, Any]) -> Job:
    """The job that a rule describes: its parameters, its named input files, and the config's ``measure`` section."""
    return Job(
        **{key: planned[key] for key in ("suite", "kernel", "device", "arch", "n", "l2")},
        # What is known of a matrix lies beside it. A feature that is counted otherwise measures nothing anew.
        matrices=[(npz, str(Path(npz).with_suffix(".json"))) for npz in inputs.matrices],
        formats=list(inputs.formats),
        kernel_row=inputs.get("kernel_row"),
        cubin=inputs.get("cubin"),
        read_cubin=inputs.read_cubin,
        copy_cubin=inputs.copy_cubin,
        device_record=inputs.device_record,
        options={name: float(options.get(name, default)) for name, default in DEFAULT_OPTIONS.items()},
        external=tuple(inputs.get("external", ())),
    )


def run(job: Job, csv: str | Path, journal: str | Path, log: str | Path | None = None) -> None:
    """Measure one kernel on one suite and write a table ``measure``.

    Raises :class:`WrongResult` if an output was wrong; the journal keeps the finished rows, and only the wrong ones
    are measured again by the next run. ``log`` is a file that gets the progress, beside standard error.
    """
    # A job that outlived its Snakemake may still be at work on this table; the two take turns.
    with folder.turn(journal):
        _run(job, Path(csv), Path(journal), Progress(log))


def _run(job: Job, csv: Path, journal: Path, say: Progress) -> None:
    worker = WorkerProcess()  # loads CuPy while the cases are planned here
    head = heads(job.kernels, job.external)[job.kernel]
    record = contracts.document(job.device_record, "measured_device")
    described = ((npz, contracts.read_row(path, "matrices")) for npz, path in job.matrices)
    features = {row["matrix"]: (npz, row) for npz, row in described}
    common = identity(job, head, record)
    made_of = _inputs(job, features)
    rows = _resume(journal, common, made_of, job.n)
    if rows:
        say(f"{job.kernel} on {job.suite}: going on after {len(rows)} finished rows")

    def line(row: dict[str, Any]) -> str:
        return json.dumps({"inputs": made_of[row["matrix"]], **row}) + "\n"

    def keep(row: dict[str, Any]) -> None:
        _, known = features[row["matrix"]]
        row = common | sizes(head, known, row["n"]) | row
        row["measured_at"] = gpu_device.timestamp()
        rows[row["matrix"], row["n"]] = row
        with journal.open("a") as file:
            file.write(line(row))

    skip = _reason_to_skip(job, head)
    waiting: dict[str, list[int]] = {}
    for name in features:
        for n in job.n:
            if (name, n) in rows:
                continue
            status, message = skip.get(name, skip.get("", ("", "")))
            if status:
                keep({"matrix": name, "n": n, "status": status, "message": message})
            else:
                waiting.setdefault(name, []).append(n)
    if waiting:
        with gpu_device.lease(log=say) as gpu:
            _measure(job, gpu, record, {name: features[name][0] for name in features}, waiting, keep, rows, worker, say)
    else:
        worker.ask(None)

    wrong = [row for row in rows.values() if row["status"] == "wrong"]
    if wrong:
        first = wrong[0]
        raise WrongResult(
            f"{job.kernel} on {job.suite}: {len(wrong)} of {len(rows)} cases are wrong, first {first['matrix']} with "
            f"n = {first['n']}: {first['message']}. The other rows are kept in {journal}; mend the kernel and run again"
        )
    order = {name: i for i, name in enumerate(features)}
    table = contracts.frame(
        sorted(rows.values(), key=lambda row: (order[row["matrix"]], row["n"])), "measure", str(csv)
    )
    contracts.write(table, csv, "measure")
    contracts.write_text(journal, "".join(map(line, rows.values())) + FINISHED)


def request(job: Job, gpu: gpu_device.Gpu, record: dict[str, Any], matrices: list[dict[str, Any]]) -> dict[str, Any]:
    """What a :class:`spmm_roofline.measure.worker.Worker` is told: the job on a leased GPU, and its matrices.

    ``record`` is the document ``measured_device``; each of ``matrices`` has at least ``matrix`` (name) and ``npz``.
    """
    return {
        "kernel": job.kernel,
        "kernels": job.kernels,
        "external": job.external,
        "cubin": job.cubin,
        "read_cubin": job.read_cubin,
        "copy_cubin": job.copy_cubin,
        "l2": job.l2,
        "started": time.monotonic(),
        "options": job.options,
        "uuid": gpu.uuid,
        "copy_gb_per_s": record["copy_gb_per_s"],
        "matrices": matrices,
    }


def _measure(
    job: Job,
    gpu: gpu_device.Gpu,
    record: dict[str, Any],
    npz: dict[str, str],
    waiting: dict[str, list[int]],
    keep: Any,
    rows: dict[Case, dict[str, Any]],
    worker: WorkerProcess,
    say: Any,
) -> None:
    total = sum(map(len, waiting.values()))
    done = 0
    barren = 0
    while waiting:
        cases = [{"matrix": name, "npz": npz[name], "n": ns} for name, ns in waiting.items()]
        under_way: Case | None = None
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
                raise DamagedInput(f"{job.kernel} on {job.suite}: {event['damaged']}")
            elif "spent" in event:
                say(f"{job.kernel} on {job.suite}: " + ", ".join(f"{k} {v:.2f} s" for k, v in event["spent"].items()))
            elif "noisy" in event:
                for (name, _), row in rows.items():
                    if name == event["noisy"] and row["status"] == "ok":
                        keep({**row, "noisy": True})
        if not waiting:
            return
        if under_way is None:
            # It died between cases: nothing to blame, so it is started again unless that helps nobody.
            barren = barren + 1 if done == before else 0
            if barren >= 2:
                raise RuntimeError(f"{job.kernel} on {job.suite}: the worker does not start: {worker.complaint()}")
            worker = WorkerProcess()
            continue
        name, n = under_way
        status = "timeout" if worker.timed_out else "launch_failed"
        message = f"no answer within {job.options['case_timeout_s']} s" if worker.timed_out else worker.complaint()
        keep({"matrix": name, "n": n, "status": status, "message": message})
        _strike(waiting, name, n)
        done += 1
        say(f"[{done}/{total}] {job.kernel} {name} n={n}: {status}: {message}")
        if waiting:
            worker = WorkerProcess()


class WorkerProcess:
    """A worker process and what it says; it loads its libraries at once and then waits for the request."""

    def __init__(self, command: list[str] | None = None) -> None:
        share_package()
        self.timed_out = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            command or WORKER_COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def ask(self, request: dict[str, Any] | None) -> None:
        """Hand over the request; None sends the worker home."""
        try:
            if request is not None:
                self._process.stdin.write(json.dumps(request).encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it died while loading; what it said of that is read when its events end
        if request is None:
            self._process.wait()

    def events(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Events until the worker ends; it is killed if it says nothing for ``timeout_s``."""
        output = self._process.stdout
        buffer = b""
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.timed_out = True
                    return
                chunk = os.read(output.fileno(), 1 << 16)
                if not chunk:
                    return
                deadline = time.monotonic() + timeout_s
                *lines, buffer = (buffer + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            if self.timed_out:
                self._process.kill()
            self._process.wait()

    def complaint(self) -> str:
        """The last line of its standard error, which names the exception."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        code = self._process.returncode
        return lines[-1][:500] if lines else f"the worker ended with code {code} and said nothing"


class Progress:
    """Sentences to standard error and, if given, to a log file."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = Path(path) if path else None
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("")

    def __call__(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)
        if self._path:
            with self._path.open("a") as file:
                file.write(sentence + "\n")


def identity(job: Job, head: Head, record: dict[str, Any]) -> dict[str, Any]:
    """Columns that all rows of a job share: the device, the kernel and how it was measured."""
    return {
        "device": job.device,
        "arch": job.arch,
        "driver": record["driver"],
        "cuda": record["cuda"],
        "suite": job.suite,
        "study": head.study,
        "kernel": head.name,
        "kernel_sha256": head.sha256(),
        "format": head.format,
        "dtype_a": head.dtype["a"],
        "dtype_b": head.dtype["b"],
        "dtype_accumulator": head.dtype["accumulator"],
        "dtype_c": head.dtype["c"],
        "l2": job.l2,
        "protocol": PROTOCOL,
        "git_commit": git_commit(),
    }


def sizes(head: Head, features: dict[str, Any], n: int) -> dict[str, Any]:
    """Columns that a matrix (a row of table ``matrices``) and a width give."""
    a, b, c = (itemsize(head.dtype[operand]) for operand in "abc")
    compulsory = compulsory_bytes(features["m"], features["nonempty_columns"], features["nnz"], n, a, b, c)
    if not FORMATS[head.format].stores_structure:
        compulsory -= csr_bytes(features["m"], features["nnz"], a)
    return {
        "matrix_sha256": features["matrix_sha256"],
        "m": features["m"],
        "k": features["k"],
        "n": n,
        "nnz": features["nnz"],
        "compulsory_bytes": compulsory,
    }


def compulsory_bytes(m: int, touched: int, nnz: int, n: int, a: int, b: int, c: int) -> int:
    """Least bytes that C = A·B moves: A in CSR, the ``touched`` rows of B that A needs, and C, each once.

    ``a``, ``b``, ``c`` are bytes of a value; indices and row pointers are 32-bit.
    """
    return csr_bytes(m, nnz, a) + touched * n * b + m * n * c


def csr_bytes(m: int, nnz: int, a: int) -> int:
    """Bytes of A in CSR with values of ``a`` bytes and 32-bit indices."""
    return nnz * (a + 4) + (m + 1) * 4


def _reason_to_skip(job: Job, head: Head) -> dict[str, tuple[str, str]]:
    """Matrix → (status, message) for what cannot run; the key "" stands for every matrix."""
    if not head.vendor and not supports(job.arch, head.min_arch):
        return {"": ("unsupported", f"{head.name} needs {head.min_arch}, this device is {job.arch}")}
    if job.kernel_row:
        compiled = contracts.read_row(job.kernel_row, "kernels")
        if compiled["status"] != "ok":
            return {"": (compiled["status"], compiled["message"])}
    packed = (contracts.read_row(path, "formats") for path in job.formats)
    return {row["matrix"]: (row["status"], row["message"]) for row in packed if row["status"] != "ok"}


def _inputs(job: Job, features: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """Matrix → fingerprint of what its rows are made of: its structure, its packing and the machine code.

    Raises :class:`DamagedInput` for machine code that is not what the compiler wrote.
    """
    code = Path(job.cubin).read_bytes() if job.cubin and Path(job.cubin).exists() else b""
    if job.kernel_row and code:
        wanted = contracts.read_row(job.kernel_row, "kernels")["cubin_sha256"]
        if wanted and hashlib.sha256(code).hexdigest() != wanted:
            raise DamagedInput(f"{job.cubin}: not the machine code that was compiled; {contracts.set_aside(job.cubin)}")
    libraries = [Path(path).read_bytes() for path in job.external]
    packed = {row["matrix"]: row for row in (contracts.read_row(path, "formats") for path in job.formats)}
    return {
        name: fingerprint.sha256(code, *libraries, row["matrix_sha256"], packed[name])
        for name, (_, row) in features.items()
    }


def _resume(
    journal: Path, common: dict[str, Any], made_of: dict[str, str], widths: list[int]
) -> dict[Case, dict[str, Any]]:
    """Rows that were measured before, of the same inputs, kernel, device and protocol; wrong ones run again.

    The journal of a job that ended serves one with other cases, such as a new matrix of the suite. A job with the same
    cases is asked to measure again, so that it finds nothing.
    """
    rows: dict[Case, dict[str, Any]] = {}
    cases: set[Case] = set()
    same = ("device", "driver", "kernel_sha256", "l2", "protocol")
    text = journal.read_text(errors="replace")
    if text and not text.endswith("\n"):
        with journal.open("a") as file:
            file.write("\n")  # so that the next row does not join what a killed job left unfinished
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line that a killed job was writing
        if not isinstance(row, dict) or not {"matrix", "n"} <= row.keys():
            continue
        cases.add((row["matrix"], row["n"]))
        if row.pop("inputs", None) != made_of.get(row["matrix"], "") or row["n"] not in widths:
            continue
        if all(row.get(key) == common[key] for key in same) and row.get("status") in (
            "ok",
            "unsupported",
            "out_of_memory",
        ):
            rows[row["matrix"], row["n"]] = row
    if text.endswith(FINISHED) and cases == {(name, n) for name in made_of for n in widths}:
        journal.write_text("")
        return {}
    return rows


def _strike(waiting: dict[str, list[int]], name: str, n: int) -> None:
    waiting[name].remove(n)
    if not waiting[name]:
        del waiting[name]


def _said(kernel: str, row: dict[str, Any]) -> str:
    case = f"{kernel} {row['matrix']} n={row['n']}"
    if row["status"] != "ok":
        return f"{case}: {row['status']}: {row['message']}"
    return f"{case}: {row['time_ms']:.4f} ms, {row['useful_gflops']:.0f} GFLOP/s, error {row['rel_error']:.1e}"


def git_commit() -> str:
    """Commit of this checkout, with ``+`` if it was changed since; ``unknown`` outside a repository.

    SPMM_ROOFLINE_COMMIT says it for a copy of the project that came without its history.
    """
    if given := os.environ.get("SPMM_ROOFLINE_COMMIT"):
        return given
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", here, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
