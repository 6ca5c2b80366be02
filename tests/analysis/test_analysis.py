"""The stage as a whole, and the analyses that summarise cases."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import analysis, contracts, forked
from spmm_roofline.analysis.bootstrap import geomean_interval
from spmm_roofline.analysis.cases import families_of
from spmm_roofline.analysis.families import families
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("analysis")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, recorded):
    return synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])


@pytest.fixture(scope="module")
def tables(folder):
    return read(folder)


def read(folder):
    return analysis.read(folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


# --- bootstrap --------------------------------------------------------------------------------------------------------


def test_geometric_mean_by_hand():
    mean, low, high = geomean_interval([0.5, 2.0, 2.0, 8.0], ("a",), 1000)
    assert mean == pytest.approx(2.0)
    assert 0.5 <= low < mean < high <= 8.0


@pytest.mark.parametrize("ratios", [[1.3], [1.0, 1.69], [1.0, 1.3, 1.69]])
def test_fewer_than_four_ratios_have_no_interval(ratios):
    mean, low, high = geomean_interval(ratios, ("a",), 1000)
    assert mean == pytest.approx(1.3) and math.isnan(low) and math.isnan(high)


def test_equal_ratios_give_a_degenerate_interval():
    assert geomean_interval([1.3] * 5, ("a",), 1000) == (pytest.approx(1.3),) * 3


def test_the_interval_depends_on_data_and_key_alone():
    ratios = [0.7, 1.1, 1.9, 0.4]
    np.random.default_rng().random(10)
    assert geomean_interval(ratios, ("a", 32), 500) == geomean_interval(ratios, ("a", 32), 500)
    assert geomean_interval(ratios, ("a", 32), 500) != geomean_interval(ratios, ("b", 32), 500)


def test_the_interval_agrees_with_the_normal_one_for_many_matrices():
    logs = np.random.default_rng(1).normal(0.2, 0.5, 4000)
    _, low, high = geomean_interval(np.exp(logs), ("a",), 2000)
    half = 1.96 * logs.std() / math.sqrt(logs.size)
    assert math.log(low) == pytest.approx(logs.mean() - half, abs=0.1 * half)
    assert math.log(high) == pytest.approx(logs.mean() + half, abs=0.1 * half)


# --- summaries --------------------------------------------------------------------------------------------------------


def test_speedup_is_the_geometric_mean_over_the_matrices_of_a_suite(tables):
    wanted = ("real-sample", "mma_bt", 128)
    cases, means = tables["cases"], tables["speedup"]
    one = means[(means["suite"] == wanted[0]) & (means["kernel"] == wanted[1]) & (means["n"] == wanted[2])].iloc[0]
    own = cases[(cases["suite"] == wanted[0]) & (cases["kernel"] == wanted[1]) & (cases["n"] == wanted[2])]
    assert one["matrices"] == 4
    assert one["geomean"] == pytest.approx(np.prod(own["speedup"]) ** 0.25)
    assert one["wins"] == (own["speedup"] > 1).sum() == 2
    assert (one["best"], one["worst"]) == (own["speedup"].max(), own["speedup"].min())
    assert one["worst"] < one["geomean_low"] < one["geomean"] < one["geomean_high"] < one["best"]


def test_the_derived_baseline_is_a_case_and_no_competitor(tables):
    derived = tables["cases"]["kernel"].str.startswith("cusparse_best_")
    assert set(tables["cases"].loc[derived, "kernel"]) == {f"cusparse_best_{s}" for s in ("f16", "bf16", "f32")}
    for name in ("speedup", "fastest", "status"):
        assert not tables[name]["kernel"].str.startswith("cusparse_best").any(), f"cusparse_best is in {name}"


def test_among_kinds_cusparse_takes_part_as_its_best(tables):
    library = tables["kinds"][tables["kinds"]["study"] == "cusparse"]
    assert set(library["kernel"]) <= {f"cusparse_best_{s}" for s in ("f16", "bf16", "f32")}
    assert len(library) and (library["speedup"] == 1).all() and library["speedup_low"].isna().all()
    assert (library["wins"] == 0).all()


def test_fastest_and_runner_up(tables):
    cases, fastest = tables["cases"], tables["fastest"]
    assert len(fastest) == 6 * 3 * 4  # matrices, widths, precisions
    one = fastest[(fastest["matrix"] == "cfd1") & (fastest["n"] == 32) & (fastest["precision"] == "float32")].iloc[0]
    own = cases[(cases["matrix"] == "cfd1") & (cases["n"] == 32) & (cases["precision"] == "float32")]
    times = own[~own["kernel"].str.startswith("cusparse_best") & ~own["noisy"]].sort_values("time_ms")
    assert [one["kernel"], one["runner_up"]] == list(times["kernel"].head(2))
    assert "row_split" not in set(times["kernel"]), "its row is noisy"
    assert [one["time_ms"], one["runner_up_ms"]] == list(times["time_ms"].head(2))
    alone = fastest[fastest["precision"] == "bfloat16"]
    assert (alone["runner_up"] == "").all()
    assert alone["runner_up_ms"].isna().all()


def test_a_kernel_that_refuses_a_matrix_is_no_choice_for_its_kind(tmp_path):
    rows = [
        synthetic.measure_row("mma_bt", "cfd1", 32, time_ms=2.0, useful_gflops=10.0),
        synthetic.measure_row("mma_bt", "bcsstk32", 32, time_ms=2.0, useful_gflops=10.0),
        synthetic.measure_row("mma_obts", "cfd1", 32, time_ms=1.0, useful_gflops=20.0),
        synthetic.measure_row("mma_obts", "bcsstk32", 32, status="unsupported", message="refused"),
    ]
    files = synthetic.write_measures(rows, tmp_path / "measure")
    same_kind = [synthetic.matrix_row(name) | {"kind": "mesh"} for name in ("cfd1", "bcsstk32")]
    jsons = []
    for row in same_kind:
        jsons.append(tmp_path / f"{row['matrix']}.json")
        contracts.write_row(row, jsons[-1], "matrices")
    kinds = read(synthetic.analyse(tmp_path / "out", measured=files, matrices=jsons))["kinds"]
    assert list(kinds["kernel"]) == ["mma_bt"]
    assert list(kinds["matrices"]) == [2]
    assert kinds["speedup"].isna().all()  # no cuSPARSE row to compare with


def test_one_device_is_compared_with_none(tables):
    assert tables["across"].empty


def test_the_ladder_compares_each_rung_with_the_one_it_names(tables):
    ladder = tables["ladder"]
    assert set(zip(ladder["kernel"], ladder["after"], strict=True)) == {
        ("mma_bt", "mma_t"),
        ("mma_bt_f32", "mma_bt"),
        ("mma_obts", "mma_bt"),
    }
    # mma_t is wrong on one matrix at N = 512: that matrix leaves the comparison.
    counts = ladder[(ladder["suite"] == "real-sample") & (ladder["kernel"] == "mma_bt")].set_index("n")["matrices"]
    assert dict(counts) == {32: 4, 128: 4, 512: 3}


def test_a_family_is_the_fastest_of_its_members_on_each_case(tables):
    cases, rows = tables["cases"], tables["families"]
    members = cases[cases["kernel"].isin(["mma_t", "mma_bt"]) & (cases["status"] == "ok")]
    best = members.groupby(["suite", "matrix", "n"])["time_ms"].min()
    assert len(rows) == len(best) == 6 * 3 and set(rows["family"]) == {"blocks"}
    for row in rows.itertuples():
        assert row.time_ms == best[row.suite, row.matrix, row.n]
        wrong = (row.matrix, row.n) == ("dblp-2010", 512)  # where mma_t has no time
        assert (row.kernel, row.members) == ("mma_bt", 1 if wrong else 2)


def test_rows_of_two_kinds_of_host_are_one_case_of_a_family(tables):
    cases = tables["cases"]
    moved = cases.assign(host=cases["host"].where(cases["kernel"] != "mma_bt", "4"))
    assert moved["host"].nunique() > cases["host"].nunique()
    pd.testing.assert_frame_equal(families(moved, synthetic.HEADS), tables["families"], check_dtype=False)


def test_a_variant_that_tries_one_decision_is_in_no_family(tables):
    heads = {
        "tiles": {"family": "tiles", "path": "tiles.cu"},
        "tiles_wide": {"family": "tiles", "path": "tiles.cu"},
        "tiles_cached": {"family": None, "path": "tiles.cu"},
        "tiles_later": {"family": None, "path": "tiles_later.cu"},
    }
    assert families_of(heads) == {
        "tiles": "tiles", "tiles_wide": "tiles", "tiles_cached": "", "tiles_later": "tiles_later"
    }  # fmt: skip
    rows = tables["cases"]
    assert set(rows.loc[rows["kernel"].isin(["mma_t", "mma_bt"]), "family"]) == {"blocks"}
    alone = rows[~rows["kernel"].isin(["mma_t", "mma_bt"])]
    assert (alone["family"] == alone["kernel"]).all() and alone["kernel"].str.startswith("cusparse_best").any()


def test_status_counts_every_launched_row_once(tables):
    status = tables["status"]
    assert status["rows"].sum() == len(synthetic.measure_rows())
    failed = status[status["status"] != "ok"].set_index("status")
    assert failed.loc["wrong", "rows"] == 1
    assert failed.loc["wrong", "example"] == "dblp-2010, n = 512"
    assert failed.loc["unsupported", "rows"] == 3
    assert failed.loc["unsupported", "message"] == "needs as many rows as columns"


def test_without_ceilings_the_copy_stands_beside_the_datasheet(tables):
    own = tables["ceilings"][tables["ceilings"]["device"] == "h200"].set_index("ceiling")
    assert (own["measured"]["dram_copy"], own["datasheet"]["dram_copy"]) == (synthetic.COPY_GB_PER_S, 4800)
    assert own["share_fraction"]["dram_copy"] == pytest.approx(synthetic.COPY_GB_PER_S / 4800)
    assert own["datasheet"]["float16_tensor"] == 989_400 and own["measured"].notna().sum() == 1
    other = tables["ceilings"][tables["ceilings"]["device"] == "a100"]
    assert "dram" in set(other["ceiling"]) and other["measured"].isna().all()
    assert set(tables["cases"]["compute_basis"]) == {"datasheet", ""}


# --- the stage --------------------------------------------------------------------------------------------------------


def test_recorded_rows_alone_are_enough(tables):
    assert set(tables["cases"]["origin"]) == {"recorded"}
    assert not tables["cases"]["stale"].any()
    assert set(tables["matrices"]["matrix"]) == set(synthetic.MATRICES)
    device = tables["devices"].iloc[0]
    assert (device["title"], device["recorded_rows"], device["local_rows"]) == ("NVIDIA H200 (SXM)", 180, 0)


@pytest.mark.parametrize(("processes", "few"), [(2, 0), (5, analysis.FEW)])
def test_the_tables_do_not_depend_on_the_number_of_processes(folder, recorded, tmp_path, monkeypatch, processes, few):
    monkeypatch.setattr(forked, "processors", lambda: processes)
    monkeypatch.setattr(analysis, "FEW", few)
    assert contents(synthetic.analyse(tmp_path, recorded=[recorded], processes=processes)) == contents(folder)


def test_the_same_input_gives_the_same_bytes(folder, recorded, tmp_path):
    assert contents(synthetic.analyse(tmp_path, recorded=[recorded])) == contents(folder)


def test_local_rows_alone_are_enough(tmp_path):
    files = synthetic.write_measures(synthetic.measure_rows(), tmp_path / "measure")
    (tmp_path / "device.json").write_text(json.dumps(synthetic.device_record()))
    jsons = {"matrices": [], "formats": [], "kernels": []}
    for name, rows in (
        ("matrices", [synthetic.matrix_row(name) for name in synthetic.MATRICES]),
        ("formats", synthetic.format_rows()),
        ("kernels", synthetic.kernel_rows()),
    ):
        for number, row in enumerate(rows):
            path = tmp_path / name / f"{number}.json"
            contracts.write_row(row, path, name)
            jsons[name].append(path)
    out = synthetic.analyse(tmp_path / "out", measured=files, device_records=[tmp_path / "device.json"], **jsons)
    tables = read(out)
    assert set(tables["cases"]["origin"]) == {"local"}
    assert tables["cases"]["bound_fraction"].notna().sum() > 100
    assert len(tables["kernels"]) == len(synthetic.kernel_rows())


def test_neither_gives_empty_tables_and_the_datasheets(tmp_path):
    tables = read(synthetic.analyse(tmp_path))
    assert {name for name, table in tables.items() if len(table)} == {"ceilings"}


def test_local_structure_and_device_replace_what_was_recorded(recorded, tmp_path):
    row = synthetic.matrix_row("cfd1") | {"kind": "my own"}
    contracts.write_row(row, tmp_path / "cfd1.json", "matrices")
    (tmp_path / "device.json").write_text(json.dumps(synthetic.device_record(copy_gb_per_s=2000.0)))
    slow = {"time_ms": 0.5, "useful_gflops": 200.0, "padded_gflops": 2000.0}
    files = synthetic.write_measures([synthetic.measure_row("mma_bt", "cfd1", 32, **slow)], tmp_path / "measure")
    tables = read(
        synthetic.analyse(
            tmp_path / "out",
            measured=files,
            recorded=[recorded],
            matrices=[tmp_path / "cfd1.json"],
            device_records=[tmp_path / "device.json"],
        )
    )
    assert len(tables["matrices"]) == len(synthetic.MATRICES)
    cases = tables["cases"]
    assert set(cases.loc[cases["matrix"] == "cfd1", "kind"]) == {"my own"}
    local = cases[cases["origin"] == "local"]
    assert list(local["time_ms"]) == [0.5]
    # What the recorded device was seen to reach is a limit of this one too, until it reaches more.
    assert local["bandwidth_limit_gflops"].iloc[0] == pytest.approx(
        local["intensity_flop_per_byte"].iloc[0] * synthetic.COPY_GB_PER_S
    )


def test_a_bad_recorded_file_is_named(recorded, tmp_path):
    bad = tmp_path / "h200"
    (bad / "quick").mkdir(parents=True)
    (bad / "quick" / "mma_bt.csv").write_text("device,arch\nh200,sm_90a\n")
    with pytest.raises(contracts.ContractError, match=r"quick/mma_bt\.csv"):
        synthetic.analyse(tmp_path / "out", recorded=[bad])
