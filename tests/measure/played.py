"""A device for tests of jobs whose workers are played: its record, and the lease of it."""

import json
from contextlib import contextmanager

from spmm_roofline.measure import device


def device_record(folder, **changes):
    """The path of its record in ``folder``."""
    record = {
        "device": "h200", "product": "NVIDIA H200", "arch": "sm_90a", "driver": "580", "cuda": "13.0",
        "multiprocessors": 132, "l2_bytes": 1, "memory_bytes": 1, "copy_gb_per_s": 4000.0, "replay_overhead_ms": 0.004,
        "measured_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    (folder / "device.json").write_text(json.dumps(record | changes))
    return str(folder / "device.json")


def lease(monkeypatch):
    """Whoever asks for a GPU gets this one."""

    @contextmanager
    def leased(**_):
        yield device.Gpu("GPU-0", "NVIDIA H200", (9, 0), "580")

    monkeypatch.setattr(device, "lease", leased)
