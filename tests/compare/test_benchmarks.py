"""Rows of benchmarks/{sampled,widths,transposed,plans}.py, verified products of several codes, and their loop."""

import sys
from importlib import import_module
from pathlib import Path
from time import sleep

import numpy as np
import pandas as pd
import pytest
from scipy.io import mmwrite
from scipy.sparse import random_array

from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.libraries._cusparse import CusparseError
from spmm_roofline.measure.timing import Timing

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("sampled", "widths", "transposed", "plans")
MODULES = (*SCRIPTS, "host", "exact", "folder", "vendor", "peers")


class Clock:
    """A clock that calls once; the n-th time is n ms."""

    def __init__(self, cupy):
        self.stream, self.calls = cupy.cuda.Stream(), 0

    def time(self, call, cold, repeat_cap, time_cap_ms):
        call(self.stream)
        self.calls += 1
        return Timing(*(self.calls * x for x in (1.0, 0.99, 1.01, 0.995, 1.005)), 40)


class Timed(Clock):
    """The same as the benchmarks make it, on a device that copies 2,500 GB/s."""

    def __init__(self):
        import cupy

        super().__init__(cupy)

    def warm_up(self):
        pass

    def copy_gb_per_s(self):
        return 2500.0


@pytest.fixture
def imported(monkeypatch):
    """Benchmarks by name, imported as the scripts that they are. `benchmark` would clash with pytest-benchmark."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def matrix(m, k):
    """So full that the exact product needs no library."""
    import cupyx.scipy.sparse as sparse

    return sparse.csr_matrix(random_array((m, k), density=0.2, rng=np.random.default_rng(3), format="csr"))


def refused(*_, **__):
    raise CusparseError("the library has no such dtype")


def test_sampled_products(imported, cupy, monkeypatch):
    sampled = imported("sampled")
    monkeypatch.setattr(sampled, "sddmm", refused)
    rows = pd.DataFrame(sampled.measured(matrix(60, 45), sampled.DTYPES, [7, 40], Clock(cupy), 1000.0, {}))
    own = rows[rows.code.str.startswith("sampled_")]
    assert len(own) == 2 * 2 * len(sampled.DTYPES) and own.time_us.notna().all() and (own.error > 0).any()
    assert (own.groupby(["dtype", "n"]).chosen.sum() == 1).all()
    assert set(rows[rows.code == "cusparse"].message) == {"the library has no such dtype"}
    # X of 60 rows and Y of 45, 7 columns of four bytes; row pointers, columns and results.
    bytes_once = 4 * (7 * (60 + 45) + 61 + 2 * 540)
    row = own[(own.dtype == "float32") & (own.n == 7)].iloc[0]
    assert row.nnz == 540 and row.share * row.time_us * 1e3 * 1000 == pytest.approx(bytes_once)
    assert "float16, n = 40: " in sampled.summary(rows.assign(matrix="mesh"))


def test_a_wrong_sampled_product_ends_the_benchmark(imported, cupy, monkeypatch):
    sampled = imported("sampled")
    right = sampled.Sampled.__call__

    def one_is_lost(self, x, y, out, room):
        right(self, x, y, out, room)
        memory = cupy.cuda.UnownedMemory(out, 4 * 540, None)
        samples = cupy.ndarray((540,), dtype="float32", memptr=cupy.cuda.MemoryPointer(memory, 0))
        samples[17] += 1

    monkeypatch.setattr(sampled.Sampled, "__call__", one_is_lost)
    with pytest.raises(sampled.Wrong, match=r"the result is wrong: error \d"):
        list(sampled.measured(matrix(60, 45), ["float32"], [8], Clock(cupy), 1000.0, {}))


def test_narrow_and_odd_widths(imported, cupy, monkeypatch):
    widths = imported("widths")

    def vectors(a, x, y):
        exact = np.zeros(a.shape)
        exact[np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices] = a.data

        def multiplied(stream):
            y[:] = (exact @ np.asarray(x, dtype="float64")).astype(y.dtype)

        yield "refused", refused
        yield "alg1", lambda: Call(multiplied)

    monkeypatch.setattr(widths, "vectors", vectors)
    rows = pd.DataFrame(widths.measured(matrix(60, 45), ["float16", "float32"], [1, 12, 16, 41], Clock(cupy)))
    padded = rows[rows.layout == "padded"]
    assert sorted(padded[padded.dtype == "float16"].n) == [1, 12, 16, 41]
    for layout in ("packed", "packed_out"):
        assert list(rows[rows.dtype.eq("float16") & rows.layout.eq(layout)].n) == [1, 12, 41]
        assert list(rows[rows.dtype.eq("float32") & rows.layout.eq(layout)].n) == [1, 41], "12 fill 16 bytes"
    assert padded[padded.n == 16].ratio.eq(1).all() and (padded[padded.n == 41].next == 64).all()
    assert (rows[rows.layout == "vector"].kernel == "alg1").all()
    told = widths.summary(rows.assign(matrix="mesh"))
    assert "float16, packed, mean and largest ratio by N: 1: " in told and "n = 1: cusparseSpMV takes" in told


def test_transposed_products(imported, cupy, monkeypatch):
    transposed = imported("transposed")

    def products(a, b, c, transposed):
        dense = np.zeros(a.shape)
        values = transposed_values(a)
        dense[np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices] = values
        dense = dense.T if transposed else dense

        def multiplied(stream):
            c.fill(cupy.asarray(dense @ np.asarray(b.widened())))

        yield "refused", refused
        yield "alg2", lambda: Call(multiplied)

    def transposed_values(a):
        from spmm_roofline.formats.values import widened

        return widened(a.data, a.dtype)

    monkeypatch.setattr(transposed, "products", products)
    rows = pd.DataFrame(transposed.measured(matrix(60, 45), transposed.DTYPES, [8, 32], Clock(cupy), 1000.0, False))
    assert set(rows.code) == {"spmm.T", "cusparse Aᵀ", "cusparse CSR of Aᵀ"} and rows.time_us.notna().all()
    assert (rows[rows.code != "spmm.T"].kernel == "alg2").all()
    own = rows[rows.code == "spmm.T"]
    assert (own.plan_of_transposed_ms > 0).all() and own.plans.notna().all()
    told = transposed.summary(rows.assign(matrix="mesh"))
    assert "float32, n = 32: " in told and "cusparse Aᵀ " in told and "a plan of Aᵀ takes" in told


def test_plans(imported, cupy, monkeypatch):
    plans = imported("plans")
    monkeypatch.setattr(plans, "PLANS", 2)
    rows = pd.DataFrame(plans.measured(matrix(60, 45), ["float16", "float64"], [8, 32], Clock(cupy), False))
    assert list(rows.n) == [8, 32] * 2 and rows.kernel.str.contains("f16|f64").all()
    times = rows[["cupy_ms", "scipy_ms", "named_ms", "product_us"]]
    assert (times > 0).all(axis=None) and np.allclose(rows.products, 1e3 * rows.cupy_ms / rows.product_us)
    told = plans.summary(rows.assign(matrix="mesh"))
    assert told.startswith("medians and maxima") and "products" in told and "torch" not in told


def test_every_matrix_of_a_folder(imported, cupy, tmp_path, monkeypatch, capsys):
    folder = imported("folder")
    monkeypatch.setattr(folder, "Clock", Timed)
    monkeypatch.setattr(folder, "without_cupy", lambda what: "")
    arguments = ["x", "--matrices", str(tmp_path), "--n", "8,41", "--write", str(tmp_path / "rows.csv")]
    monkeypatch.setattr(sys, "argv", arguments)

    def rows_of(a, options, clock, gb_per_s):
        assert options.dtypes == ("float16", "float32")
        yield from ({"nnz": a.nnz, "n": n, "us": gb_per_s} for n in options.n)

    def run():
        return folder.run(
            folder.command("what it does", ("float16", "float32")), rows_of, lambda rows: f"{len(rows)} rows"
        )

    with pytest.raises(SystemExit):
        run()
    assert f"no matrices in {tmp_path}" in capsys.readouterr().err
    for name, density in (("thin", 0.1), ("full", 0.5)):
        mmwrite(tmp_path / f"{name}.mtx", random_array((20, 30), density=density, rng=np.random.default_rng(0)))
    assert run() == 0
    assert capsys.readouterr().out.endswith("4 rows\n")
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows.matrix) == ["full", "full", "thin", "thin"] and list(rows.nnz) == [300, 300, 60, 60]
    assert list(rows.n) == [8, 41] * 2 and (rows.us == 2500).all()


def test_a_wrong_product_of_one_algorithm_leaves_the_others(imported, cupy, monkeypatch):
    widths = imported("widths")
    a = matrix(60, 45)
    exact = np.zeros(a.shape)
    exact[np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices] = a.data

    def vectors(a, x, y):
        for name, factor in (("wrong", 1.1), ("right", 1.0)):
            result = (exact @ np.asarray(x, dtype="float64") * factor).astype("float32")
            yield name, lambda result=result: Call(lambda _: y.__setitem__(slice(None), result))

    monkeypatch.setattr(widths, "vectors", vectors)
    b = widths.random((45, 1))[:, 0]
    product = cupy.asarray(exact @ np.asarray(b))
    found = widths.spmv(a, "float32", b, product, abs(product), Clock(cupy))
    assert found.name == "right" and found.left_out.startswith("wrong: the result is wrong: error 0.")
    monkeypatch.setattr(widths, "vectors", lambda *case: list(vectors(*case))[:1])
    with pytest.raises(CusparseError, match="the result is wrong"):
        widths.spmv(a, "float32", b, product, abs(product), Clock(cupy))


@pytest.mark.parametrize("torch_is_there", [False, True])
def test_time_on_the_host(torch_is_there, imported, cupy, tmp_path, monkeypatch, capsys):
    host = imported("host")
    monkeypatch.setattr(host, "without_cupy", lambda what: "")
    monkeypatch.setattr(host, "find_spec", lambda name: torch_is_there and name == "torch")
    monkeypatch.setattr(host, "of_torch", lambda a: iter([("sleep", lambda: sleep(2e-3))]))
    monkeypatch.setattr(host, "CALLS", 3)
    monkeypatch.setattr(sys, "argv", ["host", "--write", str(tmp_path / "rows.csv")])
    assert host.main() == 0
    rows = pd.read_csv(tmp_path / "rows.csv").set_index("call").host_us
    assert list(rows.index) == ["CuPy, new C", "CuPy, out", "update", *["sleep"] * torch_is_there]
    assert (rows > 0).all() and rows.get("sleep", 2e3) >= 2e3
    monkeypatch.setattr(sys, "argv", ["host", "--compiled"])
    if not torch_is_there:
        with pytest.raises(SystemExit):
            host.main()
        assert "--compiled needs PyTorch" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_whole_run(script, imported, tmp_path, monkeypatch, capsys):
    pytest.importorskip("cupy")
    mmwrite(tmp_path / "small.mtx", random_array((700, 900), density=0.02, rng=np.random.default_rng(0)))
    arguments = [script, "--matrices", str(tmp_path), "--n", "1,8,41", "--write", str(tmp_path / "rows.csv")]
    monkeypatch.setattr(sys, "argv", arguments)
    assert imported(script).main() == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    times = rows.product_us if script == "plans" else rows.time_us
    assert times.notna().any() and "float32" in capsys.readouterr().out
