"""Ceilings and the roofline of every row, on numbers small enough to work by hand."""

import pytest

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import ceilings as module
from spmm_roofline.analysis import roofline
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("ceiling_tables")

SHEETS = {
    "h200": {
        "memory_gb_per_s": 4800.0,
        "peak_gflops": {"float16_tensor": 989_400.0, "float32_cuda": 66_900.0, "float64_cuda": 33_500.0},
    }
}
RECORDS = {"h200": synthetic.device_record()}
HEADS = synthetic.HEADS | synthetic.CEILING_HEADS


def table(rows=None, sheets=SHEETS, records=RECORDS, heads=HEADS):
    measured = contracts.frame(synthetic.ceiling_rows() if rows is None else rows, "measure_ceilings")
    kernels = contracts.frame([], "kernels")
    return module.ceilings(sheets, records, measured, kernels, heads, synthetic.FINGERPRINTS)


def line(rows, ceiling, through=""):
    found = rows[(rows["ceiling"] == ceiling) & (rows["through"] == through)]
    assert len(found) == 1, f"{len(found)} lines of {ceiling} {through}"
    return found.iloc[0]


def changed(**of_kernel):
    """Rows of ceilings, with columns of some kernels replaced."""
    return [row | of_kernel.get(row["kernel"], {}) for row in synthetic.ceiling_rows()]


def test_measured_rates_stand_beside_the_datasheet():
    rows = table()
    assert list(rows["level"]) == ["dram", "dram", "l2", *[""] * 5]
    copy = line(rows, "copy_all")
    assert (copy["measured"], copy["datasheet"], copy["unit"]) == (4100.0, 4800.0, "GB/s")
    assert copy["share_fraction"] == pytest.approx(4100 / 4800)
    assert line(rows, "float32_cuda")["share_fraction"] == pytest.approx(60_000 / 66_900)
    alone = line(rows, "float64_cuda")
    assert alone["datasheet"] == 33_500 and rows.isna().loc[alone.name, "measured"]
    assert alone["source"] == "config/devices/h200.yaml"


def test_of_one_peak_the_best_kernel_counts_for_each_way_to_reach_it():
    rows = table()
    assert (line(rows, "float16_tensor", "mma")["kernel"], line(rows, "float16_tensor", "wgmma")["kernel"]) == (
        "products",
        "group_products",
    )
    sparse = line(rows, "float16_tensor_sparse24", "mma")
    assert sparse["measured"] == 950_000 and rows.isna().loc[sparse.name, "datasheet"]


def test_of_l2_the_best_working_set_counts_that_fits():
    rows = table()
    cache = line(rows, "sweep")
    assert (cache["measured"], cache["working_set_bytes"]) == (8000.0, 24 << 20)
    assert module.bandwidths(rows, "l2") == {"h200": 8000.0}


def test_a_noisy_rate_counts_only_where_there_is_no_other():
    assert line(table(changed(products={"noisy": True})), "float16_tensor", "mma")["kernel"] == "more_products"
    alone = line(table(changed(chains={"noisy": True})), "float32_cuda")
    assert alone["noisy"] and alone["measured"] == 60_000


def test_a_kernel_that_failed_is_no_ceiling():
    timed = [column.name for column in contracts.table("measure_ceilings").columns if ("status", "ok") in column.when]
    failed = {**dict.fromkeys(timed), "status": "wrong", "message": "C is no copy of B"}
    rows = table(changed(chains=failed, products=failed, more_products=failed))
    assert rows.isna().loc[line(rows, "float32_cuda").name, "measured"]
    assert set(rows.loc[rows["ceiling"] == "float16_tensor", "through"]) == {"wgmma"}


def test_a_kernel_that_changed_is_marked_and_one_that_is_gone_is_left_out():
    rows = table(changed(chains={"kernel_sha256": "old"}))
    assert line(rows, "float32_cuda")["stale"] and not line(rows, "copy_all")["stale"]
    gone = table(heads={name: head for name, head in HEADS.items() if name != "chains"})
    assert gone.isna().loc[line(gone, "float32_cuda").name, "measured"]


def test_without_a_table_the_copy_of_the_record_limits_memory_and_the_datasheet_the_rest():
    rows = table(rows=[])
    assert module.bandwidths(rows, "dram") == {"h200": synthetic.COPY_GB_PER_S}
    assert module.bandwidths(rows, "l2") == {} and module.peaks(rows) == {}
    assert module.bandwidths(table(rows=[], records={}), "dram") == {}
    assert line(table(rows=[], records={}), "dram")["datasheet"] == 4800


def test_a_device_without_a_datasheet_has_what_was_measured():
    rows = table(sheets={})
    assert rows["datasheet"].isna().all() and rows["measured"].notna().all() and len(rows) == 7


# --- limits of kernels ------------------------------------------------------------------------------------------------

MEASURED = {("float16_tensor", "mma"): 635.0, ("float16_tensor", "wgmma"): 800.0, ("float32_cuda", ""): 60.0}
PEAKS = {"float16_tensor": 989.0, "float16_tensor_float16_sums": 1000.0, "float32_cuda": 67.0, "tf32_tensor": 495.0}


@pytest.mark.parametrize(
    ("unit", "through", "limit"),
    [
        ("float16_tensor", "mma", (635.0, "measured")),
        ("float16_tensor", "wgmma", (800.0, "measured")),
        ("float16_tensor_float16_sums", "mma", (635.0, "measured")),
        ("float32_cuda", "", (60.0, "measured")),
        ("tf32_tensor", "mma", (495.0, "datasheet")),
        # A library shows no instructions: what the unit reaches through any of them.
        ("float16_tensor", None, (800.0, "measured")),
        ("tf32_tensor", None, (495.0, "datasheet")),
        ("float64_tensor", "mma", None),
    ],
)
def test_a_kernel_is_limited_by_the_instructions_that_it_uses(unit, through, limit):
    assert roofline.limit_gflops(unit, through, MEASURED, PEAKS) == limit


def test_without_measurements_the_datasheet_limits():
    assert roofline.limit_gflops("float16_tensor_float16_sums", "mma", {}, PEAKS) == (1000.0, "datasheet")


@pytest.mark.parametrize(
    ("features", "through"),
    [
        (["ldmatrix", "mma"], "mma"),
        (["mma_sp_tf32"], "mma"),
        (["wgmma", "wgmma_sp"], "wgmma"),
        (["mma", "tma"], "mma"),
        (["cp_async"], ""),
        ([], ""),
    ],
)
def test_the_way_to_the_tensor_cores(features, through):
    assert roofline.instructions({"features": features}) == through


# --- the roofline of a row --------------------------------------------------------------------------------------------

#: 2 FLOP/B at compulsory bytes: 1000 non-zeros, N = 100, 200,000 flops over 100,000 bytes; 0.1 ms are 2 GFLOP/s.
SHAPE = {"nnz": 1000, "compulsory_bytes": 100_000, "time_ms": 0.1, "useful_gflops": 2.0, "padded_gflops": 8.0, "m": 250}


@pytest.fixture(scope="module")
def columns(tmp_path_factory):
    """``columns(dram, cache)``: the row of the roofline of :data:`SHAPE`, with such traffic counted or none."""
    folder = tmp_path_factory.mktemp("columns")

    def row(dram=None, cache=None, l2=8000.0, state="cold", **changes):
        case = synthetic.measure_row("mma_bt", "cfd1", 100, **SHAPE | {"l2": state} | changes)
        files = synthetic.write_measures([case], folder / "measure")
        names = contracts.table("profile").names
        counted = {"dram__bytes.sum": dram, "lts__t_sectors_srcunit_tex.sum": cache and cache / 32}
        lines = [
            {name: case[name] for name in names if name in case} | {"metric": metric, "unit": "byte", "value": value}
            for metric, value in counted.items()
            if value is not None
        ]
        contracts.write(contracts.frame(lines, "profile"), folder / "counted.csv", "profile")
        out = synthetic.analyse(folder / "out", measured=files, profiled=[folder / "counted.csv"])
        cases = contracts.read(out / "cases.csv", "analysis_cases")
        cases["compute_limit_gflops"] = 400.0
        counters = contracts.read(out / "counters.csv", "analysis_counters")
        rates = {"h200": 4000.0}, {"h200": l2} if l2 else {}
        (found,) = roofline.roofline(cases, counters, *rates, {"h200": 60_000_000}).to_dict("records")
        return found

    return row


def test_what_was_not_counted_stands_at_compulsory_bytes(columns):
    row = columns()
    assert not row["counted"] and row["intensity_flop_per_byte"] == pytest.approx(2.0)
    # C, 250×100 values of two bytes, may stay in L2: 50 kB at 4000 GB/s, 100 kB at 8000; three of four products are
    # stored zeros; 200,000 flops in the 4 µs of an empty replay are 50 GFLOP/s.
    assert (row["dram_limit_gflops"], row["compute_limit_gflops"]) == (pytest.approx(16_000), pytest.approx(100))
    assert (row["l2_limit_gflops"], row["launch_limit_gflops"]) == (pytest.approx(16_000), pytest.approx(50))
    assert (row["bound"], row["bound_fraction"]) == ("launch", pytest.approx(0.04))
    assert row["distance"] == pytest.approx(25)
    # In 0.05 ms 4000 GB/s move 200 MB, more than there are, and 400 GFLOP/s do 20 MFLOP.
    assert (row["save_dram_bytes"], row["save_flops"]) == (0, 0)
    assert row["save_l2_bytes"] != row["save_l2_bytes"]


def test_dram_binds_by_what_was_moved(columns):
    # 0.3 GB at 4000 GB/s take 0.075 ms: three quarters of the time; for half of it 0.1 GB are too many.
    row = columns(dram=3e8, cache=4e8)
    assert row["counted"] and row["dram_flop_per_byte"] == pytest.approx(2e5 / 3e8)
    assert (row["bound"], row["bound_fraction"]) == ("dram", pytest.approx(0.75))
    assert row["save_dram_bytes"] == pytest.approx(1e8)
    assert row["save_l2_bytes"] == 0 and row["distance"] == pytest.approx(4 / 3)


def test_l2_binds_where_it_moves_more_than_dram(columns):
    # 0.6 GB at 8000 GB/s: three quarters again.
    row = columns(dram=1e8, cache=6e8)
    assert (row["bound"], row["bound_fraction"]) == ("l2", pytest.approx(0.75))
    assert (row["save_dram_bytes"], row["save_l2_bytes"]) == (0, pytest.approx(2e8))
    without = columns(dram=1e8, cache=6e8, l2=None)
    assert without["bound"] == "dram" and without["l2_limit_gflops"] != without["l2_limit_gflops"]


def test_with_a_warm_l2_bytes_of_dram_are_those_of_another_call(columns):
    # The passes of a profile leave another L2: what it read from DRAM binds nothing, and all of the case fits.
    row = columns(dram=3e8, cache=4e8, state="warm")
    assert row["dram_limit_gflops"] != row["dram_limit_gflops"]
    assert (row["bound"], row["bound_fraction"]) == ("l2", pytest.approx(0.5))


def test_a_share_above_one_fails_by_row(columns):
    with pytest.raises(contracts.ContractError, match=r"'bound_fraction' is above 1.05 .* kernel=mma_bt, matrix=cfd1"):
        columns(dram=4.4e8, cache=4e8)  # 0.11 ms at 4000 GB/s, in 0.1 ms


def test_stored_zeros_count_against_the_unit(columns):
    # 300 GFLOP/s of 400, most of them on zeros.
    row = columns(dram=1e6, cache=1e6, padded_gflops=300.0, replay_ms=0.001)
    assert (row["bound"], row["bound_fraction"]) == ("compute", pytest.approx(0.75))
    assert row["save_flops"] == pytest.approx((300 - 200) * 1e9 * 1e-4)


# --- the stage --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "h200"
    recorded = synthetic.write_recorded(folder, ceilings=synthetic.ceiling_rows())
    out = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return analysis.read(out)


def test_recorded_ceilings_limit_the_rows(tables):
    rows = tables["cases"][tables["cases"]["status"] == "ok"].set_index("kernel")
    assert set(rows.loc["mma_bt_f32", "compute_limit_gflops"]) == {635_000}
    assert set(rows.loc["row_split", "compute_limit_gflops"]) == {60_000}
    assert set(rows.loc["mma_bt_f32", "compute_basis"]) == {"measured"}
    assert set(rows.loc["bricks", "compute_basis"]) == {"datasheet"}, "nobody measured TF32"
    limits = rows["bandwidth_limit_gflops"] / rows["intensity_flop_per_byte"]
    assert limits.to_numpy() == pytest.approx(4400.0), "the highest rate of DRAM"


def test_gains_of_tensor_cores_compare_what_was_measured_with_what_was_measured(tables):
    alpha = tables["bounds"].groupby("kernel")["alpha"].first()
    assert alpha["mma_bt_f32"] == pytest.approx(635 / 60)
    assert alpha["mma_obts"] == pytest.approx(950 / 2 / 60)
    assert alpha["bricks"] == pytest.approx(494.7 / 66.9)


def test_every_verified_row_has_its_place(tables):
    rows = tables["roofline"]
    cases = tables["cases"]
    launched = cases[(cases["status"] == "ok") & ~cases["kernel"].str.startswith("cusparse_best")]
    assert len(rows) == len(launched) and rows["counted"].sum() == 2
    counted = rows[rows["counted"]]
    assert set(counted["kernel"]) == {"bricks", "mma_bt"} and counted["l2_limit_gflops"].notna().all()
    assert ((rows["distance"] * rows["bound_fraction"]).to_numpy() == pytest.approx(1.0)) and (
        rows["bound"] != ""
    ).all()


def test_of_local_and_recorded_ceilings_the_highest_limits(tmp_path):
    recorded = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    faster = {"chains": 61_000.0, "group_products": 700_000.0}
    rows = [row for row in synthetic.ceiling_rows() if row["kernel"] in faster]
    local = [row | {"rate_gflops": faster[row["kernel"]]} for row in rows]
    contracts.write(contracts.frame(local, "measure_ceilings"), tmp_path / "ceilings.csv", "measure_ceilings")
    out = synthetic.analyse(tmp_path / "out", recorded=[recorded], measured_ceilings=[tmp_path / "ceilings.csv"])
    rows = contracts.read(out / "ceilings.csv", "analysis_ceilings")
    own = rows[rows["device"] == "h200"].set_index(["ceiling", "through"])["measured"]
    assert own["float32_cuda", ""] == 61_000 and own["float16_tensor", "wgmma"] == 800_000
