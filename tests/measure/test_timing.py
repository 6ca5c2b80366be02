"""Timing: the interval that ends repeating; on a device, times that the bytes moved explain."""

import numpy as np
import pytest

from spmm_roofline.kernels import heads
from spmm_roofline.measure.timing import median_interval
from spmm_roofline.measure.verify import TOLERANCES


def test_the_interval_of_a_constant_is_nothing():
    assert median_interval(np.full(40, 0.25)) == 0.0


def test_the_interval_by_hand():
    # 100 samples 1…100: ranks 50 ± 9.8 → values 41 and 61, median 50.5
    assert median_interval(np.arange(100, 0, -1.0)) == pytest.approx((61 - 41) / 50.5)


def test_the_interval_covers_the_true_median_as_often_as_it_says():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(1000):
        samples = np.sort(rng.exponential(size=60))
        half = median_interval(samples) * np.median(samples)
        low = samples[int(60 / 2 - 0.98 * 60**0.5)]
        inside += low <= np.log(2) <= low + half
    assert 0.93 < inside / 1000 < 0.99


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
