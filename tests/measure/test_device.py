"""The GPU: its name, its lease, and what is said where there is none."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from spmm_roofline.measure import device
from spmm_roofline.measure.device import Gpu, NoDevice, lease, short_name

DEVICES = Path("config/devices")


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
