"""The GPU: detection, exclusive lease, and its rates when nothing else runs."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .. import contracts
from ..kernels.arch import target


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver describes it."""

    uuid: str
    product: str
    capability: tuple[int, int]
    driver: str

    @property
    def arch(self) -> str:
        """Architecture that the compiler targets, such as sm_90a."""
        return target(self.capability)


class NoDevice(RuntimeError):
    """No usable GPU; the message gives the reason."""


def visible() -> list[Gpu]:
    """GPUs that this process may use, in order; ids given by a scheduler in CUDA_VISIBLE_DEVICES are kept."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        gpus = [
            Gpu(
                uuid=pynvml.nvmlDeviceGetUUID(handle),
                product=pynvml.nvmlDeviceGetName(handle),
                capability=tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
                driver=driver,
            )
            for handle in handles
        ]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return gpus
    chosen = [name.strip() for name in given.split(",") if name.strip()]
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return [
        gpus[int(name)] if name.isdigit() else by_uuid[name]
        for name in chosen
        if name in by_uuid or (name.isdigit() and int(name) < len(gpus))
    ]


def short_name(product: str, devices: Path) -> str:
    """Name of a device in folders and rows: from its file in ``config/devices``, else derived from the product name."""
    for path in sorted(Path(devices).glob("*.yaml")):
        sheet = contracts.document(path, "device")
        if product in sheet["matches"]:
            return sheet["name"]
    words = re.sub(r"\b(nvidia|geforce|tesla|graphics|gpu|pcie|sxm\d?|\d+gb)\b", "", product.lower())
    return re.sub(r"[^a-z0-9]", "", words) or "gpu"


@contextmanager
def lease(poll_s: float = 0.2, log=print) -> Iterator[Gpu]:
    """Exclusive use of one visible GPU: a file lock per GPU, with CUDA_VISIBLE_DEVICES set to the leased one.

    Waits while other processes of this project lease all GPUs. Raises :class:`NoDevice` if there is none.
    """
    from filelock import FileLock, Timeout

    gpus = visible()
    if not gpus:
        raise NoDevice("no NVIDIA GPU is visible to this process; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    folder = Path(tempfile.gettempdir()) / "spmm-roofline-gpus"
    folder.mkdir(exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o777)  # all users of the machine need the locks, whatever the umask of the first one
    said = False
    while True:
        for gpu in gpus:
            lock = FileLock(folder / f"{gpu.uuid}.lock", mode=0o666)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            before = os.environ.get("CUDA_VISIBLE_DEVICES")
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu.uuid
            try:
                yield gpu
            finally:
                if before is None:
                    del os.environ["CUDA_VISIBLE_DEVICES"]
                else:
                    os.environ["CUDA_VISIBLE_DEVICES"] = before
                lock.release()
            return
        if not said:
            log(f"waiting for one of {len(gpus)} GPUs, all leased by other jobs")
            said = True
        time.sleep(poll_s)


def describe(device: str, arch: str, read_cubin: Path, copy_cubin: Path, out: Path) -> None:
    """Measure the copy rate and the replay overhead of an idle device; writes the document ``measured_device``."""
    with lease() as gpu:
        import cupy

        from .timing import Clock

        clock = Clock(read_cubin, copy_cubin)
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        clock.warm_up()
        record = {
            "device": device,
            "product": gpu.product,
            "arch": arch,
            "driver": gpu.driver,
            "cuda": runtime_version(),
            "multiprocessors": properties["multiProcessorCount"],
            "l2_bytes": properties["l2CacheSize"],
            "memory_bytes": properties["totalGlobalMem"],
            "max_sm_clock_mhz": _max_sm_clock_mhz(gpu.uuid),
            "copy_gb_per_s": round(max(clock.copy_gb_per_s() for _ in range(5)), 1),
            "replay_overhead_ms": round(clock.replay_overhead_ms(), 6),
            "measured_at": timestamp(),
        }
    import json

    contracts.validate(record, "measured_device", out)
    contracts.write_text(out, json.dumps(record, indent=1) + "\n")


def runtime_version() -> str:
    """Version of the CUDA runtime in use, such as 13.0."""
    import cupy

    number = cupy.cuda.runtime.runtimeGetVersion()
    return f"{number // 1000}.{number // 10 % 100}"


def timestamp() -> str:
    """UTC now, ISO 8601, to the second."""
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sm_clock_mhz(uuid: str) -> int | None:
    """Current clock of the multiprocessors in MHz, or None if the driver does not report it."""
    return _nvml(uuid, lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))


def _max_sm_clock_mhz(uuid: str) -> int:
    return _nvml(uuid, lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)) or 0


def _nvml(uuid: str, ask) -> int | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(ask(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)))
    except Exception:
        return None
