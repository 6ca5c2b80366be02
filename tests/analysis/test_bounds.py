"""Every equation of "Can Tensor Cores Benefit Memory-Bound Kernels? (No!)" against the paper's worked numbers."""

import numpy as np
import pytest

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import bounds
from spmm_roofline.analysis.roofline import attainable_gflops, machine_balance
from tests.analysis import synthetic

#: Table 1: TFLOP/s and TB/s.
A100 = {"cuda": 9.7, "tensor": 19.5, "bandwidth": 1.94}
GH200 = {"cuda": 34.0, "tensor": 67.0, "bandwidth": 4.0}


def test_balance_and_roofline():
    # Equations (1) to (4). Table 1 gives 8.5 FLOP/B for GH200; section 3.3 counts with 9.99, the H100's 33.5 / 3.35.
    assert machine_balance(A100["cuda"], A100["bandwidth"]) == pytest.approx(5.0)
    assert machine_balance(GH200["cuda"], GH200["bandwidth"]) == pytest.approx(8.5)
    assert machine_balance(33.5, 3.352) == pytest.approx(9.99, abs=0.01)
    assert bounds.intensity(10, 4) == 2.5
    assert attainable_gflops(2.5, 9700, 1940) == pytest.approx(4850)
    assert [bounds.binding(i, 5.0) for i in (0.25, 5.0, 5.1)] == ["memory", "memory", "compute"]


def test_scale():
    # Equation (5) and section 3.1.
    assert bounds.scale(np.array([1.0, -2.0]), 3.0).tolist() == [3.0, -6.0]
    assert bounds.scale_intensity() == 1 / 16
    # Section 5.1: eighths of the tensor cores' peaks.
    assert bounds.identity_product_peak(A100["tensor"], 8, 4) == pytest.approx(2.4, abs=0.05)
    assert bounds.identity_product_peak(GH200["tensor"], 8, 4) == pytest.approx(8.37, abs=0.01)


def test_matrix_times_vector():
    # Equations (6) to (10).
    assert bounds.gemv_intensity(10_000, 10_000) == pytest.approx(1 / 4, rel=1e-3)
    assert bounds.gemv_intensity(2, 3) == 12 / (11 * 8)
    assert bounds.spmv_csr_intensity(10**9, 10, 10) == pytest.approx(1 / 6, rel=1e-6)
    assert bounds.spmv_csr_intensity(12, 3, 4) == 24 / (19 * 8 + 16 * 4)
    assert bounds.spmv_intensity(12, 3, 4, 64, 80) == 24 / (19 * 8 + 64 + 80)
    for nnz, m, n in ((100, 10, 10), (4_007_383, 62_451, 62_451), (59_524_291, 5_558_326, 5_558_326)):
        assert bounds.spmv_csr_intensity(nnz, m, n) < 1 / 6 < bounds.gemv_intensity(m * 100, n * 100)


def test_a_stencil_step_by_hand():
    # Equation (11), the 2d5pt stencil of section 3.3.
    weights = {(0, 0): 1.0, (1, 0): 10.0, (-1, 0): 100.0, (0, 1): 1000.0, (0, -1): 10_000.0}
    u = np.arange(12.0).reshape(3, 4)
    step = bounds.stencil(u, weights)
    assert step.shape == (1, 2)
    assert step[0, 0] == 5 + 10 * 9 + 100 * 1 + 1000 * 6 + 10_000 * 4
    cube = bounds.stencil(np.ones((5, 5, 5)), {(0, 0, 0): 1.0, (2, 0, 0): 1.0})
    assert cube.shape == (1, 5, 5) and (cube == 2).all()


def test_stencils_and_blocked_time():
    # Equations (12) to (14).
    assert bounds.stencil_intensity(5) == 5 / 8
    assert bounds.stencil_intensity(5, steps=4) == 4 * 5 / 8
    assert bounds.steps_to_compute_bound(5, 9.99) == pytest.approx(15.98, abs=0.01)
    assert bounds.steps_to_compute_bound(5, 8.5) == pytest.approx(13.6)


def test_times():
    # Equations (15) to (18).
    assert bounds.memory_over_compute(1 / 4, 5.0) == 20
    assert bounds.overlapped_time(1, 3, 2) == 3
    assert bounds.serial_time(1, 3, 2) == 6
    assert bounds.overlapped_time(1 / 2, 3, 2) == bounds.overlapped_time(1, 3, 2), "computing faster gains nothing"


@pytest.mark.parametrize("alpha", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("others", [0.0, 0.7])
def test_the_forms_of_the_gain_agree(alpha, others):
    # Equations (19) to (22): T_cmp = 1, T_mem = B / I.
    intensity, balance = 0.25, 5.0
    gain = bounds.serial_gain(alpha, 1.0, balance / intensity, others)
    assert gain == pytest.approx(1 + (alpha - 1) / (1 + alpha * (balance / intensity + others)))
    assert gain == pytest.approx(bounds.gain_of_balance(alpha, intensity, balance, others))
    assert gain <= bounds.gain_of_balance(alpha, intensity, balance)


def test_limits():
    # Equations (23) and (24) with the paper's examples.
    assert bounds.unit_limit(2) == pytest.approx(1.33, abs=0.01)
    assert bounds.unit_limit(1e12) == pytest.approx(2)
    assert bounds.workload_limit(1 / 4, 5.0) == pytest.approx(1.05)
    assert bounds.workload_limit(1 / 4, 8.5) == pytest.approx(1.029, abs=0.001)
    # Both are what equation (22) tends to.
    assert bounds.gain_of_balance(2, 5.0, 5.0) == pytest.approx(bounds.unit_limit(2))
    assert bounds.gain_of_balance(1e12, 0.25, 5.0) == pytest.approx(bounds.workload_limit(0.25, 5.0))
    for intensity in (0.01, 0.25, 1.0, 4.9):
        assert 1 < bounds.gain_of_balance(2, intensity, 5.0) < bounds.unit_limit(2)


def test_where_the_paper_disagrees_with_itself():
    balances = (GH200["cuda"] / GH200["bandwidth"], 9.99)
    # Section 5.5: 2d49pt is compute-bound on an A100 and memory-bound on a GH200. So it is, by either balance.
    assert bounds.binding(bounds.stencil_intensity(49), 5.0) == "compute"
    assert {bounds.binding(bounds.stencil_intensity(49), balance) for balance in balances} == {"memory"}
    # Section 4 calls all its kernels memory-bound on a GH200. Of table 3, 3d27pt with three blocked steps is not, by
    # either balance; section 5.5 names its bottleneck neither memory nor computation.
    for points, steps, bound in (
        (5, 3, "memory"), (13, 1, "memory"), (9, 3, "memory"), (49, 1, "memory"), (7, 3, "memory"), (27, 3, "compute"),
    ):  # fmt: skip
        assert {bounds.binding(bounds.stencil_intensity(points, steps), balance) for balance in balances} == {bound}
    # The 1.33 of FP64 is that of α = 2; table 1 makes it 2.01 and 1.97. The abstract counts the V100 in, whose tensor
    # cores know no FP64.
    assert bounds.unit_limit(A100["tensor"] / A100["cuda"]) == pytest.approx(1.336, abs=5e-4)
    assert bounds.unit_limit(GH200["tensor"] / GH200["cuda"]) == pytest.approx(1.327, abs=5e-4)
    # The example of equation (24) takes α as infinite; the tensor cores that exist leave half of its 5 %.
    assert bounds.gain_of_balance(A100["tensor"] / A100["cuda"], 1 / 4, 5.0) == pytest.approx(1.0245, abs=5e-4)


# --- SpMM -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nnz", "m", "k"), [(12, 3, 4), (4_007_383, 62_451, 62_451), (1_567_800, 52_260, 379_350)])
def test_intensity_of_spmm_grows_from_that_of_spmv_to_its_limit(nnz, m, k):
    assert bounds.spmm_intensity(nnz, m, k, 1) == bounds.spmv_csr_intensity(nnz, m, k)
    values = [bounds.spmm_intensity(nnz, m, k, 2**i) for i in range(13)]
    assert values == sorted(values) and len(set(values)) == 13
    assert values[-1] < bounds.spmm_intensity_limit(nnz, m, k)
    assert bounds.spmm_intensity(nnz, m, k, 10**9) == pytest.approx(bounds.spmm_intensity_limit(nnz, m, k), rel=1e-6)


def test_intensity_of_spmm_is_that_of_the_cases(tables):
    row = tables["cases"].set_index(["kernel", "matrix", "n"]).loc[("row_split", "cfd1", 128)]
    own = bounds.spmm_intensity(row["nnz"], row["m"], row["k"], 128, value_bytes=4)
    assert own == pytest.approx(row["intensity_flop_per_byte"])


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("intensity", [0.5, 5.0, 10.0, 12.0, 40.0, 400.0])
def test_no_degree_of_overlap_gains_more_than_the_limit(overlap, intensity):
    def time(compute, memory):
        return overlap * bounds.overlapped_time(compute, memory) + (1 - overlap) * bounds.serial_time(compute, memory)

    memory = bounds.memory_over_compute(intensity, 10.0)
    gain = time(1.0, memory) / time(1 / 8, memory)
    assert gain <= bounds.spmm_gain_limit(intensity, 1000, 8000, 100) * (1 + 1e-12)


def test_the_limit_of_spmm_leaves_two_where_computation_binds():
    # Balance 10; tensor cores eight times as fast.
    assert bounds.spmm_gain_limit(1.0, 1000, 8000, 100) == pytest.approx(1 + 7 / (1 + 8 * 10))
    assert bounds.spmm_gain_limit(10.0, 1000, 8000, 100) == pytest.approx(bounds.unit_limit(8))
    assert bounds.spmm_gain_limit(40.0, 1000, 8000, 100) == pytest.approx(4), "four times the balance"
    assert bounds.spmm_gain_limit(1000.0, 1000, 8000, 100) == pytest.approx(8)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return {name: contracts.read(folder / f"{name}.csv", contract) for name, contract in analysis.TABLES.items()}


def test_gains_stand_beside_their_limits(tables):
    cases = tables["cases"].set_index(["kernel", "matrix", "n"])
    rows = tables["bounds"].set_index(["kernel", "matrix", "n"])
    assert set(tables["bounds"]["kernel"]) == {"mma_t", "mma_bt", "mma_bt_f32", "mma_obts", "bricks"}
    row = rows.loc[("mma_bt", "cfd1", 128)]
    assert row["rival"] == "cusparse_csr_alg2_f16"
    assert row["gain"] == pytest.approx(
        cases.loc[("cusparse_csr_alg2_f16", "cfd1", 128), "time_ms"] / cases.loc[("mma_bt", "cfd1", 128), "time_ms"]
    )
    # The datasheet's 989.4 and 66.9 TFLOP/s over the copy that the world of synthetic.py measured.
    assert row["alpha"] == pytest.approx(989.4 / 66.9, rel=1e-3)
    # The rate at which memory can move compulsory bytes: A and B must come from DRAM, C may stay in L2.
    own, size = synthetic.measure_row("mma_bt", "cfd1", 128), 2
    rate = synthetic.COPY_GB_PER_S * own["compulsory_bytes"] / (own["compulsory_bytes"] - size * own["m"] * 128)
    assert row["balance_flop_per_byte"] == pytest.approx(66_900 / rate, rel=1e-3)
    # 2:4 tensor cores have twice the peak because they count the zeros that they skip.
    assert rows.loc[("mma_obts", "cfd1", 128), "alpha"] == pytest.approx(row["alpha"], rel=1e-2)
    own = cases.loc[("mma_bt", "cfd1", 128), "intensity_flop_per_byte"]
    assert row["gain_limit"] == pytest.approx(
        bounds.spmm_gain_limit(own, 66_900, row["alpha"] * 66_900, rate), rel=1e-3
    )
    assert rows.loc[("bricks", "cfd1", 128), "rival"] in ("row_split", "cusparse_csr_alg2_f32")


@pytest.mark.parametrize(
    ("gain", "moved", "verdict"),
    [
        (1.0, None, "within_limit"),
        (90.0, None, "not_profiled"),
        (90.0, 100.0, "explained_by_traffic"),
        (90.0, 2.0, "beyond_limit"),
    ],
)
def test_a_gain_beyond_the_limit_is_looked_up_in_the_counters(tables, gain, moved, verdict):
    cases = tables["cases"][tables["cases"]["matrix"] == "cfd1"].copy()
    cases = cases[(cases["n"] == 128) & cases["kernel"].isin(["bricks", "row_split"])]
    cases.loc[cases["kernel"] == "bricks", "time_ms"] = 1.0
    cases.loc[cases["kernel"] == "row_split", "time_ms"] = gain
    counters = tables["counters"][tables["counters"]["kernel"] == "bricks"]
    assert len(counters) == 1
    if moved:
        import pandas as pd

        rival = counters.assign(kernel="row_split", cache_bytes=moved * counters["cache_bytes"])
        counters = pd.concat([counters, rival], ignore_index=True)
    peaks = {"h200": {"float32_cuda": 66_900.0}}
    (row,) = bounds.bounds(cases, counters, synthetic.HEADS, peaks).to_dict("records")
    assert (row["gain"], row["verdict"]) == (pytest.approx(gain), verdict)
    assert not moved or row["traffic_ratio"] == pytest.approx(moved)


def test_double_precision_stands_beside_the_double_precision_peak(tables):
    cases = tables["cases"][tables["cases"]["kernel"].isin(["bricks", "row_split"])].copy()
    cases["precision"] = cases["dtype_a"] = "float64"
    cases["compute_limit_gflops"] = cases["kernel"].map({"bricks": 66_900.0, "row_split": 33_500.0})
    peaks = {"h200": {"float32_cuda": 66_900.0, "float64_cuda": 33_500.0}}
    rows = bounds.bounds(cases, tables["counters"], synthetic.HEADS, peaks)
    # Twice the peak: less than 1.33 where memory binds (equation 23).
    assert rows["alpha"].tolist() == pytest.approx([66_900 / 33_500] * len(rows)) and len(rows)
    bound_by_memory = rows[rows["intensity_flop_per_byte"] < rows["balance_flop_per_byte"]]
    assert len(bound_by_memory) and (bound_by_memory["gain_limit"] < 4 / 3).all()


def test_without_a_rival_there_is_no_gain(tables):
    cases = tables["cases"][tables["cases"]["kernel"] == "bricks"]
    rows = bounds.bounds(cases, tables["counters"], synthetic.HEADS, {"h200": {"float32_cuda": 66_900.0}})
    assert set(rows["verdict"]) == {"no_rival"} and rows["gain"].isna().all()
