"""The GPU: detection, exclusive lease, and its rates when nothing else runs."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def short_name(product: str, datasheets: Iterable[str | Path]) -> str:
    """Name of a device in folders and rows: from the document ``device`` that matches, else from the product name."""
    for path in datasheets:
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
    """Measure the copy rate and the replay overhead of an idle device; writes the document ``measured_device``.

    Raises :class:`NoDevice` if CUDA does not work on it.
    """
    with lease() as gpu, _working(gpu):
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


@contextmanager
def _working(gpu: Gpu) -> Iterator[None]:
    """Turn an error of CUDA into :class:`NoDevice`: the driver names a GPU before it has to work."""
    import cupy

    try:
        yield
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise NoDevice(
            f"CUDA does not work on {gpu.product} with driver {gpu.driver}: {error}; see in nvidia-smi whether the "
            "driver is new enough for the installed extra, cuda12 or cuda13, and whether another process has the GPU"
        ) from error


def runtime_version() -> str:
    """Version of the CUDA runtime in use, such as 13.0."""
    import cupy

    number = cupy.cuda.runtime.runtimeGetVersion()
    return f"{number // 1000}.{number // 10 % 100}"


def timestamp() -> str:
    """UTC now, ISO 8601, to the second."""
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _max_sm_clock_mhz(uuid: str) -> int:
    return Monitor(uuid).max_clock_mhz() or 0


class Monitor:
    """What the driver (NVML) says of a GPU while it works; None or nothing where it does not say."""

    def __init__(self, uuid: str) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml: Any = pynvml
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except Exception:
            self._nvml = self._handle = None

    def clock_mhz(self) -> int | None:
        """Clock of the multiprocessors now."""
        return self._ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")

    def max_clock_mhz(self) -> int | None:
        """Highest clock of the multiprocessors."""
        return self._ask("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM")

    def slowed_by(self) -> list[str]:
        """Why the driver holds the clocks down now, if the reason lies outside the work that runs.

        The power cap is not among them: heavy kernels reach it by themselves, on every run, and their clocks tell.
        """
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return [words for name, words in SLOWED_BY.items() if reasons & getattr(self._nvml, name)]

    def processes(self) -> int | None:
        """Processes that have a context on the GPU."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if found is None else len(found)

    def busy_fraction(self) -> float | None:
        """Fraction of the last sampling period (up to a second) in which a kernel ran."""
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        return None if rates is None else rates.gpu / 100

    def energy_mj(self) -> float | None:
        """Energy since the driver was loaded, mJ."""
        return self._ask("nvmlDeviceGetTotalEnergyConsumption")

    def _ask(self, function: str, *constants: str) -> Any:
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *(getattr(self._nvml, name) for name in constants))
        except Exception:  # another driver, or a GPU that does not count this
            return None


#: NVML's reasons for lower clocks → words.
SLOWED_BY = {
    "nvmlClocksEventReasonSwThermalSlowdown": "too hot",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "too hot for the hardware",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
    "nvmlClocksEventReasonSyncBoost": "clocks tied to another GPU's",
}


@contextmanager
def locked_clocks(uuid: str, mhz: int | None) -> Iterator[None]:
    """Hold the clock of the multiprocessors at ``mhz``, and let it go again; None leaves the clocks alone.

    Raises :class:`NoDevice` if the driver does not let this user do it.
    """
    if mhz is None:
        yield
        return
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    try:
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, mhz, mhz)
    except pynvml.NVMLError as error:
        raise NoDevice(
            f"the driver does not lock the clocks at {mhz} MHz ({error}); it lets only administrators do it: run "
            f"`sudo nvidia-smi --lock-gpu-clocks {mhz},{mhz}` before the run, and remove measure.lock_clocks_mhz"
        ) from error
    try:
        yield
    finally:
        pynvml.nvmlDeviceResetGpuLockedClocks(handle)
