"""A measure job: what it measures, where its files lie, and what can be known of its cases without a device."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, fingerprint
from ..kernels.arch import supports
from ..kernels.head import Head
from . import device as gpu_device

#: Caps of the config's ``measure`` section: they bound the cost of a job and do not change what a time means.
DEFAULT_OPTIONS = {"repeat_cap": 200.0, "time_cap_ms": 1000.0, "case_timeout_s": 120.0}


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
    packer_cubin: str | None = None
    """Machine code of the format's packer; None for a format that CuPy's operations pack."""


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
        packer_cubin=inputs.get("packer_cubin"),
    )


def request(job: Job, gpu: gpu_device.Gpu, record: dict[str, Any], matrices: list[dict[str, Any]]) -> dict[str, Any]:
    """What a :class:`spmm_roofline.measure.worker.Worker` is told: the job on a leased GPU, and its matrices.

    ``record`` is the document ``measured_device``; each of ``matrices`` has at least ``matrix`` (name) and ``npz``.
    """
    return {
        "kernel": job.kernel,
        "kernels": job.kernels,
        "external": job.external,
        "cubin": job.cubin,
        "packer_cubin": job.packer_cubin,
        "read_cubin": job.read_cubin,
        "copy_cubin": job.copy_cubin,
        "l2": job.l2,
        "started": time.monotonic(),
        "options": job.options,
        "uuid": gpu.uuid,
        "copy_gb_per_s": record["copy_gb_per_s"],
        "matrices": matrices,
    }


def matrices_of(job: Job) -> dict[str, tuple[str, dict[str, Any]]]:
    """Matrix → (canonical ``.npz``, its row of table ``matrices``), in the order of the job."""
    rows = contracts.read_each((path for _, path in job.matrices), "matrices")
    return {row["matrix"]: (npz, row) for (npz, _), row in zip(job.matrices, rows, strict=True)}


def reasons_to_skip(job: Job, head: Head) -> dict[str, tuple[str, str]]:
    """Matrix → (status, message) for what cannot run; the key "" stands for every matrix."""
    if not head.vendor and not supports(job.arch, head.min_arch):
        return {"": ("unsupported", f"{head.name} needs {head.min_arch}, this device is {job.arch}")}
    if job.kernel_row:
        compiled = contracts.read_row(job.kernel_row, "kernels")
        if compiled["status"] != "ok":
            return {"": (compiled["status"], compiled["message"])}
    packed = contracts.read_each(job.formats, "formats")
    return {row["matrix"]: (row["status"], row["message"]) for row in packed if row["status"] != "ok"}


def inputs(job: Job, features: Mapping[str, tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """Matrix → fingerprint of what its rows are made of: its structure, its packing and the machine code.

    Raises :class:`~spmm_roofline.contracts.Damaged` for machine code that is not what the compiler wrote.
    """
    code = Path(job.cubin).read_bytes() if job.cubin and Path(job.cubin).exists() else b""
    if job.cubin and job.kernel_row and code:
        wanted = contracts.read_row(job.kernel_row, "kernels")["cubin_sha256"]
        if wanted and hashlib.sha256(code).hexdigest() != wanted:
            raise contracts.Damaged({job.cubin: "not the machine code that was compiled"})
    libraries = [Path(path).read_bytes() for path in (*job.external, *filter(None, [job.packer_cubin]))]
    packed = {row["matrix"]: row for row in contracts.read_each(job.formats, "formats")}
    return {
        name: fingerprint.sha256(code, *libraries, row["matrix_sha256"], packed[name])
        for name, (_, row) in features.items()
    }
