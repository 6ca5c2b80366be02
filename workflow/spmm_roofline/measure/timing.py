"""Timing: one call = one replay of a CUDA graph between two events.

Without graphs a small case measures Python and the driver (a launch through CuPy between two events costs 13 µs on an
H200 host, a replayed graph 4 µs). Calls repeat until the confidence interval of their median is narrow or the cap is
reached.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels import registry
from ..kernels.cubins import machine_code
from ..kernels.launch import Call, prepare
from ..kernels.operands import Dense
from ..paths import KERNELS

#: Relative width of the 95 % interval of the median at which repeating ends.
INTERVAL_GOAL = 0.01
#: Width beyond which a row that reached the cap is marked noisy.
INTERVAL_NOISY = 0.05
#: Deviation of the canary copy from the device's record beyond which a row is marked noisy.
CANARY_NOISY = 0.05
#: Canaries, each of 20 copies, before one that is off counts. After 20 GB were freed, an H100 copied at 85 % of its
#: rate for 25 ms, three canaries, as if the driver cleared the memory meanwhile.
CANARIES = 10

#: Least time over which energy is counted; the driver's counter advances every 20 to 100 ms.
ENERGY_MS = 2000.0

COPY_BYTES = 512 << 20
#: Samples before their interval is believed; a batch is enough of them if its calls took this long.
LEAST_SAMPLES, LEAST_MS = 40, 20.0
#: Calls that are submitted together, and the fewest of them: six samples enclose the median with 97 %, five with 94.
BATCH, LEAST_BATCH = 20, 6
#: Calls before the first timed one; a single one if it takes longer than LEAST_MS.
WARM_UPS = 3


@dataclass(frozen=True)
class Timing:
    """Times of repeated calls, ms."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    low_ms: float
    """Lower end of the 95 % confidence interval of the median."""
    high_ms: float
    samples: int

    @property
    def interval(self) -> float:
        """Width of that interval over the median."""
        return (self.high_ms - self.low_ms) / self.median_ms

    @property
    def noisy(self) -> bool:
        """Whether the interval of the median stayed so wide that the median says little."""
        return self.interval > INTERVAL_NOISY


def timing_of(samples: np.ndarray) -> Timing:
    """Median, 10th and 90th percentile and interval of samples in ms."""
    p10, median, p90 = np.percentile(samples, [10, 50, 90])
    return Timing(float(median), float(p10), float(p90), *interval_of_median(samples), len(samples))


def settled(samples: np.ndarray, spent_ms: float, repeat_cap: float, time_cap_ms: float) -> bool:
    """Whether to stop repeating ``samples`` in ms: their interval is believed and narrow, or a cap is reached."""
    if len(samples) >= repeat_cap or spent_ms > time_cap_ms:
        return True
    if len(samples) < LEAST_SAMPLES and samples.sum() < LEAST_MS:
        return False
    low, high = interval_of_median(samples)
    return (high - low) / float(np.median(samples)) < INTERVAL_GOAL


def batch_of(call_ms: float) -> int:
    """Number of calls of a batch: of long ones no more than :data:`LEAST_MS` ask for."""
    return min(max(math.ceil(LEAST_MS / call_ms), LEAST_BATCH), BATCH) if call_ms > 0 else BATCH


def drifted(copy_gb_per_s: float, recorded_gb_per_s: float) -> bool:
    """Whether the canary copy is off the device's record, so that rows of this time are noisy."""
    return abs(copy_gb_per_s / recorded_gb_per_s - 1) > CANARY_NOISY


def interval_of_median(samples: np.ndarray) -> tuple[float, float]:
    """The 95 % confidence interval of the median, in the unit of the samples, from order statistics.

    The number of samples below the median is binomial(n, 1/2), so ranks n/2 ± 0.98 √n enclose it (normal
    approximation), whatever the distribution of the times.
    """
    n = len(samples)
    ordered = np.sort(samples)
    half = 0.98 * math.sqrt(n)
    low = max(math.floor(n / 2 - half), 0)
    high = min(math.ceil(n / 2 + half), n - 1)
    return float(ordered[low]), float(ordered[high])


class Clock:
    """Times calls on the current device; owns the buffers that flush L2 and that the canary copies.

    ``read_cubin`` and ``copy_cubin`` are the kernels ``dram_read`` and ``dram_copy`` compiled for the device; by
    default they are found, or compiled on first use.
    """

    def __init__(self, read_cubin: Path | None = None, copy_cubin: Path | None = None) -> None:
        import cupy

        read, copy = (registry.head(name, KERNELS) for name in ("dram_read", "dram_copy"))
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._source = cupy.zeros(COPY_BYTES, dtype=cupy.uint8)
        self._target = cupy.empty(COPY_BYTES, dtype=cupy.uint8)
        self._sink = cupy.zeros(1, dtype=cupy.uint32)
        source, target = (Dense(x, 1, COPY_BYTES, False, "none") for x in (self._source, self._target))
        l2_bytes = max(cupy.cuda.Device().attributes["L2CacheSize"], 16 << 20)
        flushed = Dense(self._source[: min(COPY_BYTES, 4 * l2_bytes)], 1, COPY_BYTES, False, "none")
        sink = Dense(self._sink, 1, 1, False, "none")
        self._flush = prepare(read, read_cubin or machine_code(read), None, flushed, sink)
        self._copy = prepare(copy, copy_cubin or machine_code(copy), None, source, target)
        self._events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(BATCH)]
        cupy.cuda.Device().synchronize()

    def time(
        self,
        call: Call,
        cold: bool,
        repeat_cap: float,
        time_cap_ms: float,
        after_capture: Callable[[], None] | None = None,
        watch: Callable[[], None] | None = None,
    ) -> Timing:
        """Median, 10th and 90th percentile of the time of ``call``.

        ``cold``: L2 is flushed before every call by reading (not writing: dirty lines would be written back inside
        the timed call) four times its size. Otherwise calls follow each other and find L2 as the previous call left it.
        ``after_capture`` runs between the capture of the call and its first replay, ``watch`` while the device works
        off each batch of calls.
        """
        import cupy

        graph = self._capture(call)
        if after_capture:
            after_capture()
            cupy.cuda.Device().synchronize()
        return self.time_replays(graph, cold, repeat_cap, time_cap_ms, watch)

    def time_replays(
        self,
        graph: Any,
        cold: bool,
        repeat_cap: float,
        time_cap_ms: float,
        watch: Callable[[], None] | None = None,
        hold: bool = True,
    ) -> Timing:
        """The same for what is captured already: ``graph.launch(stream)`` enqueues it on :attr:`stream`.

        ``hold`` must be false for a call that waits for the device: the stream is not held back for it, and its time
        includes the host.
        """
        import cupy

        before, after = self._events[0]
        for _ in range(WARM_UPS):
            before.record(self.stream)
            graph.launch(self.stream)
            after.record(self.stream)
            self.stream.synchronize()
            call_ms = cupy.cuda.get_elapsed_time(before, after)
            if call_ms > LEAST_MS:
                break
        events = self._events[: batch_of(call_ms)]
        samples = np.empty(0)
        start = time.perf_counter()
        while True:
            with self.stream, self._held() if hold and not cold else nullcontext():
                for before, after in events:
                    if cold:
                        self._flush(self.stream)
                    before.record(self.stream)
                    graph.launch(self.stream)
                    after.record(self.stream)
            if watch:
                watch()
            self.stream.synchronize()
            times = [cupy.cuda.get_elapsed_time(before, after) for before, after in events]
            samples = np.concatenate([samples, times])
            if settled(samples, (time.perf_counter() - start) * 1e3, repeat_cap, time_cap_ms):
                return timing_of(samples)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the stream back while the host submits a batch, so that no time includes a host that is slow to submit.

        A flush of L2 before each call does the same.
        """
        gate = threading.Event()
        self.stream.launch_host_func(threading.Event.wait, gate)
        try:
            yield
        finally:
            gate.set()

    def energy_mj(self, call: Call, counter_mj: Callable[[], float]) -> float:
        """Energy of one call in mJ, by a ``counter_mj`` of the driver, over at least :data:`ENERGY_MS` of calls.

        The calls follow each other without a break, so L2 is warm, and the device's idle power counts.
        """
        graph = self._capture(call)
        # Launches that are queued ahead keep the device busy while the host looks at the clock.
        done, calls, least = 0, 1, ENERGY_MS / 1e3
        start, before = time.perf_counter(), counter_mj()
        while (spent := time.perf_counter() - start) < least:
            for _ in range(calls):
                graph.launch(self.stream)
            self.stream.synchronize()
            done += calls
            calls = min(max(1, int(calls * 0.2 / max((time.perf_counter() - start - spent), 1e-3))), 20_000)
        return (counter_mj() - before) / done

    def copy_gb_per_s(self) -> float:
        """Bandwidth of a device-to-device copy now, bytes read plus bytes written, GB/s (10⁹ bytes)."""
        timing = self.time(self._copy, cold=False, repeat_cap=BATCH, time_cap_ms=0)
        return 2 * COPY_BYTES / timing.median_ms / 1e6

    def is_off(self, recorded_gb_per_s: float) -> bool:
        """Whether the canary copy is off the device's record, and stays so for :data:`CANARIES` of them."""
        return all(drifted(self.copy_gb_per_s(), recorded_gb_per_s) for _ in range(CANARIES))

    def replay_overhead_ms(self, cold: bool = False, repeat_cap: float = 200) -> float:
        """Time between the two events around a graph that clears four bytes: what every time includes."""
        clear = Call(lambda stream: self._sink.data.memset_async(0, 4, stream))
        return self.time(clear, cold, repeat_cap, time_cap_ms=1e3).median_ms

    def warm_up(self) -> None:
        """Keep the device busy until its clocks have risen."""
        for _ in range(CANARIES):
            self.copy_gb_per_s()

    def _capture(self, call: Call) -> Any:
        self.stream.begin_capture()
        try:
            with self.stream:
                call(self.stream)
        finally:
            graph = self.stream.end_capture()
        return graph
