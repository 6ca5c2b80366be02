"""Precedence, staleness, baseline and bound of single rows, on tables small enough to work by hand."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.cases import cases
from tests.analysis import synthetic

PEAKS = {"h200": {"float16_tensor": 989_400.0, "float32_cuda": 66_900.0}}
COPY = {"h200": 4000.0}


def table(*rows):
    return contracts.frame(rows, "measure")


def analysed(measured=(), recorded=(), **changes):
    matrices = contracts.frame([synthetic.matrix_row(name) for name in synthetic.MATRICES], "matrices")
    kernels = contracts.frame([], "kernels")
    inputs = {
        "kernels": kernels,
        "heads": synthetic.HEADS,
        "fingerprints": synthetic.FINGERPRINTS,
        "peaks": PEAKS,
        "dram_gb_per_s": COPY,
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
        result = analysed(recorded=[row("mma_bt")], fingerprints=present, kernels=kernels)
        assert list(result["stale"]) == [stale]
    assert list(analysed(recorded=[row("mma_bt")], fingerprints=present)["stale"]) == [True], "nobody knows the code"


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
    rows = [row("cusparse_csr_alg2_f32", time_ms=4.0), row("row_split", time_ms=1.0, dtype_a="tf32")]
    result = only(analysed(rows), kernel="row_split")
    assert (result["precision"], result["speedup"]) == ("tf32", 4.0)


@pytest.mark.parametrize("features, limit", [(["mma"], 989_400.0), (["cuda"], 66_900.0), ([], float("nan"))])
def test_an_external_library_is_limited_by_what_it_says_that_multiplies(features, limit):
    heads = {"mine": {**synthetic.HEADS["mma_bt_f32"], "study": "external", "features": features}}
    rows = [{**row("mma_bt_f32"), "kernel": "mine", "study": "external"}]
    assert only(analysed(rows, heads=heads), kernel="mine")["compute_limit_gflops"] == pytest.approx(limit, nan_ok=True)


@pytest.mark.parametrize("column, value", [("matrix_sha256", "another structure"), ("protocol", 2), ("l2", "warm")])
def test_rows_that_are_not_comparable_have_no_baseline(column, value):
    rows = [row("cusparse_csr_alg2_f32"), row("row_split", **{column: value})]
    assert only(analysed(rows), kernel="row_split").isna()["speedup"]


def test_a_wrong_cusparse_row_is_no_baseline():
    wrong = row("cusparse_csr_alg3_f32", status="wrong", message="relative error 2")
    result = analysed([wrong, row("cusparse_csr_alg2_f32", time_ms=4.0), row("row_split", time_ms=2.0)])
    assert only(result, kernel="row_split")["speedup"] == 2.0
    assert only(result, kernel="cusparse_best_f32")["message"] == "cusparse_csr_alg2_f32"


def test_limits_of_a_row_worked_by_hand():
    # 1000 non-zeros, N = 100: 200 kFLOP over 100 kB is 2 FLOP/B, times 4000 GB/s is 8000 GFLOP/s; 0.1 ms is 2 GFLOP/s.
    shape = {"nnz": 1000, "n": 100, "compulsory_bytes": 100_000, "time_ms": 0.1, "useful_gflops": 2.0}
    changes = {name: value for name, value in shape.items() if name != "n"}
    result = only(analysed([row("mma_bt", n=100, **changes)]), kernel="mma_bt")
    assert result["intensity_flop_per_byte"] == pytest.approx(2.0)
    assert result["bandwidth_limit_gflops"] == pytest.approx(8000.0)
    assert result["compute_limit_gflops"] == 989_400.0
    assert result["bound"] == "memory"
    assert result["bound_fraction"] == pytest.approx(2.0 / 8000.0)


def test_a_dense_enough_case_is_bound_by_the_unit_that_multiplies():
    # 20 FLOP/B times 4000 GB/s is 80 TFLOP/s: above the FP32 CUDA cores on which cuSPARSE adds, below tensor cores.
    changes = {"nnz": 10_000, "compulsory_bytes": 100_000, "useful_gflops": 6690.0}
    result = analysed([row("cusparse_csr_alg2_f16", n=100, **changes), row("mma_bt", n=100, **changes)])
    library, tensor = only(result, kernel="cusparse_csr_alg2_f16"), only(result, kernel="mma_bt")
    assert (library["bound"], library["bound_fraction"]) == ("compute", pytest.approx(0.1))
    assert (tensor["bound"], tensor["bound_fraction"]) == ("memory", pytest.approx(6690 / 80_000))


def test_operands_in_l2_may_exceed_the_copy():
    result = analysed([row("mma_bt", l2="warm", compulsory_bytes=10_000_000, useful_gflops=100_000.0)])
    assert only(result, kernel="mma_bt")["bound_fraction"] > 1


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
