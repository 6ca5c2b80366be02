"""A measure job: what it measures, where its files lie, and what can be known of its cases without a device."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, fingerprint
from ..kernels.arch import supports
from ..kernels.head import Head
from . import device as gpu_device

#: Caps of the config's ``measure`` section: they bound the cost of a job and do not change what a time means.
DEFAULT_OPTIONS = {
    "repeat_cap": 200.0,
    "time_cap_ms": 1000.0,
    "case_timeout_s": 120.0,
    "energy": 0.0,
    "lock_clocks_mhz": 0.0,
}


def options_of(given: Mapping[str, Any]) -> dict[str, float]:
    """The options of the section ``measure`` that a worker is told; what is missing or null has its default."""
    return {name: float(given.get(name) or default) for name, default in DEFAULT_OPTIONS.items()}


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
    check_cubin: str
    device_record: str
    options: dict[str, float]
    kernels: str = "kernels"
    external: tuple[str, ...] = ()
    """The library of an external kernel."""
    packer_cubin: str | None = None
    """Machine code of the format's packer; None for a format that CuPy's operations pack."""


def job_of(planned: Mapping[str, Any], inputs: Any, options: Mapping[str, Any]) -> Job:
    """The job that a plan describes: its parameters, its named files, and the config's ``measure`` section."""
    return Job(
        **{key: planned[key] for key in ("suite", "kernel", "device", "arch", "n", "l2")},
        # What is known of a matrix lies beside it. A feature that is counted otherwise measures nothing anew.
        matrices=[(npz, str(Path(npz).with_suffix(".json"))) for npz in inputs["matrices"]],
        formats=list(inputs["formats"]),
        kernel_row=inputs.get("kernel_row"),
        cubin=inputs.get("cubin"),
        read_cubin=inputs["read_cubin"],
        copy_cubin=inputs["copy_cubin"],
        check_cubin=inputs["check_cubin"],
        device_record=inputs["device_record"],
        options=options_of(options),
        external=tuple(inputs.get("external", ())),
        packer_cubin=inputs.get("packer_cubin"),
    )


def request(jobs: Sequence[Job], gpu: gpu_device.Gpu, record: dict[str, Any], matrices: list[Any]) -> dict[str, Any]:
    """What a :class:`spmm_roofline.measure.worker.Worker` is told: the kernels of ``jobs`` on a leased GPU.

    ``record`` is the document ``measured_device``; each of ``matrices`` has at least ``matrix`` (name), ``npz`` and
    ``cases``, a list of (number of a job, n).
    """
    first = jobs[0]
    return {
        "kernels": [
            {
                "kernel": job.kernel,
                "kernels": job.kernels,
                "external": job.external,
                "cubin": job.cubin,
                "packer_cubin": job.packer_cubin,
                "l2": job.l2,
            }
            for job in jobs
        ],
        "read_cubin": first.read_cubin,
        "copy_cubin": first.copy_cubin,
        "check_cubin": first.check_cubin,
        "started": time.monotonic(),
        "options": first.options,
        "uuid": gpu.uuid,
        "copy_gb_per_s": record["copy_gb_per_s"],
        "matrices": matrices,
    }


#: Reads rows of a table (paths, name); :func:`rows_once` makes one.
Reader = Callable[[Iterable[str], str], list[dict[str, Any]]]


def rows_once() -> Reader:
    """:func:`spmm_roofline.contracts.read_each` that reads each file once, for jobs that share their matrices."""
    known: dict[str, dict[str, Any]] = {}

    def read(paths: Iterable[str], name: str) -> list[dict[str, Any]]:
        paths = list(paths)
        new = [path for path in paths if path not in known]
        known.update(zip(new, contracts.read_each(new, name), strict=True))
        return [known[path] for path in paths]

    return read


def matrices_of(job: Job, read: Reader) -> dict[str, tuple[str, dict[str, Any]]]:
    """Matrix → (canonical ``.npz``, its row of table ``matrices``), in the order of the job."""
    rows = read((path for _, path in job.matrices), "matrices")
    return {row["matrix"]: (npz, row) for (npz, _), row in zip(job.matrices, rows, strict=True)}


def reasons_to_skip(job: Job, head: Head, read: Reader) -> dict[str, tuple[str, str]]:
    """Matrix → (status, message) for what cannot run; the key "" stands for every matrix."""
    if not head.vendor and not supports(job.arch, head.min_arch):
        return {"": ("unsupported", f"{head.name} needs {head.min_arch}, this device is {job.arch}")}
    if job.kernel_row:
        (compiled,) = read([job.kernel_row], "kernels")
        if compiled["status"] != "ok":
            return {"": (compiled["status"], compiled["message"])}
    packed = read(job.formats, "formats")
    return {row["matrix"]: (row["status"], row["message"]) for row in packed if row["status"] != "ok"}


def check_source(kernel_row: str | Path, kernel_sha256: str) -> None:
    """Raise :class:`~spmm_roofline.contracts.Damaged` if a kernel was compiled from another source than it has now.

    Measured rows would name the present source. The row of the compilation counts as damaged, so that the next run
    compiles the kernel again even if the edit was undone.
    """
    row = contracts.read_row(kernel_row, "kernels")
    if row["kernel_sha256"] != kernel_sha256:
        what = f"compiled from other code than {row['kernel']} has now, which was edited during the run"
        raise contracts.Damaged({kernel_row: what})


def inputs(job: Job, features: Mapping[str, tuple[str, dict[str, Any]]], read: Reader) -> dict[str, str]:
    """Matrix → fingerprint of what its rows are made of: its structure, its packing and the machine code.

    Rows without energies do not do for a job that counts them, nor rows at other clocks for one that locks them.
    Raises :class:`~spmm_roofline.contracts.Damaged` for machine code that is not what the compiler wrote.
    """
    code = Path(job.cubin).read_bytes() if job.cubin and Path(job.cubin).exists() else b""
    if job.cubin and job.kernel_row and code:
        (compiled,) = read([job.kernel_row], "kernels")
        wanted = compiled["cubin_sha256"]
        if wanted and hashlib.sha256(code).hexdigest() != wanted:
            raise contracts.Damaged({job.cubin: "not the machine code that was compiled"})
    libraries = [Path(path).read_bytes() for path in (*job.external, *filter(None, [job.packer_cubin]))]
    asked = ["energy"] if job.options.get("energy") else []
    if locked := job.options.get("lock_clocks_mhz"):
        asked.append(f"clocks of {locked:g} MHz")
    packed = {row["matrix"]: _lasting(row) for row in read(job.formats, "formats")}
    return {
        name: fingerprint.sha256(code, *libraries, row["matrix_sha256"], packed[name], *asked)
        for name, (_, row) in features.items()
    }


def _lasting(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of table ``formats`` without what differs each time that it is made."""
    return {name: value for name, value in row.items() if name not in ("build_ms", "made_of")}
