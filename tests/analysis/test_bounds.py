"""The limit of the gain of tensor cores, by hand and beside the gains of a small world."""

import pytest

from spmm_roofline import analysis
from spmm_roofline.analysis import bounds, roofline
from tests.analysis import synthetic


@pytest.mark.parametrize("alpha", [1.0, 2.0, 8.0])
def test_the_gain_of_serial_work_is_the_ratio_of_the_sums(alpha):
    # Equations (19) to (22): T_cmp = 1, T_mem = B / I.
    intensity, balance = 0.25, 5.0
    memory = balance / intensity
    gain = bounds.gain_of_balance(alpha, intensity, balance)
    assert gain == pytest.approx((1 + memory) / (1 / alpha + memory))
    assert 1 <= gain <= alpha


def test_overlapped_work_gains_where_computation_binds():
    # Equation (17): the longest of all.
    assert bounds.overlapped_gain(8, 1.0, 10.0) == 1, "memory binds"
    assert bounds.overlapped_gain(8, 40.0, 10.0) == pytest.approx(4), "four times the balance"
    assert bounds.overlapped_gain(8, 1000.0, 10.0) == pytest.approx(8)


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("intensity", [0.5, 5.0, 10.0, 12.0, 40.0, 400.0])
def test_no_degree_of_overlap_gains_more_than_the_limit(overlap, intensity):
    def time(compute, memory):
        return overlap * max(compute, memory) + (1 - overlap) * (compute + memory)

    memory = 10.0 / intensity
    gain = time(1.0, memory) / time(1 / 8, memory)
    assert gain <= bounds.spmm_gain_limit(intensity, 1000, 8000, 100) * (1 + 1e-12)


def test_the_limit_of_spmm_leaves_two_where_computation_binds():
    # Balance 10; tensor cores eight times as fast.
    assert bounds.spmm_gain_limit(1.0, 1000, 8000, 100) == pytest.approx(1 + 7 / (1 + 8 * 10))
    assert bounds.spmm_gain_limit(10.0, 1000, 8000, 100) == pytest.approx(2 - 2 / (1 + 8))
    assert bounds.spmm_gain_limit(40.0, 1000, 8000, 100) == pytest.approx(4), "four times the balance"
    assert bounds.spmm_gain_limit(1000.0, 1000, 8000, 100) == pytest.approx(8)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return analysis.read(folder)


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
    # The rate at which memory can move compulsory bytes: A and B must come from DRAM, C may stay in L2, and the format
    # of this world is smaller than CSR.
    own, size = synthetic.measure_row("mma_bt", "cfd1", 128), 2
    saved = own["nnz"] * (size + 4) + 4 * (own["m"] + 1) - own["format_bytes"]
    assert saved > 0
    moved = own["compulsory_bytes"] - saved - size * own["m"] * 128
    rate = synthetic.COPY_GB_PER_S * own["compulsory_bytes"] / moved
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


def test_a_rival_takes_as_many_steps(tables):
    cases = tables["cases"]
    tensor = [name for name, head in synthetic.HEADS.items() if roofline.on_tensor_cores(head)]
    cases = cases.assign(steps=cases["steps"].where(cases["kernel"].isin(tensor), 3))
    rows = bounds.bounds(cases, tables["counters"], synthetic.HEADS, {"h200": {"float32_cuda": 66_900.0}})
    assert len(rows) and set(rows["verdict"]) == {"no_rival"}, "three steps in a pass move a third of the bytes"
