"""Limits against numbers worked by hand, most of them printed in the papers."""

import math

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import roofline
from spmm_roofline.kernels import heads
from tests.analysis.synthetic import ROOT


def datasheet(name):
    return contracts.document(ROOT / "config/devices" / f"{name}.yaml", "device")


def fp64_balance(name):
    sheet = datasheet(name)
    return roofline.machine_balance(sheet["peak_gflops"]["float64_cuda"], sheet["memory_gb_per_s"])


def test_machine_balance_of_the_gh200_follows_from_table_1_of_zhang_et_al():
    # 34.0 TFLOP/s over 4.00 TB/s. The text of the paper works with 9.99, the balance of an H100: 33.5 over 3.35.
    assert fp64_balance("gh200") == pytest.approx(8.5)
    assert fp64_balance("h100") == pytest.approx(9.99, abs=0.02)


def test_gemv_gains_at_most_5_percent_from_tensor_cores_on_an_a100():
    # Zhang et al., equation (24) and the example below it: 1 + I / B with I = 2 FLOP / 8 B.
    balance = roofline.machine_balance(9700, 1940)
    assert balance == pytest.approx(5.0)
    assert 1 + 0.25 / balance == pytest.approx(1.05)


@pytest.mark.parametrize(
    "features, dtype_a, accumulator, unit",
    [
        (["ldmatrix", "mma"], "float16", "float32", "float16_tensor"),
        (["mma"], "float16", "float16", "float16_tensor_float16_sums"),
        (["mma", "mma_sp"], "bfloat16", "float32", "bfloat16_tensor_sparse24"),
        (["mma_bf16"], "bfloat16", "float32", "bfloat16_tensor"),
        (["mma_f64"], "float64", "float64", "float64_tensor"),
        (["mma_f64_wide"], "float64", "float64", "float64_tensor"),
        (["mma_sp_tf32"], "tf32", "float32", "tf32_tensor_sparse24"),
        (["tma", "wgmma"], "tf32", "float32", "tf32_tensor"),
        (["mma_f8"], "float8_e4m3", "float32", "float8_e4m3_tensor"),
        (["mma_sp_f8"], "float8_e4m3", "float32", "float8_e4m3_tensor_sparse24"),
        (["tma", "wgmma", "wgmma_sp_f8"], "float8_e4m3", "float32", "float8_e4m3_tensor_sparse24"),
        (["cp_async"], "float32", "float32", "float32_cuda"),
        ([], "float16", "float32", "float32_cuda"),
        ([], "float16", "float16", "float16_cuda"),
    ],
)
def test_the_unit_that_multiplies_follows_from_instructions_and_dtypes(features, dtype_a, accumulator, unit):
    head = {"features": features, "dtype": {"a": dtype_a, "accumulator": accumulator}}
    assert roofline.unit(head) == unit
    assert roofline.on_tensor_cores(head) == ("tensor" in unit)
    assert roofline.skips_zeros(head) == ("sparse24" in unit)


@pytest.mark.parametrize(
    ("said", "unit", "through"),
    [
        ("cuda", "float32_cuda", ""),
        ("tensor", "bfloat16_tensor", None),
        ("tensor_sparse24", "bfloat16_tensor_sparse24", None),
        (None, None, ""),
    ],
)
def test_a_library_multiplies_on_the_unit_that_it_names(said, unit, through):
    head = {"vendor": "x", "unit": said, "features": [], "dtype": {"a": "bfloat16", "accumulator": "float32"}}
    assert (roofline.unit(head), roofline.instructions(head)) == (unit, through)


def test_every_library_names_its_unit():
    libraries = [head for head in heads(str(ROOT / "kernels")).values() if head.vendor]
    assert libraries and all(head.unit in ("cuda", "tensor", "tensor_sparse24") for head in libraries)
    dense = {head.name: head.unit for head in libraries if head.study in ("cublas", "cusparselt")}
    assert {name for name, unit in dense.items() if unit == "cuda"} == {"cublas_gemm", "cublaslt_gemm"}


def limits_of(l2="warm", n=100, rate=(4000.0, 8000.0), size=1_000_000, steps=1, **changes):
    """Limits of memory of 1000 non-zeros, whose C (m×n float32) has 0.4 MB of 1 MB of compulsory bytes."""
    import pandas as pd

    row = {"device": "d", "l2": l2, "steps": steps, "nnz": 1000, "m": 1000, "n": n, "dtype_c": "float32"}
    row |= {"dtype_a": "float32", "format_bytes": 1_000_000, "origin": "recorded", "suite": "s", "matrix": "a"}
    row |= {"status": "ok", "time_ms": 0.01, "format": "csr"}
    rows = pd.DataFrame([row | {"compulsory_bytes": 1_000_000, "replay_ms": 0.004} | changes])
    dram, cache = ({"d": value} if value else {} for value in rate)
    found = roofline.memory_limits(rows, dram, cache, {"d": size} if size else {})
    return found["dram"].item(), found["l2"].item(), roofline.launch_limit(rows).item()


def test_what_l2_can_keep_need_not_come_from_dram():
    flops = 2 * 1000 * 100
    # All of it fits: nothing must come from DRAM; 1 MB at 8 TB/s through L2 take 125 ns.
    assert limits_of() == (math.inf, pytest.approx(flops / 125), pytest.approx(flops / 4000))
    # A call that took 3 µs shows that the host needs no 4 µs to submit one; three steps of 1 µs are one call.
    assert limits_of(time_ms=0.003)[2] == pytest.approx(flops / 3000)
    assert limits_of(time_ms=0.001, steps=3)[2] == pytest.approx(3 * flops / 3000)
    assert limits_of(time_ms=0.003, status="wrong")[2] == pytest.approx(flops / 4000)
    # L2 keeps 0.6 MB of 1 MB from call to call: 0.4 MB at 4 TB/s take 100 ns.
    assert limits_of(size=600_000)[0] == pytest.approx(flops / 100)
    # After a flush A and B must come; C, 0.4 MB, may stay, as far as it fits: 0.6 MB, and 0.8 MB, take 150 and 200 ns.
    assert limits_of("cold")[0] == pytest.approx(flops / 150)
    assert limits_of("cold", size=200_000)[0] == pytest.approx(flops / 200)
    # In FP16 C has half of the bytes: 0.8 MB take 200 ns; in FP64 twice as many: 0.2 MB take 50 ns.
    assert limits_of("cold", dtype_c="float16")[0] == limits_of("cold", dtype_c="bfloat16")[0]
    assert limits_of("cold", dtype_c="float16")[0] == pytest.approx(flops / 200)
    assert limits_of("cold", dtype_c="float64")[0] == pytest.approx(flops / 50)
    # A call of three multiplications moves its operands once.
    once, thrice = limits_of("cold"), limits_of("cold", steps=3)
    assert thrice == pytest.approx([3 * limit for limit in once])


def test_a_format_that_is_smaller_than_csr_moves_less():
    flops = 2 * 1000 * 100
    # CSR in FP32 has 1000 · 8 + 1001 · 4 = 12,004 bytes: a format of 2,004 saves 10,000 of the million.
    assert limits_of(format_bytes=2_004)[1] == pytest.approx(flops / 125 / 0.99)
    assert limits_of(format_bytes=12_004) == limits_of(format_bytes=50_000) == limits_of(format_bytes=math.nan)
    # A format without structure: that of CSR is not among the compulsory bytes, and cannot be saved again.
    assert limits_of(format_bytes=2_004, format="stencil") == limits_of(format_bytes=math.nan)


@pytest.mark.parametrize(("rate", "size"), [((None, 8000.0), 1), ((4000.0, None), 1), ((4000.0, 8000.0), None)])
def test_a_limit_that_nobody_measured_is_unknown(rate, size):
    dram, cache, _ = limits_of(rate=rate, size=size)
    assert math.isnan(dram) == (rate[0] is None or size is None) and math.isnan(cache) == (rate[1] is None)


def case(**changes):
    """A case of 2 GFLOP in 1 ms whose ceilings allow 4 TB/s from DRAM, 8 TB/s from L2 and 100 TFLOP/s."""
    import pandas as pd

    row = {"device": "d", "suite": "s", "study": "smat", "kernel": "k", "matrix": "a", "n": 100, "l2": "cold"}
    row |= {
        "origin": "recorded",
        "precision": "float16",
        "dtype_a": "float16",
        "dtype_c": "float16",
        "format": "csr",
        "format_bytes": 90_000_000,
        "steps": 1,
        "m": 1000,
        "nnz": 10_000_000,
        "status": "ok",
    }
    row |= {"time_ms": 1.0, "useful_gflops": 2000.0, "padded_gflops": 50_000.0, "replay_ms": 0.004, "stale": False}
    row |= {"compulsory_bytes": 100_000_000, "intensity_flop_per_byte": 20.0, "compute_limit_gflops": 100_000.0}
    row |= {"memory_limit_gflops": 1.0, "compute_basis": "measured"}
    counted = {name: row[name] for name in roofline.KEY} | {"dram_bytes": 3e9, "cache_bytes": 6e9}
    counted |= {"dram_flop_per_byte": 2 / 3, "cache_flop_per_byte": 1 / 3}
    counted |= {name: changes.pop(name) for name in list(changes) if name in counted and name not in roofline.KEY}
    rows, counters = pd.DataFrame([row | changes]), pd.DataFrame([counted])
    counters["l2"] = rows["l2"]
    return roofline.roofline(rows, counters, {"d": 4000.0}, {"d": 8000.0}, {"d": 50_000_000})


def test_a_case_against_its_ceilings_by_hand():
    (row,) = case().to_dict("records")
    flops = 2e9
    # 3 GB at 4 TB/s take 0.75 ms, as 6 GB at 8 TB/s do; 50 GFLOP at 100 TFLOP/s take 0.5 ms; a replay takes 4 µs.
    assert row["dram_limit_gflops"] == pytest.approx(flops / 0.75e-3 * 1e-9)
    assert row["l2_limit_gflops"] == pytest.approx(flops / 0.75e-3 * 1e-9)
    assert row["compute_limit_gflops"] == pytest.approx(flops / 0.5e-3 * 1e-9)
    assert row["launch_limit_gflops"] == pytest.approx(flops / 4e-6 * 1e-9)
    assert (row["bound"], row["counted"]) == ("dram", True)
    assert row["bound_fraction"] == pytest.approx(0.75) and row["distance"] == pytest.approx(4 / 3)
    # Half the time allows 2 GB from DRAM, 4 GB from L2 and 50 GFLOP.
    assert row["save_dram_bytes"] == pytest.approx(1e9) and row["save_l2_bytes"] == pytest.approx(2e9)
    assert row["save_flops"] == 0


def test_what_binds_a_case_is_the_lowest_limit():
    def bound(**changes):
        return case(**changes).to_dict("records")[0]["bound"]

    assert bound(cache_bytes=7e9) == "l2"
    assert bound(dram_bytes=2e9, cache_bytes=4.1e9, padded_gflops=60_000.0) == "compute"
    assert bound(replay_ms=0.9) == "launch"
    assert case(padded_gflops=60_000.0)["save_flops"].item() == pytest.approx(1e10)
    # Calls with a warm L2 are held against compulsory bytes: 100 MB less the 50 MB that L2 keeps.
    assert case(l2="warm", dram_bytes=9e9)["dram_limit_gflops"].item() == pytest.approx(2e9 / (5e7 / 4e12) * 1e-9)
    assert case(time_ms=0.0).empty and case(intensity_flop_per_byte=0.0).empty and case(status="wrong").empty


def test_sums_in_fp16_are_faster_only_where_the_datasheet_says_so():
    unit = roofline.unit({"features": ["mma"], "dtype": {"a": "float16", "accumulator": "float16"}})
    assert roofline.peak_gflops(datasheet("rtx4090")["peak_gflops"], unit) == 330_300
    assert roofline.peak_gflops(datasheet("a100")["peak_gflops"], unit) == 312_000
    assert roofline.peak_gflops(datasheet("rtx4090")["peak_gflops"], "float64_tensor") is None


@pytest.mark.parametrize("path", sorted((ROOT / "config/devices").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_datasheet_is_consistent_in_itself(path):
    sheet = contracts.document(path, "device")
    peaks = sheet["peak_gflops"]
    assert sheet["name"] == path.stem
    # FP32: 64 (sm_80) or 128 cores a multiprocessor, two flops each a clock; on an H100 they clock above the tensor
    # cores, whose clock the file gives.
    cores = {"sm_80": 64, "sm_89": 128, "sm_90a": 128}[sheet["arch"]] * sheet["multiprocessors"]
    assert peaks["float32_cuda"] == pytest.approx(2e-3 * cores * sheet["boost_mhz"], rel=0.09)
    for dtype in ("float16", "bfloat16", "tf32"):
        assert peaks[f"{dtype}_tensor_sparse24"] == pytest.approx(2 * peaks[f"{dtype}_tensor"], rel=2e-3)
    assert peaks["float16_tensor"] == pytest.approx(2 * peaks["tf32_tensor"], rel=3e-3)
    if sheet["arch"] != "sm_80":
        assert peaks["float8_e4m3_tensor"] == pytest.approx(2 * peaks["float16_tensor"], rel=2e-3)
        assert peaks["float8_e4m3_tensor_sparse24"] == pytest.approx(2 * peaks["float8_e4m3_tensor"], rel=2e-3)
    assert math.log2(sheet["l2_bytes"] / 2**20) > 5
