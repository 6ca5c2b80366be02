"""Precedence, staleness, baseline and bound of single rows, on tables small enough to work by hand."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.cases import cases, once, timed
from tests.analysis import synthetic

PEAKS = {"h200": {"float16_tensor": 989_400.0, "float32_cuda": 66_900.0}}
COPY = {"h200": 4000.0}


def table(*rows):
    return contracts.frame(rows, "measure")


def analysed(measured=(), recorded=(), **changes):
    matrices = contracts.frame([synthetic.matrix_row(name) for name in synthetic.MATRICES], "matrices")
    kernels = contracts.frame([], "kernels")
    inputs = {
        "compilations": kernels,
        "heads": synthetic.HEADS,
        "fingerprints": synthetic.FINGERPRINTS,
        "peaks": PEAKS,
        "dram_gb_per_s": COPY,
        "l2_gb_per_s": {"h200": 8000.0},
        "described": {"h200": synthetic.device_record()},
    }
    return cases(table(*measured), table(*recorded), matrices, **inputs | changes)


def row(kernel, n=32, matrix="cfd1", **changes):
    return synthetic.measure_row(kernel, matrix, n, **changes)


def only(rows, **wanted):
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, f"{len(rows)} rows have {wanted}, not one"
    return rows.iloc[0]


def test_a_local_row_replaces_the_recorded_row_of_its_key_and_no_other():
    recorded = [row("mma_bt", n=32, time_ms=2.0), row("mma_bt", n=128, time_ms=3.0)]
    result = analysed([row("mma_bt", n=32, time_ms=1.0)], recorded)
    assert list(result["n"]) == [32, 128]
    assert list(result["time_ms"]) == [1.0, 3.0]
    assert list(result["origin"]) == ["local", "recorded"]


def test_stale_is_a_kernel_that_changed_or_is_gone():
    rows = [row("mma_bt"), row("mma_t"), row("row_split")]
    present = {"mma_bt": synthetic.FINGERPRINTS["mma_bt"], "mma_t": "something else"}
    result = analysed(recorded=rows, fingerprints=present)
    assert dict(zip(result["kernel"], result["stale"], strict=True)) == {
        "mma_bt": False,
        "mma_t": True,
        "row_split": True,
    }


def test_a_source_that_changed_without_its_machine_code_is_not_stale():
    """An addition to a header that a kernel includes: neither code nor launch is another."""
    past = [line for line in synthetic.kernel_rows() if line["kernel"] == "mma_bt"]
    present = {"mma_bt": synthetic.sha256("a header grew")}
    now = [line | {"kernel_sha256": present["mma_bt"]} for line in past]
    for changes, stale in (({}, False), ({"cubin_sha256": "x"}, True), ({"launch_sha256": "x"}, True)):
        kernels = contracts.frame([*past, *(line | changes for line in now)], "kernels")
        result = analysed(recorded=[row("mma_bt")], fingerprints=present, compilations=kernels)
        assert list(result["stale"]) == [stale]
    assert list(analysed(recorded=[row("mma_bt")], fingerprints=present)["stale"]) == [True], "nobody knows the code"


def test_a_row_whose_packer_changed_is_stale():
    packed = dict(zip(synthetic.MATRICES, ("was", "", "is"), strict=False))
    rows = [row("mma_bt", matrix=name) | {"packer_sha256": sha} for name, sha in packed.items()]
    heads = {name: {**head, "packer": "packer"} for name, head in synthetic.HEADS.items()}
    fingerprints = {**synthetic.FINGERPRINTS, "packer": "is"}
    result = analysed(recorded=rows, fingerprints=fingerprints, heads=heads)
    assert {row.packer_sha256: row.stale for row in result.itertuples()} == {"was": True, "": False, "is": False}


def test_the_baseline_is_the_fastest_variant_of_the_same_precision():
    rows = [
        row("cusparse_csr_alg2_f32", time_ms=4.0),
        row("cusparse_csr_alg3_f32", time_ms=3.0),
        row("cusparse_csr_alg2_f16", time_ms=2.0),
        row("row_split", time_ms=1.5),
        row("mma_bt", time_ms=4.0),
    ]
    result = analysed(rows)
    assert only(result, kernel="row_split")["speedup"] == 2.0
    assert only(result, kernel="mma_bt")["speedup"] == 0.5
    assert only(result, kernel="cusparse_csr_alg2_f32")["speedup"] == 0.75
    best = only(result, kernel="cusparse_best_f32")
    assert (best["time_ms"], best["message"], best["speedup"]) == (3.0, "cusparse_csr_alg3_f32", 1.0)
    assert only(result, kernel="cusparse_best_f16")["message"] == "cusparse_csr_alg2_f16"


def test_tf32_is_compared_with_fp32():
    library = [row(f"cusparse_csr_alg{number}_f32", time_ms=4.0) for number in (2, 3)]
    result = only(analysed([*library, row("row_split", time_ms=1.0, dtype_a="tf32")]), kernel="row_split")
    assert (result["precision"], result["speedup"]) == ("tf32", 4.0)


def test_there_is_no_baseline_unless_every_algorithm_was_run():
    one, other = row("cusparse_csr_alg2_f32", time_ms=4.0), row("cusparse_csr_alg3_f32", time_ms=3.0)
    mine = row("row_split", time_ms=1.0)
    for rows, missing in (([], "all"), ([one], "cusparse_csr_alg3_f32"), ([one, other], "")):
        result = analysed([*rows, mine])
        own = only(result, kernel="row_split")
        assert own["baseline_missing"] == missing and own.isna()["speedup"] == bool(missing)
        assert ("cusparse_best_f32" in set(result["kernel"])) == (not missing)
    # In another suite or state of L2 it is another case.
    for changes in ({"suite": "elsewhere"}, {"l2": "warm"}):
        own = only(analysed([one, other | changes, mine]), kernel="row_split")
        assert own["baseline_missing"] == "cusparse_csr_alg3_f32" and own.isna()["speedup"]
    # What the library refuses was run.
    refused = row("cusparse_csr_alg3_f32", status="unsupported", message="the library does not take it")
    assert only(analysed([one, refused, mine]), kernel="row_split")["speedup"] == 4.0


def test_an_algorithm_for_one_column_is_wanted_for_one_column():
    third = {**synthetic.HEADS["cusparse_csr_alg3_f32"], "one_column": True}
    rows = [
        row(name, n=n, time_ms=time) for n in (1, 8) for name, time in (("cusparse_csr_alg2_f32", 4), ("row_split", 1))
    ]
    result = analysed(rows, heads={**synthetic.HEADS, "cusparse_csr_alg3_f32": third})
    vector, matrix = (only(result, kernel="row_split", n=n) for n in (1, 8))
    assert vector.isna()["speedup"] and vector["baseline_missing"] == "cusparse_csr_alg3_f32"
    assert matrix["speedup"] == 4.0 and matrix["baseline_missing"] == ""


def test_noisy_rows_are_neither_baseline_nor_compared():
    one, other = row("cusparse_csr_alg2_f32", time_ms=4.0), row("cusparse_csr_alg3_f32", time_ms=5.0, noisy=True)
    result = analysed([one, other, row("row_split", time_ms=1.0)])
    assert only(result, kernel="row_split")["speedup"] == 4.0
    assert only(result, kernel="cusparse_csr_alg3_f32").isna()["speedup"]
    assert len(timed(result)) == 3 and "cusparse_csr_alg3_f32" not in set(timed(result)["kernel"])


def test_a_case_whose_fastest_cusparse_row_is_noisy_has_no_baseline():
    one, other = row("cusparse_csr_alg2_f32", time_ms=4.0), row("cusparse_csr_alg3_f32", time_ms=3.0, noisy=True)
    assert only(analysed([one, other, row("row_split", time_ms=1.0)]), kernel="row_split").isna()["speedup"]


def test_times_of_two_kinds_of_host_are_not_compared():
    library = [row(f"cusparse_csr_alg{number}_f32", time_ms=4.0, replay_ms=0.0044) for number in (2, 3)]
    near, far = (row("row_split", time_ms=1.0, replay_ms=replay) for replay in (0.0048, 0.0031))
    assert only(analysed([*library, near]), kernel="row_split")["speedup"] == 4.0
    result = analysed([*library, far])
    assert only(result, kernel="row_split").isna()["speedup"]
    assert set(result["host"]) == {"4.4", "3.1"}


def test_a_baseline_is_whole_on_one_kind_of_host():
    # One algorithm was measured anew on another host: neither host has them all.
    here, there = row("cusparse_csr_alg2_f32", replay_ms=0.0031), row("cusparse_csr_alg3_f32", replay_ms=0.0044)
    own = only(analysed([here, there, row("row_split", replay_ms=0.0031)]), kernel="row_split")
    assert own["baseline_missing"] == "cusparse_csr_alg3_f32" and own.isna()["speedup"]


def test_shards_of_a_kernel_may_have_run_on_two_kinds_of_host():
    rows = [row("mma_bt", matrix=name, replay_ms=ms) for name, ms in (("cfd1", 0.003), ("bcsstk32", 0.0031))]
    rows += [row("mma_t", matrix=name, replay_ms=ms) for name, ms in (("cfd1", 0.003), ("bcsstk32", 0.0046))]
    rows += [row("mma_bt_f32", matrix=name, replay_ms=0.0045) for name in ("cfd1", "bcsstk32")]
    found = analysed(rows).set_index(["kernel", "matrix"])["host"]
    assert found["mma_t", "cfd1"] == found["mma_bt", "cfd1"] == found["mma_bt", "bcsstk32"]
    assert found["mma_t", "bcsstk32"] != found["mma_t", "cfd1"]


def test_a_job_is_of_one_host_whatever_the_jitter_of_its_replays():
    rows = [
        row("mma_bt", matrix=name, replay_ms=ms)
        for name, ms in (("cfd1", 0.003), ("bcsstk32", 0.0032), ("dblp-2010", 0.009))
    ]
    assert set(analysed(rows)["host"]) == {"3.2"}


def test_rows_at_throttled_clocks_are_marked():
    rows = [row("mma_bt", sm_clock_mhz=1400), row("mma_t", sm_clock_mhz=1970), row("row_split", sm_clock_mhz=None)]
    assert dict(analysed(rows).set_index("kernel")["throttled"]) == {"mma_bt": True, "mma_t": False, "row_split": False}


def test_a_study_is_compared_with_the_call_that_it_made():
    heads = synthetic.HEADS | {"own_call": synthetic.HEADS["cusparse_csr_alg2_f32"] | {"baseline": "scalar"}}
    call = row("cusparse_csr_alg2_f32", time_ms=6.0) | {"kernel": "own_call"}
    result = analysed([call, row("row_split", time_ms=2.0), row("mma_bt", time_ms=2.0)], heads=heads)
    assert only(result, kernel="row_split")["over_own_call"] == 3.0
    assert only(result, kernel="mma_bt").isna()["over_own_call"], "of another study"


def test_a_case_of_several_suites_counts_once_with_the_best_of_each_side():
    library = [row(f"cusparse_csr_alg{number}_f32", time_ms=4.0) for number in (2, 3)]
    elsewhere = [line | {"suite": "elsewhere", "time_ms": 3.0} for line in library]
    mine = [row("row_split", time_ms=1.0), row("row_split", time_ms=1.5) | {"suite": "elsewhere"}]
    found = once(analysed([*library, *elsewhere, *mine])).set_index("kernel")
    assert found.loc["row_split", ["time_ms", "speedup"]].tolist() == [1.0, 3.0]
    assert found.loc["cusparse_best_f32", ["time_ms", "speedup"]].tolist() == [3.0, 1.0]


@pytest.mark.parametrize("unit, limit", [("tensor", 989_400.0), ("cuda", 66_900.0), (None, float("nan"))])
def test_an_external_library_is_limited_by_what_it_says_that_multiplies(unit, limit):
    own = {"study": "external", "features": [], "vendor": "external", "unit": unit, "baseline": None}
    heads = {"mine": synthetic.HEADS["mma_bt_f32"] | own}
    rows = [{**row("mma_bt_f32"), "kernel": "mine", "study": "external"}]
    assert only(analysed(rows, heads=heads), kernel="mine")["compute_limit_gflops"] == pytest.approx(limit, nan_ok=True)


@pytest.mark.parametrize("column, value", [("matrix_sha256", "another structure"), ("protocol", 2), ("l2", "warm")])
def test_rows_that_are_not_comparable_have_no_baseline(column, value):
    rows = [row("cusparse_csr_alg2_f32"), row("row_split", **{column: value})]
    assert only(analysed(rows), kernel="row_split").isna()["speedup"]


def test_a_wrong_cusparse_row_is_no_baseline():
    wrong = row("cusparse_csr_alg3_f32", status="wrong", message="relative error 2")  # it was run
    result = analysed([wrong, row("cusparse_csr_alg2_f32", time_ms=4.0), row("row_split", time_ms=2.0)])
    assert only(result, kernel="row_split")["speedup"] == 2.0
    assert only(result, kernel="cusparse_best_f32")["message"] == "cusparse_csr_alg2_f32"


def test_limits_of_a_row_worked_by_hand():
    # 1000 non-zeros, N = 100: 200 kFLOP over 100 kB is 2 FLOP/B, times 4000 GB/s is 8000 GFLOP/s; 0.1 ms is 2 GFLOP/s.
    # C, 250×100 values of two bytes, may stay in L2, so that 50 kB must come from DRAM: 16,000 GFLOP/s; so do 100 kB
    # through L2. An empty replay takes 4 µs: 50 GFLOP/s.
    changes = {"nnz": 1000, "compulsory_bytes": 100_000, "time_ms": 0.1, "useful_gflops": 2.0, "m": 250}
    result = only(analysed([row("mma_bt", n=100, **changes)]), kernel="mma_bt")
    assert result["intensity_flop_per_byte"] == pytest.approx(2.0)
    assert result["bandwidth_limit_gflops"] == pytest.approx(8000.0)
    assert result["memory_limit_gflops"] == pytest.approx(16_000.0)
    assert result["compute_limit_gflops"] == 989_400.0
    assert (result["bound"], result["bound_fraction"]) == ("launch", pytest.approx(2.0 / 50.0))
    quick = only(analysed([row("mma_bt", n=100, **changes, replay_ms=1e-6)]), kernel="mma_bt")
    assert (quick["bound"], quick["bound_fraction"]) == ("memory", pytest.approx(2.0 / 16_000))


def test_a_dense_enough_case_is_bound_by_the_unit_that_multiplies():
    # 20 FLOP/B times 4000 GB/s is 80 TFLOP/s: above the FP32 CUDA cores on which cuSPARSE adds, below tensor cores.
    changes = {"nnz": 10_000, "m": 0, "compulsory_bytes": 100_000, "useful_gflops": 6690.0, "replay_ms": 1e-6}
    result = analysed([row("cusparse_csr_alg2_f16", n=100, **changes), row("mma_bt", n=100, **changes)])
    library, tensor = only(result, kernel="cusparse_csr_alg2_f16"), only(result, kernel="mma_bt")
    assert (library["bound"], library["bound_fraction"]) == ("compute", pytest.approx(0.1))
    assert (tensor["bound"], tensor["bound_fraction"]) == ("memory", pytest.approx(6690 / 80_000))


def test_operands_in_l2_are_held_against_l2():
    # 2 FLOP/B from L2 at 8000 GB/s: 16 TFLOP/s, twice of what DRAM would allow.
    changes = {"nnz": 1000, "compulsory_bytes": 100_000, "replay_ms": 1e-6, "useful_gflops": 12_000.0}
    result = only(analysed([row("mma_bt", n=100, l2="warm", **changes)]), kernel="mma_bt")
    assert result["bandwidth_limit_gflops"] == pytest.approx(8000.0)
    assert (result["bound"], result["bound_fraction"]) == ("memory", pytest.approx(0.75))


def test_a_row_above_its_limit_fails_by_name():
    row_above = row("mma_bt", l2="warm", compulsory_bytes=10_000_000, useful_gflops=100_000.0)
    with pytest.raises(contracts.ContractError, match=r"'bound_fraction' is above 1.05 .*kernel=mma_bt, matrix=cfd1"):
        analysed([row_above])


@pytest.mark.parametrize("missing", [{"peaks": {}}, {"dram_gb_per_s": {}}, {"heads": {}}])
def test_without_datasheet_record_or_head_a_row_keeps_its_time_and_has_no_bound(missing):
    result = only(analysed([row("mma_bt")], **missing), kernel="mma_bt")
    assert result["time_ms"] > 0
    assert result["bound"] == ""
    assert result.isna()["bound_fraction"]


def test_an_empty_matrix_has_no_share_of_a_limit():
    result = only(analysed([row("mma_bt", nnz=0, useful_gflops=0.0)]), kernel="mma_bt")
    assert result["intensity_flop_per_byte"] == 0
    assert result.isna()["bound_fraction"]


def test_rows_without_a_time_stay_and_a_matrix_of_unknown_kind_says_so():
    unsupported = row("mma_bt", status="unsupported", message="n is no multiple of 8")
    result = only(analysed([unsupported | {"matrix": "mine"}]), kernel="mma_bt")
    assert (result["status"], result["kind"]) == ("unsupported", "unknown")
    assert result.isna()["speedup"]
