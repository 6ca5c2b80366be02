"""The GPU: its name, its lease, and what is said where there is none."""

import os
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path

import pytest

from spmm_roofline.measure import device
from spmm_roofline.measure.device import Gpu, NoDevice, lease, short_name

DEVICES = sorted(Path("config/devices").glob("*.yaml"))


@pytest.mark.parametrize(
    ("capability", "arch"), [((7, 5), "sm_75"), ((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a")]
)
def test_the_target_of_the_compiler(capability, arch):
    assert Gpu("GPU-1", "x", capability, "1").arch == arch


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Quadro", "quadro"),
        ("GPU", "gpu"),
    ],
)
def test_a_device_has_a_short_name_with_and_without_a_datasheet(product, name):
    assert short_name(product, DEVICES) == name


def test_without_a_driver_no_gpu_is_visible(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert device.visible() == []


def test_without_a_gpu_a_lease_says_what_to_check(monkeypatch):
    monkeypatch.setattr(device, "visible", lambda: [])
    with pytest.raises(NoDevice, match="check nvidia-smi and CUDA_VISIBLE_DEVICES"), lease():
        pass


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(device.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus = [Gpu(f"GPU-{i}", "NVIDIA H200", (9, 0), "1") for i in range(2)]
    monkeypatch.setattr(device, "visible", lambda: gpus)
    return gpus


def test_two_leases_hold_two_gpus_and_put_the_environment_back(two_gpus):
    with lease() as first:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == first.uuid
        with lease() as second:
            assert {first, second} == set(two_gpus)
            assert os.environ["CUDA_VISIBLE_DEVICES"] == second.uuid
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_third_lease_waits_and_says_so(two_gpus):
    said, got = [], threading.Event()

    def third():
        with lease(poll_s=0.01, log=said.append):
            got.set()

    with lease(), lease():
        waiting = threading.Thread(target=third)
        waiting.start()
        assert not got.wait(0.2)
    assert got.wait(5)
    waiting.join()
    assert said == ["waiting for one of 2 GPUs, all leased by other jobs"]


def test_other_users_may_lease_whatever_the_umask(two_gpus, tmp_path):
    before = os.umask(0o077)
    try:
        with lease():
            locks = tmp_path / "spmm-roofline-gpus"
            assert locks.stat().st_mode & 0o777 == 0o777
            assert (locks / "GPU-0.lock").stat().st_mode & 0o666 == 0o666
    finally:
        os.umask(before)


def test_a_lease_binds_other_processes(two_gpus, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "visible", lambda: two_gpus[:1])
    script = textwrap.dedent(
        """
        import sys
        from filelock import FileLock, Timeout
        try:
            FileLock(sys.argv[1]).acquire(timeout=0)
        except Timeout:
            sys.exit(7)
        """
    )
    with lease():
        lock = str(tmp_path / "spmm-roofline-gpus" / "GPU-0.lock")
        assert subprocess.run([sys.executable, "-c", script, lock]).returncode == 7


@pytest.mark.parametrize("name", ["runtime.CUDARuntimeError", "driver.CUDADriverError"])
def test_a_gpu_on_which_cuda_does_not_work_is_no_device(two_gpus, tmp_path, monkeypatch, name):
    # As in CuPy, where `driver` is an attribute of `cupy.cuda` and no module that could be imported.
    errors = {each: type(each, (RuntimeError,), {}) for each in ("CUDARuntimeError", "CUDADriverError")}
    cupy, timing = types.ModuleType("cupy"), types.ModuleType("timing")
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(**errors), driver=types.SimpleNamespace(**errors))
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    def clock(*_):
        raise errors[name.partition(".")[2]]("CUDA driver version is insufficient for CUDA runtime version")

    timing.Clock = clock
    monkeypatch.setitem(sys.modules, "spmm_roofline.measure.timing", timing)
    with pytest.raises(NoDevice, match=r"CUDA does not work on NVIDIA H200 with driver 1: .* insufficient .* cuda13"):
        device.describe("h200", "sm_90a", "read", "copy", tmp_path / "device.json")
    assert not (tmp_path / "device.json").exists()


@pytest.fixture
def nvml(monkeypatch):
    """A driver with three GPUs."""

    class Nvml:
        NVMLError = RuntimeError

        def __getattr__(self, name):
            answers = {
                "nvmlDeviceGetCount": lambda: 3,
                "nvmlDeviceGetHandleByIndex": lambda i: i,
                "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
                "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
                "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
                "nvmlSystemGetDriverVersion": lambda: "580",
            }
            return answers.get(name, lambda *_: None)

    monkeypatch.setitem(sys.modules, "pynvml", Nvml())


@pytest.mark.parametrize(
    ("given", "uuids"),
    [
        (None, ["GPU-0", "GPU-1", "GPU-2"]),
        ("2,0", ["GPU-2", "GPU-0"]),
        ("GPU-1", ["GPU-1"]),
        ("", []),
        ("7", []),
    ],
)
def test_ids_given_by_a_scheduler_are_kept(nvml, monkeypatch, given, uuids):
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert [gpu.uuid for gpu in device.visible()] == uuids


class Nvml:
    """A driver that answers as ``answers`` says, and refuses what it does not name."""

    NVML_CLOCK_SM = 1
    nvmlClocksEventReasonSwThermalSlowdown = 0x20
    nvmlClocksThrottleReasonHwSlowdown = 0x8
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80
    nvmlClocksEventReasonSyncBoost = 0x10

    class NVMLError(Exception):
        pass

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def ask(*arguments):
            self.asked.append((name, *arguments[1:]))
            if name in ("nvmlInit", "nvmlDeviceGetHandleByUUID"):
                return "handle"
            if name not in self.answers:
                raise self.NVMLError("Insufficient Permissions")
            return self.answers[name]

        return ask


@pytest.fixture
def driver_that(monkeypatch):
    def install(**answers):
        made = Nvml(**answers)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    return install


def test_the_power_cap_is_no_disturbance_and_heat_is(driver_that):
    power_cap, idle = 0x4, 0x1
    driver_that(nvmlDeviceGetCurrentClocksEventReasons=power_cap | idle)
    assert device.Monitor("GPU-0").slowed_by() == []
    driver_that(nvmlDeviceGetCurrentClocksEventReasons=power_cap | 0x20 | 0x80)
    assert device.Monitor("GPU-0").slowed_by() == ["too hot", "power brake"]


def test_a_driver_that_does_not_say_is_no_error(driver_that, monkeypatch):
    driver_that()
    silent = device.Monitor("GPU-0")
    assert silent.clock_mhz() is silent.processes() is silent.energy_mj() is silent.busy_fraction() is None
    assert silent.slowed_by() == []
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert device.Monitor("GPU-0").clock_mhz() is None


def test_clocks_are_locked_and_let_go_again_whatever_happens(driver_that):
    driver = driver_that(nvmlDeviceSetGpuLockedClocks=None, nvmlDeviceResetGpuLockedClocks=None)
    with pytest.raises(ZeroDivisionError), device.locked_clocks("GPU-0", 1500):
        assert ("nvmlDeviceSetGpuLockedClocks", 1500, 1500) in driver.asked
        raise ZeroDivisionError
    assert driver.asked[-1] == ("nvmlDeviceResetGpuLockedClocks",)


def test_clocks_that_may_not_be_locked_say_what_to_do(driver_that):
    driver_that()
    said = "sudo nvidia-smi --lock-gpu-clocks 1500,1500"
    with pytest.raises(device.NoDevice, match=said), device.locked_clocks("GPU-0", 1500):
        pass


def test_clocks_are_left_alone_by_default(driver_that):
    driver = driver_that()
    with device.locked_clocks("GPU-0", None):
        pass
    assert driver.asked == []
