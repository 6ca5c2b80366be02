"""Timing: the interval that ends repeating; on a device, times that the bytes moved explain."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spmm_roofline.kernels import heads
from spmm_roofline.measure import timing
from spmm_roofline.measure.timing import drifted, interval_of_median, settled, timing_of
from spmm_roofline.measure.verify import TOLERANCES, Verdict
from spmm_roofline.measure.worker import timed


def test_the_interval_of_a_constant_is_nothing():
    assert interval_of_median(np.full(40, 0.25)) == (0.25, 0.25)


def test_the_interval_by_hand():
    # 100 samples 1…100: ranks 50 ± 9.8 → values 41 and 61
    assert interval_of_median(np.arange(100, 0, -1.0)) == (41, 61)


def test_the_interval_covers_the_true_median_as_often_as_it_says():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(1000):
        low, high = interval_of_median(rng.exponential(size=60))
        inside += low <= np.log(2) <= high
    assert 0.93 < inside / 1000 < 0.99


def test_the_interval_is_cut_at_the_ends_of_few_samples():
    # Of three samples the ranks 1.5 ± 1.7 would lie outside.
    assert interval_of_median(np.array([3.0, 1.0, 2.0])) == (1, 3)
    assert interval_of_median(np.array([5.0])) == (5, 5)


def narrow(count, width=0.0, each_ms=0.1):
    """``count`` samples whose interval is ``width``."""
    return each_ms * np.sort(np.r_[np.full(count // 2, 1.0), np.full(count - count // 2, 1.0 + width)])


def test_repeating_ends_when_the_median_is_known():
    assert settled(narrow(40), 0, 200, 1000)
    assert not settled(narrow(39), 0, 200, 1000), "too few samples to believe their interval"
    # Half of the samples lie 1 % higher: so does one end of the interval, and the median in the middle.
    assert not settled(narrow(40, 0.0102), 0, 200, 1000)
    assert settled(narrow(40, 0.0098), 0, 200, 1000)
    # Twenty long calls are believed, and repeated as well if their interval is wide.
    assert settled(narrow(20, each_ms=1.0), 0, 200, 1000) and not settled(narrow(20, each_ms=0.99), 0, 200, 1000)
    assert not settled(narrow(20, 0.0102, each_ms=1.0), 0, 200, 1000)


def test_a_batch_of_long_calls_is_shorter():
    assert [timing.batch_of(ms) for ms in (0.0, 0.01, 1.0, 1.1, 2.0, 3.3, 4.0, 1700.0)] == [20, 20, 20, 19, 10, 7, 6, 6]
    # The fewest samples whose range encloses the median in 95 of 100 cases: it misses if all lie on one side.
    assert 2 * 0.5**timing.LEAST_BATCH < 0.05 < 2 * 0.5 ** (timing.LEAST_BATCH - 1)
    assert interval_of_median(np.arange(1.0, 7.0)) == (1, 6)
    # They are believed if they agree.
    assert settled(narrow(6, each_ms=4.0), 0, 200, 1000) and not settled(narrow(6, 0.0102, each_ms=4.0), 0, 200, 1000)


def test_repeating_ends_at_the_caps():
    wide = np.linspace(1, 2, 100)
    assert not settled(wide, 1000, 101, 1000)
    assert settled(wide, 1000, 100, 1000) and settled(wide, 1000.1, 101, 1000)
    assert settled(wide[:1], 1000.1, 101, 1000), "a slow call is not repeated forty times"


@pytest.mark.parametrize(("width", "noisy"), [(0.0, False), (0.046875, False), (0.0625, True)])
def test_a_wide_interval_is_noisy(width, noisy):
    assert timing.Timing(1.0, 0.9, 1.1, 1.0 - width, 1.0, 40).noisy == noisy


def test_a_timing_has_percentiles_of_its_samples():
    found = timing_of(np.arange(1.0, 102.0))
    assert (found.p10_ms, found.median_ms, found.p90_ms, found.samples) == (11, 51, 91, 101)
    assert found.interval == pytest.approx((62 - 41) / 51)


@pytest.mark.parametrize(
    ("now", "off"), [(4000, False), (3801, False), (4199, False), (3799, True), (4201, True), (400, True)]
)
def test_the_canary_is_off_beyond_five_percent(now, off):
    assert drifted(now, 4000) == off


@pytest.mark.parametrize(("rates", "off"), [([4000], False), ([3400] * 9 + [3900], False), ([3400] * 10, True)])
def test_a_canary_counts_only_if_it_stays_off(rates, off):
    clock, rates = object.__new__(timing.Clock), iter(rates)
    clock.copy_gb_per_s = lambda: next(rates)
    assert clock.is_off(4000) == off and next(rates, None) is None


def test_times_and_rates_are_those_of_one_multiplication():
    found = timed(timing_of(np.full(40, 2.0)), Verdict(1e-4, 1e-3, ""), n=8, nnz=1000, slots=1500, steps=4)
    assert found["time_ms"] == found["time_p10_ms"] == found["time_p90_ms"] == 0.5 and found["samples"] == 40
    # 2 · 1000 · 8 operations in half a millisecond
    assert found["useful_gflops"] == pytest.approx(16_000 / 0.5e-3 / 1e9)
    assert found["padded_gflops"] == pytest.approx(1.5 * found["useful_gflops"])
    assert (found["status"], found["rel_error"], found["max_row_error"]) == ("ok", 1e-4, 1e-3)


def test_every_kernel_has_a_tolerance():
    wanted = {(head.dtype_of_sums, head.dtype["c"]) for head in heads().values() if head.format != "none"}
    assert wanted <= TOLERANCES.keys()
    assert all(frobenius <= row < 0.1 for frobenius, row in TOLERANCES.values())


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    from spmm_roofline.kernels.compile import compile_kernel
    from spmm_roofline.measure.device import visible

    folder, arch = tmp_path_factory.mktemp("clock"), visible()[0].arch
    cubins = [folder / f"{name}.cubin" for name in ("dram_read", "dram_copy")]
    for cubin in cubins:
        compile_kernel(heads()[cubin.stem], {arch: (cubin, cubin.with_suffix(".json"))})
    return cubins


@pytest.fixture(scope="module")
def clock(cubins):
    from spmm_roofline.measure.timing import Clock

    return Clock(*cubins)


@pytest.mark.gpu
def test_a_clock_finds_its_kernels_from_any_folder(tmp_path, monkeypatch):
    from spmm_roofline.measure.timing import Clock

    monkeypatch.chdir(tmp_path)
    assert Clock().copy_gb_per_s() > 0


def test_a_clock_asks_for_its_kernels_from_any_folder(tmp_path, monkeypatch):
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            Stream=lambda **_: None,
            Event=lambda: None,
            Device=lambda: SimpleNamespace(attributes={"L2CacheSize": 1}, synchronize=lambda: None),
        ),
        zeros=lambda size, dtype: np.zeros(1, dtype),
        empty=lambda size, dtype: np.zeros(1, dtype),
        uint8=np.uint8,
        uint32=np.uint32,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(timing, "machine_code", lambda head: Path(f"{head.name}.cubin"))
    monkeypatch.setattr(timing, "prepare", lambda head, cubin, *_: (head.name, str(cubin)))
    monkeypatch.chdir(tmp_path)
    clock = timing.Clock()
    assert (clock._flush, clock._copy) == (("dram_read", "dram_read.cubin"), ("dram_copy", "dram_copy.cubin"))
    assert timing.Clock(Path("own"), Path("other"))._copy == ("dram_copy", "other")


class Device:
    """A stream on which every replay takes ``call_ms`` by its own clock, and events that read that clock."""

    def __init__(self, call_ms):
        self.now_ms, self.call_ms, self.calls = 0.0, call_ms, 0

    def launch(self, stream):
        self.now_ms, self.calls = self.now_ms + self.call_ms, self.calls + 1

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event:
    def record(self, stream):
        self.at_ms = stream.now_ms


@pytest.mark.parametrize(
    ("call_ms", "warm_ups", "samples"), [(0.01, 3, 40), (0.9, 3, 40), (1.0, 3, 20), (5.0, 3, 6), (1700.0, 1, 6)]
)
def test_long_calls_are_repeated_as_often_as_they_need(monkeypatch, call_ms, warm_ups, samples):
    cuda = SimpleNamespace(get_elapsed_time=lambda before, after: after.at_ms - before.at_ms)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    clock, device = object.__new__(timing.Clock), Device(call_ms)
    clock.stream, clock._events = device, [(Event(), Event()) for _ in range(timing.BATCH)]
    found = clock.time_replays(device, cold=False, repeat_cap=200, time_cap_ms=1e9, hold=False)
    assert (found.samples, device.calls) == (samples, warm_ups + samples)
    assert found.median_ms == pytest.approx(call_ms)


@pytest.mark.gpu
def test_the_copy_moves_what_it_says_and_a_replay_is_short(clock):
    clock.warm_up()
    assert 100 < clock.copy_gb_per_s() < 10_000
    assert 0 < clock.replay_overhead_ms() < 0.05


@pytest.mark.gpu
def test_cold_calls_find_nothing_in_l2(clock, cubins):
    import cupy

    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import Dense

    # A third of the cache: what stays in it is read much faster than what does not.
    held = cupy.zeros(cupy.cuda.Device().attributes["L2CacheSize"] // 3, dtype=cupy.uint8)
    sink = Dense(cupy.zeros(1, dtype=cupy.uint32), 1, 1, False, "none")
    call = prepare(heads()["dram_read"], cubins[0], None, Dense(held, 1, held.size, False, "none"), sink)
    warm, cold = (clock.time(call, cold, 200, 1e3).median_ms for cold in (False, True))
    assert cold > 1.1 * warm, f"cold {cold} ms, warm {warm} ms"


@pytest.mark.gpu
def test_a_host_that_is_slow_to_submit_is_in_no_warm_time(clock, monkeypatch):
    class Slow:
        def __init__(self, graph):
            self.graph = graph

        def launch(self, stream):
            time.sleep(2e-4)
            self.graph.launch(stream)

    captured = clock._capture
    quick = clock.replay_overhead_ms()
    monkeypatch.setattr(clock, "_capture", lambda call: Slow(captured(call)))
    assert clock.replay_overhead_ms() < quick + 1e-3
