"""Bounds: the equations of Zhang et al. with the numbers that the paper prints, their extension to SpMM, the table."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import bounds, roofline
from tests.analysis import synthetic

#: Table 1 of the paper: bandwidth in GB/s, FP64 peaks of CUDA cores and of tensor cores in GFLOP/s.
A100 = (1940, 9700, 19_500)
GH200 = (4000, 34_000, 67_000)

#: The balance that sections 3 and 4 call GH200's. Table 1 gives 34.0 / 4.00 = 8.5 FLOP/B for it, so the text
#: contradicts its own table; 9.99 is the balance of an H100, whose datasheet has 33.5 TFLOP/s and 3.35 TB/s (10.0).
PRINTED_GH200_BALANCE = 9.99


def balance(device):
    return roofline.machine_balance(device[1], device[0])


# --- section 2 --------------------------------------------------------------------------------------------------------


def test_equation_1_machine_balance():
    assert balance(A100) == pytest.approx(5.0)
    assert balance(GH200) == pytest.approx(8.5)
    assert balance(GH200) != pytest.approx(PRINTED_GH200_BALANCE, rel=0.1)
    assert roofline.machine_balance(33_500, 3350) == pytest.approx(PRINTED_GH200_BALANCE, rel=2e-3)


def test_equation_2_intensity():
    assert bounds.intensity(10, 4) == 2.5
    assert bounds.intensity(0, 4) == 0


def test_equation_3_attainable():
    # At the balance both limits meet; below it the bandwidth decides.
    assert roofline.attainable_gflops(balance(A100), A100[1], A100[0]) == pytest.approx(9700)
    assert roofline.attainable_gflops(0.25, A100[1], A100[0]) == pytest.approx(485)
    assert roofline.attainable_gflops(100, A100[1], A100[0]) == 9700


@pytest.mark.parametrize(("intensity", "limit"), [(4.99, "memory"), (5.0, "memory"), (5.01, "compute")])
def test_equation_4_what_limits_a_kernel(intensity, limit):
    assert bounds.bound(intensity, 5.0) == limit


# --- section 3 --------------------------------------------------------------------------------------------------------


def test_equation_5_scale():
    assert bounds.scale(3.0, np.array([1.0, -2.0])).tolist() == [3.0, -6.0]
    assert bounds.scale_intensity() == 1 / 16


def test_equations_6_and_7_gemv():
    assert bounds.gemv(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])).tolist() == [17.0, 39.0]
    assert bounds.gemv_intensity() == 1 / 4
    m, n = 300, 500
    assert bounds.gemv_intensity(m, n) == pytest.approx(m * n * 2 / ((m * n + m + n) * 8))
    assert bounds.gemv_intensity(m, n) < 1 / 4
    assert bounds.gemv_intensity(10**9, 10**9) == pytest.approx(1 / 4)
    assert bounds.gemv_intensity(value_bytes=2) == 1


def test_equations_8_and_10_spmv_in_csr():
    indptr, indices, data = np.array([0, 2, 2, 3]), np.array([0, 3, 1]), np.array([2.0, 3.0, 4.0])
    assert bounds.spmv(indptr, indices, data, np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [3002.0, 0.0, 40.0]
    assert bounds.csr_spmv_limit() == 1 / 6
    # Counted by hand: 3 values, 3 + 4 indices, x of 4 and y of 3.
    assert bounds.csr_spmv_intensity(3, 3, 4) == pytest.approx(6 / (8 * (3 + 3 + 4) + 4 * (3 + 3 + 1)))


@given(st.integers(1, 10**9), st.integers(1, 10**7), st.integers(1, 10**7))
def test_equation_10_stays_below_one_sixth_and_below_gemv(nnz, m, n):
    assert bounds.csr_spmv_intensity(nnz, m, n) < bounds.csr_spmv_limit() < bounds.gemv_intensity()


@given(st.integers(2, 10**6), st.integers(2, 10**6), st.floats(0.0, 1.0), st.floats(0, 1e9), st.floats(0, 1e9))
def test_equation_9_stays_below_gemv_of_the_same_size(m, n, density, coordinates, packed):
    nnz = density * m * n
    assert bounds.spmv_intensity(nnz, m, n, coordinates, packed) <= bounds.gemv_intensity(m, n) * (1 + 1e-12)


def test_equation_9_with_the_indices_of_csr_is_equation_10():
    assert bounds.spmv_intensity(50, 9, 8, (50 + 9 + 1) * 4) == bounds.csr_spmv_intensity(50, 9, 8)
    assert bounds.spmv_intensity(50, 9, 8, packed_bytes=16) == pytest.approx(100 / (67 * 8 + 16))


def test_equation_11_a_stencil():
    five = {(-1, 0): 1.0, (1, 0): 2.0, (0, 1): 3.0, (0, -1): 4.0, (0, 0): 5.0}
    u = np.arange(20.0).reshape(4, 5)
    v = bounds.stencil(five, u)
    assert v.shape == (2, 3)
    assert v[1, 2] == u[1, 3] + 2 * u[3, 3] + 3 * u[2, 4] + 4 * u[2, 2] + 5 * u[2, 3]
    # Offsets to one side alone: only that side is lost.
    assert bounds.stencil({(0, 1): 1.0, (0, 2): 1.0}, u).tolist() == (u[:, 1:4] + u[:, 2:5]).tolist()


def test_equation_12_intensity_of_stencils():
    assert bounds.stencil_intensity(5) == 5 / 8
    # Section 5.5: 2d49pt is compute-bound on an A100 and memory-bound on a GH200.
    assert bounds.bound(bounds.stencil_intensity(49), balance(A100)) == "compute"
    for there in (balance(GH200), PRINTED_GH200_BALANCE):
        assert bounds.bound(bounds.stencil_intensity(49), there) == "memory"


def test_equation_13_blocking_in_time():
    assert bounds.blocked_stencil_intensity(5, 3) == 3 * bounds.stencil_intensity(5) == 1.875
    # Section 4 says that all its kernels are memory-bound on GH200. Of table 3, 3d27pt with three steps in one is not
    # by equation (13), whichever balance is taken; section 5.5 calls its bottleneck neither memory nor computation.
    for there in (balance(GH200), PRINTED_GH200_BALANCE):
        assert bounds.bound(bounds.blocked_stencil_intensity(27, 3), there) == "compute"
        for points, steps in ((5, 3), (13, 1), (9, 3), (49, 1), (7, 3)):
            assert bounds.bound(bounds.blocked_stencil_intensity(points, steps), there) == "memory"


def test_equation_14_steps_until_a_stencil_is_compute_bound():
    assert bounds.steps_to_compute_bound(5, PRINTED_GH200_BALANCE) == pytest.approx(15.98, abs=5e-3)
    assert bounds.steps_to_compute_bound(5, balance(GH200)) == pytest.approx(13.6)
    for steps, limit in ((15, "memory"), (16, "compute")):
        assert bounds.bound(bounds.blocked_stencil_intensity(5, steps), PRINTED_GH200_BALANCE) == limit


# --- section 4 --------------------------------------------------------------------------------------------------------


def test_equations_15_and_16_which_takes_longer():
    flops, nbytes = 2e9, 8e9
    compute, memory = bounds.compute_ms(flops, A100[1]), bounds.memory_ms(nbytes, A100[0])
    assert (compute, memory) == (pytest.approx(0.20619, rel=1e-4), pytest.approx(4.12371, rel=1e-4))
    here = bounds.intensity(flops, nbytes)
    assert bounds.memory_over_compute(balance(A100), here) == pytest.approx(memory / compute) == pytest.approx(20)
    assert bounds.memory_takes_longer(balance(A100), here)
    assert not bounds.memory_takes_longer(balance(A100), 6.0)


def test_equations_17_and_18_both_extremes():
    assert bounds.overlapped(1.0, 3.0, 2.0) == 3.0
    assert bounds.serial(1.0, 3.0, 2.0) == 6.0
    # Section 4.1: less computation changes nothing where memory hides it.
    assert bounds.overlapped(0.5, 3.0, 2.0) == bounds.overlapped(1.0, 3.0, 2.0)


POSITIVE = st.floats(1e-3, 1e3)


@given(st.floats(1, 1e4), POSITIVE, POSITIVE, st.floats(0, 1e3))
def test_equations_19_to_22_are_one(alpha, compute, memory, others):
    gain = bounds.serial_gain(alpha, compute, memory, others)
    assert bounds.serial_gain_by_times(alpha, compute, memory, others) == pytest.approx(gain)
    # Any balance and intensity whose ratio is that of the times.
    ratio = memory / compute
    assert bounds.serial_gain_by_intensity(alpha, 5.0, 5.0 / ratio, compute, others) == pytest.approx(gain)
    # The paper writes "<" in (22); without other work it is an equality.
    limit = bounds.serial_gain_limit(alpha, 5.0, 5.0 / ratio)
    assert gain <= limit * (1 + 1e-12)
    assert bounds.serial_gain(alpha, compute, memory) == pytest.approx(limit)


@given(st.floats(1, 1e4), POSITIVE, POSITIVE)
def test_equations_23_and_24_are_the_limits_of_22(alpha, balance_here, intensity):
    limit = bounds.serial_gain_limit(alpha, balance_here, intensity)
    assert limit <= bounds.workload_limit(intensity, balance_here) * (1 + 1e-12)
    if intensity <= balance_here:
        assert limit <= bounds.tensor_core_limit(alpha) * (1 + 1e-12)
    assert bounds.serial_gain_limit(alpha, 5.0, 5.0) == pytest.approx(bounds.tensor_core_limit(alpha))


def test_equation_23_examples():
    # Below equation (23): α = 2 gives 1.33 and an infinite α 2. The peaks of table 1 make α 2.01 and 1.97; the
    # abstract counts V100 among the GPUs with 1.33, whose tensor cores know no FP64.
    assert bounds.tensor_core_limit(2) == pytest.approx(4 / 3) == pytest.approx(1.33, abs=5e-3)
    assert bounds.tensor_core_limit(math.inf) == 2
    assert bounds.tensor_core_limit(A100[2] / A100[1]) == pytest.approx(1.336, abs=5e-4)
    assert bounds.tensor_core_limit(GH200[2] / GH200[1]) == pytest.approx(1.327, abs=5e-4)
    assert bounds.tensor_core_limit(1) == 1


def test_equation_24_examples():
    assert bounds.workload_limit(bounds.gemv_intensity(), balance(A100)) == pytest.approx(1.05)
    # What the text leaves to the reader: GEMV on GH200 by table 1 and by the printed balance, SpMV and SCALE.
    assert bounds.workload_limit(bounds.gemv_intensity(), balance(GH200)) == pytest.approx(1.029, abs=5e-4)
    assert bounds.workload_limit(bounds.gemv_intensity(), PRINTED_GH200_BALANCE) == pytest.approx(1.025, abs=5e-4)
    assert bounds.workload_limit(bounds.csr_spmv_limit(), balance(A100)) == pytest.approx(1.033, abs=5e-4)
    assert bounds.workload_limit(bounds.csr_spmv_limit(), balance(GH200)) == pytest.approx(1.020, abs=5e-4)
    assert bounds.workload_limit(bounds.scale_intensity(), balance(A100)) == pytest.approx(1.0125)
    # At I = B it is the 2 of equation (23).
    assert bounds.workload_limit(5.0, 5.0) == bounds.tensor_core_limit(math.inf)


def test_gemv_with_the_tensor_cores_that_exist_gains_half_of_that():
    # Equation (22) with α = 19.5 / 9.7: the examples of (24) assume an infinite α.
    assert bounds.serial_gain_limit(A100[2] / A100[1], balance(A100), 1 / 4) == pytest.approx(1.0245, abs=5e-4)


def test_scale_on_tensor_cores_has_an_eighth_of_their_peak():
    # Section 5.1 prints 2.4 and 8.37 TFLOP/s, and both are below the peaks of CUDA cores.
    assert bounds.scale_tensor_gflops(A100[2]) == pytest.approx(2400, abs=50)
    assert bounds.scale_tensor_gflops(GH200[2]) == pytest.approx(8370, abs=10)
    for device in (A100, GH200):
        left = bounds.scale_tensor_gflops(device[2])
        assert left < device[1]
        # Even so it does not matter: a gain of less than 1, but by hardly anything.
        assert 0.95 < bounds.serial_gain_limit(left / device[1], balance(device), bounds.scale_intensity()) < 1


def test_section_4_3_real_kernels_lie_between_1_and_a_third_more():
    for device in (A100, GH200):
        alpha = device[2] / device[1]
        for here in (bounds.scale_intensity(), bounds.csr_spmv_limit(), bounds.gemv_intensity(), 5 / 8, 15 / 8):
            assert 1 < bounds.gain_limit(alpha, balance(device), here) < bounds.tensor_core_limit(alpha)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.intensity(1, 0), "nbytes must be above 0, not 0"),
        (lambda: bounds.intensity(-1, 1), "flops must not be negative, and is -1"),
        (lambda: bounds.bound(-0.1, 5), "intensity must not be negative"),
        (lambda: bounds.bound(1, 0), "balance must be above 0"),
        (lambda: bounds.scale_intensity(0), "nbytes must be above 0"),
        (lambda: bounds.gemv_intensity(0, 5), "m must be above 0"),
        (lambda: bounds.gemv(np.ones((2, 3)), np.ones(2)), "mismatch"),
        (lambda: bounds.spmv_intensity(-1, 1, 1), "nnz must not be negative"),
        (lambda: bounds.csr_spmv_intensity(1, 1, 1, index_bytes=-4), "index_bytes must not be negative"),
        (lambda: bounds.csr_spmv_limit(0, 0), "nbytes must be above 0"),
        (lambda: bounds.stencil({}, np.ones((2, 2))), "at least one offset"),
        (lambda: bounds.stencil({(0, 5): 1.0}, np.ones((2, 2))), "no point of a grid of 2 by 2"),
        (lambda: bounds.stencil_intensity(0), "points must be above 0"),
        (lambda: bounds.blocked_stencil_intensity(5, 0), "steps must be above 0"),
        (lambda: bounds.steps_to_compute_bound(5, 0), "balance must be above 0"),
        (lambda: bounds.compute_ms(1, 0), "peak must be above 0"),
        (lambda: bounds.memory_ms(1, 0), "bandwidth must be above 0"),
        (lambda: bounds.memory_over_compute(5, 0), "intensity must be above 0"),
        (lambda: bounds.overlapped(-1, 0), "compute must not be negative"),
        (lambda: bounds.serial(0, 0, -1), "others must not be negative"),
        (lambda: bounds.serial_gain(0, 1, 1), "alpha must be above 0"),
        (lambda: bounds.serial_gain(2, 0, 0), "time must be above 0"),
        (lambda: bounds.serial_gain_by_times(2, 0, 1), "compute must be above 0"),
        (lambda: bounds.serial_gain_limit(math.nan, 5, 1), "alpha must be above 0, not nan"),
        (lambda: bounds.tensor_core_limit(0), "alpha must be above 0"),
        (lambda: bounds.workload_limit(0, 5), "intensity must be above 0"),
        (lambda: bounds.scale_tensor_gflops(1, 0, 4), "m must be above 0"),
        (lambda: bounds.spmm_bytes(1, 1, 1, -1), "n must not be negative"),
        (lambda: bounds.spmm_intensity(-1, 1, 1, 1), "nnz must not be negative"),
        (lambda: bounds.spmm_intensity_limit(1, 0, 0), "nbytes must be above 0"),
        (lambda: bounds.useful_gflops(0), "peak must be above 0"),
        (lambda: bounds.useful_gflops(1, 1.5), "at most 1, not 1.5"),
        (lambda: bounds.useful_gflops(1, 0), "lies above 0"),
        (lambda: bounds.tensor_gain_limit(1, 1, 0, 1), "cuda must be above 0"),
        (lambda: bounds.sparse24_gain_limit(1, 1, 1, 1, 0.6), "filled to one half at most, not to 0.6"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_but_computation_has_no_limit():
    assert bounds.serial_gain(math.inf, 1.0, 0.0) == math.inf
    assert bounds.serial_gain_by_times(math.inf, 1.0, 0.0) == math.inf
    assert bounds.serial_gain(4.0, 1.0, 0.0) == 4.0


# --- SpMM -------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**8), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 4096))
def test_spmm_of_one_column_is_spmv_and_more_columns_approach_the_limit(nnz, m, k, n):
    assert bounds.spmm_intensity(nnz, m, k, 1) == pytest.approx(bounds.csr_spmv_intensity(nnz, m, k))
    narrow, wide = bounds.spmm_intensity(nnz, m, k, n), bounds.spmm_intensity(nnz, m, k, n + 1)
    assert narrow < wide < bounds.spmm_intensity_limit(nnz, m, k)


def test_compulsory_bytes_by_hand():
    # 10 non-zeros in 4 rows, 3 rows of B, 8 columns, FP16 with FP32 results.
    assert bounds.spmm_bytes(10, 4, 3, 8, 2, c_bytes=4) == 10 * 2 + (10 + 5) * 4 + 3 * 8 * 2 + 4 * 8 * 4


@given(st.floats(1, 64), POSITIVE, POSITIVE, st.floats(0, 1))
def test_no_degree_of_overlap_gains_more_than_the_limit(alpha, balance_here, intensity, overlap):
    compute, memory = intensity, balance_here  # equation (15)

    def time(compute):
        return overlap * bounds.overlapped(compute, memory) + (1 - overlap) * bounds.serial(compute, memory)

    gain = time(compute) / time(compute / alpha)
    assert gain <= bounds.gain_limit(alpha, balance_here, intensity) * (1 + 1e-9)
    assert gain <= alpha * (1 + 1e-9)


@given(st.floats(1, 64), POSITIVE, POSITIVE)
def test_full_overlap_gains_the_ratio_of_both_rooflines(alpha, balance_here, intensity):
    bandwidth, cuda = 1000.0, 1000.0 * balance_here
    ratio = roofline.attainable_gflops(intensity, alpha * cuda, bandwidth) / roofline.attainable_gflops(
        intensity, cuda, bandwidth
    )
    assert bounds.overlapped_gain_limit(alpha, balance_here, intensity) == pytest.approx(ratio)
    if bounds.bound(intensity, balance_here) == "memory":
        assert ratio == 1


def test_between_both_rooflines_serial_kernels_may_gain_more_than_overlapped_ones():
    # Compute-bound on CUDA cores by 10 %, with α = 16: overlap leaves 1.1, no overlap 2.1 / (1.1 / 16 + 1).
    assert bounds.overlapped_gain_limit(16, 10.0, 11.0) == pytest.approx(1.1)
    assert bounds.serial_gain_limit(16, 10.0, 11.0) == pytest.approx(2.1 / (1.1 / 16 + 1))
    assert bounds.gain_limit(16, 10.0, 11.0) == bounds.serial_gain_limit(16, 10.0, 11.0)
    # Far beyond both it is α that is gained.
    assert bounds.gain_limit(16, 10.0, 1e6) == pytest.approx(16, rel=1e-3)


def test_limits_of_spmm_on_an_h200():
    sheet = contracts.document(synthetic.ROOT / "config/devices/h200.yaml", "device")
    peaks, bandwidth = sheet["peak_gflops"], sheet["memory_gb_per_s"]
    here = bounds.spmm_intensity(2_014_701, 44_609, 44_609, 128, value_bytes=2)
    cuda, tensor, sparse24 = (peaks[name] for name in ("float32_cuda", "float16_tensor", "float16_tensor_sparse24"))
    limit = bounds.tensor_gain_limit(here, bandwidth, cuda, tensor)
    compulsory = 2_014_701 * 6 + 44_610 * 4 + 2 * 44_609 * 128 * 2
    assert here == pytest.approx(2 * 2_014_701 * 128 / compulsory)
    ratio = here / (cuda / bandwidth)
    assert limit == pytest.approx((1 + ratio) / (1 + ratio * cuda / tensor))
    assert limit < bounds.workload_limit(here, cuda / bandwidth)
    # A 2:4 peak counts the zeros: full 2:4 tiles gain over CUDA cores what full dense tiles do.
    assert bounds.sparse24_gain_limit(here, bandwidth, cuda, sparse24) == pytest.approx(limit, rel=1e-4)
    # The same tiles on dense tensor cores cost twice the computation, of which little is left at this intensity.
    assert bounds.sparse24_over_tensor_limit(1e9, bandwidth, tensor, sparse24) == pytest.approx(2, rel=1e-3)
    ratio = here / (tensor / 2 / bandwidth)
    over = bounds.sparse24_over_tensor_limit(here, bandwidth, tensor, sparse24)
    assert over == pytest.approx((1 + ratio) / (1 + ratio / 2), rel=1e-4) == pytest.approx(1.067, abs=5e-4)
    # Emptier tiles have less to gain.
    assert bounds.tensor_gain_limit(here, bandwidth, cuda, tensor, fill=0.1) < limit


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return {name: contracts.read(folder / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}


def h200_peaks():
    return {"h200": contracts.document(synthetic.ROOT / "config/devices/h200.yaml", "device")["peak_gflops"]}


def test_every_verified_case_of_a_tensor_core_kernel_is_there(tables):
    cases = tables["cases"]
    own = cases[
        (cases["status"] == "ok") & cases["kernel"].isin(["mma_t", "mma_bt", "mma_bt_f32", "mma_obts", "bricks"])
    ]
    key = ["device", "suite", "kernel", "matrix", "n", "l2"]
    assert sorted(map(tuple, tables["bounds"][key].to_numpy())) == sorted(map(tuple, own[key].to_numpy()))
    # mma_t is wrong once, mma_obts refuses one matrix at three widths.
    assert len(tables["bounds"]) == 5 * 6 * 3 - 1 - 3


def test_limits_of_a_row_by_hand(tables):
    row = tables["bounds"].set_index(["kernel", "matrix", "n"]).loc[("mma_bt", "cfd1", 128)]
    _, _, m, k, nnz, _ = synthetic.MATRICES["cfd1"]
    here = bounds.spmm_intensity(nnz, m, k, 128, value_bytes=2)
    assert row["intensity_flop_per_byte"] == pytest.approx(here)
    # The rival is cuSPARSE in FP16, which adds in FP32; half-precision sums are no faster on an H200's tensor cores.
    assert (row["unit"], row["cuda_unit"]) == ("float16_tensor_float16_sums", "float32_cuda")
    assert row["peak_ratio"] == pytest.approx(989_400 / 66_900)
    assert row["balance_flop_per_byte"] == pytest.approx(66_900 / synthetic.COPY_GB_PER_S)
    assert row["cuda_bound"] == "memory" and row["overlapped_limit"] == 1
    limit = bounds.tensor_gain_limit(here, synthetic.COPY_GB_PER_S, 66_900, 989_400)
    assert row["gain_limit"] == row["serial_limit"] == pytest.approx(limit)
    assert row["workload_limit"] == pytest.approx(1 + here * synthetic.COPY_GB_PER_S / 66_900)


def test_peaks_of_2_4_count_by_half(tables):
    row = tables["bounds"].set_index(["kernel", "matrix", "n"]).loc[("mma_obts", "cfd1", 128)]
    assert row["tensor_gflops"] == 1_978_900 / 2


def test_rivals_are_the_fastest_without_tensor_cores_in_the_same_precision(tables):
    cases = tables["cases"]
    for row in tables["bounds"].itertuples():
        same = cases[(cases["matrix"] == row.matrix) & (cases["n"] == row.n)].set_index("kernel")["time_ms"]
        names = ["cusparse_csr_alg2_f32", "cusparse_csr_alg3_f32", "row_split"]
        names = names if row.precision == "tf32" else ["cusparse_csr_alg2_f16"]
        assert (row.rival, row.rival_ms) == (same[names].idxmin(), same[names].min())
        assert row.gain == pytest.approx(row.rival_ms / row.time_ms)
        assert row.verdict == ("within_limit" if row.gain <= row.gain_limit else "beyond_limit")
        assert row.rival_compulsory_bytes == row.compulsory_bytes
    assert set(tables["bounds"]["verdict"]) == {"within_limit", "beyond_limit"}


def test_without_a_rival_or_a_peak_the_verdict_says_so(tables):
    cases, heads = tables["cases"], synthetic.HEADS
    alone = cases[~cases["kernel"].str.contains("cusparse.*f16", regex=True)]
    found = bounds.bounds(alone, heads, h200_peaks())
    half = found[found["precision"] == "float16"]
    assert set(half["verdict"]) == {"no_rival"} and half["gain"].isna().all() and set(half["rival"]) == {""}
    # Compared with CUDA cores that add as the kernel does.
    units = half.set_index("kernel")["cuda_unit"]
    assert set(units["mma_bt"]) == {"float16_cuda"} and set(units["mma_bt_f32"]) == {"float32_cuda"}
    assert half["gain_limit"].notna().all()
    unknown = bounds.bounds(cases, heads, {})
    assert set(unknown["verdict"]) == {"no_limit"} and unknown["gain"].notna().all()
    assert unknown["gain_limit"].isna().all()
    assert bounds.bounds(cases.assign(bandwidth_limit_gflops=math.nan), heads, h200_peaks())["gain_limit"].isna().all()


def test_neither_derived_rows_nor_kernels_without_a_head_are_rivals(tables):
    cases = tables["cases"]
    heads = {name: head for name, head in synthetic.HEADS.items() if name != "row_split"}
    found = bounds.bounds(cases, heads, h200_peaks())
    assert "row_split" in set(tables["bounds"]["rival"])
    assert set(found["rival"]) == {"cusparse_csr_alg2_f32", "cusparse_csr_alg2_f16"}


def test_no_rows_make_an_empty_table(tables):
    assert len(bounds.bounds(tables["cases"].iloc[:0], synthetic.HEADS, h200_peaks())) == 0
