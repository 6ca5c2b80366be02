"""The equations of "Can Tensor Cores Benefit Memory-Bound Kernels? (No!)" against the paper's worked numbers, and the
table of its workloads."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import workloads as module
from spmm_roofline.analysis.bounds import gain_of_balance
from spmm_roofline.analysis.roofline import machine_balance
from tests.analysis import synthetic

#: Table 1: TFLOP/s and TB/s.
A100 = {"cuda": 9.7, "tensor": 19.5, "bandwidth": 1.94}
GH200 = {"cuda": 34.0, "tensor": 67.0, "bandwidth": 4.0}


def test_balance():
    # Equation (1). Table 1 gives 8.5 FLOP/B for GH200; section 3.3 counts with 9.99, the H100's 33.5 / 3.35.
    assert machine_balance(A100["cuda"], A100["bandwidth"]) == pytest.approx(5.0)
    assert machine_balance(GH200["cuda"], GH200["bandwidth"]) == pytest.approx(8.5)
    assert machine_balance(33.5, 3.352) == pytest.approx(9.99, abs=0.01)
    # Equation (4).
    assert [module.binding(intensity, 5.0) for intensity in (0.25, 5.0, 5.1)] == ["memory", "memory", "compute"]


def test_intensities():
    # Section 3.1, equations (7), (10), (12) and (13).
    assert module.scale_intensity() == 1 / 16
    assert module.gemv_intensity() == 1 / 4
    assert module.spmv_csr_intensity() == pytest.approx(1 / 6)
    assert module.stencil_intensity(5) == 5 / 8
    assert module.stencil_intensity(5, steps=4) == 4 * 5 / 8


def test_blocked_time():
    # Equation (14).
    assert module.steps_to_compute_bound(5, 9.99) == pytest.approx(15.98, abs=0.01)
    assert module.steps_to_compute_bound(5, 8.5) == pytest.approx(13.6)


def test_limits():
    # Equations (23) and (24) with the paper's examples.
    assert module.unit_limit(2) == pytest.approx(1.33, abs=0.01)
    assert module.unit_limit(1e12) == pytest.approx(2)
    assert module.workload_limit(1 / 4, 5.0) == pytest.approx(1.05)
    assert module.workload_limit(1 / 4, 8.5) == pytest.approx(1.029, abs=0.001)
    # Both are the limits of equation (22).
    assert gain_of_balance(2, 5.0, 5.0) == pytest.approx(module.unit_limit(2))
    assert gain_of_balance(1e12, 0.25, 5.0) == pytest.approx(module.workload_limit(0.25, 5.0))
    for intensity in (0.01, 0.25, 1.0, 4.9):
        assert 1 < gain_of_balance(2, intensity, 5.0) < module.unit_limit(2)


def test_where_the_paper_disagrees_with_itself():
    balances = (GH200["cuda"] / GH200["bandwidth"], 9.99)
    # Section 5.5: 2d49pt is compute-bound on an A100 and memory-bound on a GH200. So it is, by either balance.
    assert module.binding(module.stencil_intensity(49), 5.0) == "compute"
    assert {module.binding(module.stencil_intensity(49), balance) for balance in balances} == {"memory"}
    # Section 4 calls all its kernels memory-bound on a GH200. Of table 3, 3d27pt with three blocked steps is not, by
    # either balance; section 5.5 names its bottleneck neither memory nor computation.
    for stencil, steps in module.STENCILS.items():
        bound = "compute" if stencil == "3d27pt" else "memory"
        intensity = module.stencil_intensity(module._points(stencil), steps[-1])
        assert {module.binding(intensity, balance) for balance in balances} == {bound}
    # The 1.33 of FP64 is that of α = 2; table 1 makes it 2.01 and 1.97. The abstract counts the V100 in, whose tensor
    # cores know no FP64.
    assert module.unit_limit(A100["tensor"] / A100["cuda"]) == pytest.approx(1.336, abs=5e-4)
    assert module.unit_limit(GH200["tensor"] / GH200["cuda"]) == pytest.approx(1.327, abs=5e-4)
    # The example of equation (24) takes α as infinite; the tensor cores that exist leave half of its 5 %.
    assert gain_of_balance(A100["tensor"] / A100["cuda"], 1 / 4, 5.0) == pytest.approx(1.0245, abs=5e-4)


# --- the table --------------------------------------------------------------------------------------------------------

PEAKS = {"h200": {"float64_cuda": 30_000.0, "float64_tensor": 60_000.0}}
CASE = {"device": "h200", "suite": "memory", "n": 1, "l2": "warm"}


def table(gains, dram=None, peaks=PEAKS, n=1, precision="float64"):
    """``gains``: (matrix, kind, steps, gain) of kernels of the study."""
    cases, bounds = [], []
    for number, (matrix, kind, steps, gain) in enumerate(gains):
        row = (
            synthetic.measure_row("bricks", "cfd1", n) | CASE | {"n": n, "matrix": matrix, "kernel": f"kernel_{number}"}
        )
        row |= {"study": "memory_bound", "kind": kind, "steps": steps, "precision": precision}
        cases.append(row | {"origin": "local", "stale": False, "host": "", "baseline_missing": ""})
        bounds.append(
            {name: row[name] for name in ("device", "suite", "study", "kernel", "matrix", "n", "l2", "precision")}
            | {"intensity_flop_per_byte": 1.0, "balance_flop_per_byte": 1.0, "alpha": 2.0, "gain_limit": 1.0}
            | {"time_ms": 1.0, "gain": gain, "verdict": "within_limit", "stale": False}
        )
    rows = contracts.frame(bounds, "analysis_bounds")
    import pandas as pd

    found = module.workloads(pd.DataFrame(cases), rows, dram or {"h200": 4000.0}, {}, peaks)
    return found.set_index(["workload", "steps"])


def test_each_workload_stands_beside_its_gains():
    rows = table(
        [
            ("diagonal-1", "diagonal", 1, 0.5),
            ("diagonal-2", "diagonal", 1, 2.0),
            ("mesh", "mesh", 1, 1.5),
            ("2d5pt-1024", "grid", 3, 0.8),
            ("3d27pt-96", "grid", 1, 0.7),
        ]
    )
    assert set(rows["device"]) == {"h200"} and (rows["alpha"] == 2).all()
    assert (rows["balance_flop_per_byte"] == 7.5).all() and rows["unit_limit"].tolist() == pytest.approx(
        [4 / 3] * len(rows)
    )
    plain = [("SCALE", 1), ("GEMV", 1), ("SpMV", 1)]
    flat = [("2d5pt", 1), ("2d5pt", 3), ("2d9pt", 1), ("2d9pt", 3), ("2d13pt", 1), ("2d49pt", 1)]
    assert list(rows.index) == [*plain, *flat, ("3d7pt", 1), ("3d7pt", 3), ("3d27pt", 1), ("3d27pt", 3)]
    assert rows["cases"].to_dict() == dict.fromkeys(rows.index, 0) | {
        ("SCALE", 1): 2,
        ("SpMV", 1): 1,
        ("2d5pt", 3): 1,
        ("3d27pt", 1): 1,
    }
    scale, spmv, stencil = rows.loc[("SCALE", 1)], rows.loc[("SpMV", 1)], rows.loc[("2d5pt", 3)]
    assert (scale["geomean"], scale["best"]) == (pytest.approx(1.0), 2.0)
    assert scale["memory_over_compute"] == 120 and scale["binding"] == "memory"
    assert scale["gain_limit"] == pytest.approx(1 + 1 / (1 + 2 * 120)) and scale["workload_limit"] == 1 + 1 / 120
    assert spmv["best"] == 1.5 and spmv["intensity_flop_per_byte"] == pytest.approx(1 / 6)
    assert stencil["intensity_flop_per_byte"] == 15 / 8 and stencil["steps_to_compute_bound"] == 12
    assert rows.loc[("3d27pt", 3), "binding"] == "compute"
    assert rows.loc[("GEMV", 1), "geomean"] != rows.loc[("GEMV", 1), "geomean"], "nobody measured it"


def test_a_device_without_the_study_or_without_ceilings_is_left_out():
    own = [("diagonal-1", "diagonal", 1, 0.5)]
    assert table(own, dram={"a100": 1.0}).empty
    assert table(own, peaks={"h200": {"float64_cuda": 1.0}}).empty
    assert table(own, precision="float32").empty and table(own, n=2).empty
