"""What a worker tells of its cases, on the emulated device: products are real, times are made up."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from spmm_roofline import matrices
from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import heads
from spmm_roofline.measure import checker, timing, worker
from tests import emulation

KERNELS = ("split_fma", "dealt_rows_fma", "split_f16")
N = (8, 24)


class Clock:
    """A clock that calls once for every time it is asked for.

    ``off`` says which canaries are off, ``replays`` what empty graphs take; the last one lasts.
    """

    def __init__(self, cupy):
        self.stream, self.off, self.canaries, self.replays = cupy.cuda.get_current_stream(), [], 0, [0.002]

    def warm_up(self):
        pass

    def replay_overhead_ms(self, cold, repeats):
        return self.replays.pop(0) if len(self.replays) > 1 else self.replays[0]

    def is_off(self, recorded):
        self.canaries += 1
        return self.off.pop(0) if self.off else False

    def time(self, call, cold, repeat_cap, time_cap_ms, after_capture, watch):
        after_capture()
        call(self.stream)
        watch()
        return timing.timing_of(np.full(40, 0.01))


@pytest.fixture
def told(monkeypatch):
    """The events of a worker, as a list that grows."""
    events = []
    monkeypatch.setattr(worker, "tell", lambda **event: events.append(json.loads(json.dumps(event))))
    return events


@pytest.fixture
def working(tmp_path, monkeypatch):
    """A worker with three kernels, and what it is asked to measure: one matrix, two widths."""
    spec = {"generator": "uniform", "name": "u", "rows": 90, "columns": 70, "nnz_per_row": 5}
    (spec,) = matrices.expand({"name": "s", "matrices": {"generated": [spec]}}, {})
    matrices.build(spec, {}, f"{tmp_path}/u.npz", f"{tmp_path}/u.json")
    with emulation.emulated() as cupy:
        monitor = SimpleNamespace(clock_mhz=lambda: 1980, slowed_by=list, processes=lambda: 1, energy_mj=lambda: None)
        clock = Clock(cupy)
        monkeypatch.setattr(worker, "Clock", lambda *cubins: clock)
        monkeypatch.setattr(worker, "Monitor", lambda uuid: monitor)
        monkeypatch.setattr(worker, "reduce_without_cub", lambda: None)
        # CTAs that fill a device find nothing to do in these matrices, and take the emulation most of its time.
        for name in ("CTAS", "CTAS_OF_ARRAY"):
            monkeypatch.setattr(checker, name, 4)
        monkeypatch.setattr(cupy.cuda.Device, "mem_info", (1 << 36, 1 << 36), raising=False)
        known = heads()
        packers = {name: FORMATS[known[name].format].packer for name in KERNELS}
        request = {
            "kernels": [
                {
                    "kernel": name,
                    "kernels": "kernels",
                    "external": [],
                    "cubin": str(emulation.host_code(known[name])),
                    "packer_cubin": str(emulation.host_code(known[packers[name]])) if packers[name] else None,
                    "l2": "warm",
                }
                for name in KERNELS
            ],
            "read_cubin": "",
            "copy_cubin": "",
            "check_cubin": str(emulation.host_code(known["check"])),
            "started": time.monotonic(),
            "options": {"repeat_cap": 60, "time_cap_ms": 200},
            "uuid": "GPU-0",
            "copy_gb_per_s": 3000.0,
        }
        cases = [[index, n] for index in range(len(KERNELS)) for n in N]
        yield worker.Worker(request), {"matrix": "u", "npz": f"{tmp_path}/u.npz", "cases": cases}


def rows(told):
    return {(event["row"]["kernel"], event["row"]["n"]): event["row"] for event in told if "row" in event}


def test_every_case_gives_a_verified_row(working, told):
    measuring, matrix = working
    assert measuring.measure(matrix)
    found = rows(told)
    assert set(found) == {(index, n) for index in range(len(KERNELS)) for n in N}
    for row in found.values():
        assert row["status"] == "ok", row
        assert row["time_ms"] == 0.01 and 0 < row["rel_error"] < 1e-3 and row["noisy"] is False


def test_a_host_is_busy_by_what_is_usual_on_it(working, told, monkeypatch):
    measuring, matrix = working
    monkeypatch.setattr(worker, "PAUSE_S", 0)
    # A host of the slower kind that is busy for a moment at first, then at rest.
    measuring.clock.replays = [0.009, 0.0045]
    assert measuring.measure(matrix)
    assert {(row["disturbed"], row["noisy"], row["replay_ms"]) for row in rows(told).values()} == {("", False, 0.0045)}
    told.clear()
    measuring.clock.replays = [0.009]
    assert measuring.measure(matrix)
    for row in rows(told).values():
        assert row["disturbed"] == "the host submits 2.0 times slower than usual" and row["noisy"]


def test_a_host_that_was_busy_at_first_becomes_a_measure_of_its_own(working, told, monkeypatch):
    measuring, matrix = working
    monkeypatch.setattr(worker, "PAUSE_S", 0)
    for replay_ms, busy in ((0.004, False), (0.002, False), (0.004, True)):
        told.clear()
        measuring.clock.replays = [replay_ms]
        assert measuring.measure(matrix)
        assert all(bool(row["disturbed"]) == busy for row in rows(told).values())


def test_an_output_that_changes_after_it_was_verified_is_checked_anew(working, told, monkeypatch):
    measuring, matrix = working

    def calls_nothing(call, cold, repeat_cap, time_cap_ms, after_capture, watch):
        after_capture()  # poisons C
        return timing.timing_of(np.full(40, 0.01))

    monkeypatch.setattr(measuring.clock, "time", calls_nothing)
    assert measuring.measure(matrix)
    assert len(rows(told)) == len(matrix["cases"])
    for row in rows(told).values():
        assert row["status"] == "wrong" and "after 40 calls: " in row["message"] and "hold NaN" in row["message"]


@pytest.mark.parametrize("every", [0, 3600])
def test_a_canary_tells_of_all_rows_since_the_last_one(working, told, monkeypatch, every):
    measuring, matrix = working
    monkeypatch.setattr(worker, "CANARY_EVERY_S", every)
    measuring.clock.off = [False, False, True] if every == 0 else [False, True]
    assert measuring.measure(matrix)
    said = [event["off"] if "off" in event else (event["row"]["kernel"], event["row"]["n"]) for event in told
            if event.keys() & {"off", "row"}]  # fmt: skip
    if every == 0:  # before the matrix and after each of three formats
        assert said == [False, (0, 8), (0, 24), False, (1, 8), (1, 24), True, (2, 8), (2, 24), False]
        assert all(rows(told)[2, n]["noisy"] for n in N) and not rows(told)[0, 8]["noisy"]
    else:  # before the matrix and after it
        assert said[0] is False and said[-1] is True and sorted(said[1:-1]) == sorted(map(tuple, matrix["cases"]))


def test_the_answer_of_a_canary_holds_for_a_while(working, told, monkeypatch):
    measuring, matrix = working
    monkeypatch.setattr(worker, "CANARY_EVERY_S", 3600)
    measuring.clock.off = [False, True]
    for _ in range(2):
        told.clear()
        assert measuring.measure(matrix)
    # The last one after the first matrix serves as the first one of the second matrix.
    assert measuring.clock.canaries == 3 and all(row["noisy"] for row in rows(told).values())
