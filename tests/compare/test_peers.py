"""Rows of benchmarks/peers.py: libraries and kernels of this project under one clock, in tables that compare reads."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, random_array

from spmm_roofline.compare.pairs import pair
from spmm_roofline.compare.sides import side
from spmm_roofline.kernels import heads
from spmm_roofline.measure.device import Gpu
from tests.compare import test_benchmarks
from tests.kernels.external.build import on_host

ROOT = Path(__file__).resolve().parents[2]


class Clock(test_benchmarks.Clock):
    def replay_overhead_ms(self):
        return 0.0044


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import peers

    yield peers
    del sys.modules["peers"]


def rows_of(peers, cupy, monkeypatch, *paths):
    known = heads(external=tuple(map(str, paths)))
    libraries = [head for head in known.values() if head.external]
    monkeypatch.setattr(peers, "heads", lambda *_: {"rows_fma": known["rows_fma"]})
    monkeypatch.setattr(peers, "taken", lambda *_: {("rows_fma", 8): 0.5})
    a = csr_array(random_array((60, 50), density=0.2, rng=np.random.default_rng(), format="csr"))
    common = peers.Known(Gpu("GPU-0", "NVIDIA H200", (9, 0), "580"), "13.0")
    return list(peers.measured("mesh", a, [8, 961, 963], set(), libraries, Clock(cupy), common))


def test_a_library_and_a_kernel_are_compared_side_by_side(peers, cupy, monkeypatch, tmp_path):
    right = on_host(tmp_path / "right.so", NAME='"right"')
    wrong = on_host(tmp_path / "wrong.so", NAME='"wrong"', FACTOR="2.0f")
    rows = rows_of(peers, cupy, monkeypatch, right, wrong)
    status = {(row["kernel"], row["n"]): row["status"] for row in rows}
    assert all(status["rows_fma", n] == "ok" for n in (8, 961, 963))
    assert [status["right", n] for n in (8, 961, 963)] == ["ok", "unsupported", "launch_failed"]
    assert status["wrong", 8] == "wrong", "a wrong case costs nothing else"

    peers.write_tables(rows, tmp_path / "rows")
    tables = side(tmp_path / "rows")
    assert set(tables.rows.kernel) == {"rows_fma", "right", "wrong"} and set(tables.rows.suite) == {"peers"}
    compared = pair(tables, tables, match=("rows_fma", "right")).cases
    compared = compared[compared.asked]
    assert list(compared.n) == [8] and np.exp(compared.log.iloc[0]) == pytest.approx(
        4
    )  # the fourth call over the first

    table = peers.summarized(rows, 4000.0)
    others = peers.with_libraries(None, table[table.study == peers.EXTERNAL])
    assert others.loc[("FP32", "mesh", 8), "peer"] == "right" and len(others) == 1
    own = table[table.study != peers.EXTERNAL].set_index(peers.KEY).join(others)
    assert peers.summary(own.reset_index(), own.plan_ms.reset_index(drop=True)).startswith("4.00 × the best peer")


def test_the_kernel_that_is_chosen_is_measured_whatever_its_study(peers, cupy, monkeypatch):
    known = heads()
    names = ("rows_fma", "cublaslt_gemm", "cublaslt_gemm_f16")
    monkeypatch.setattr(peers, "heads", lambda *_: {name: known[name] for name in names})
    monkeypatch.setattr(peers, "planned", lambda a, dtype, kernel: (kernel, 0.5))
    monkeypatch.setattr(peers, "taken", lambda *_: {("cublaslt_gemm", 8): 0.25, ("rows_fma", 16): 0.75})
    monkeypatch.setattr(peers, "outcome", lambda *_: {"status": "ok"})
    monkeypatch.setattr(peers.Known, "of", lambda self, head: {"kernel": head.name})
    a = csr_array(random_array((60, 50), density=0.2, rng=np.random.default_rng(), format="csr"))
    common = peers.Known(Gpu("GPU-0", "NVIDIA H200", (9, 0), "580"), "13.0")
    rows = peers.measured("mesh", a, [8, 16], set(), [], Clock(cupy), common)
    taken = {(row["kernel"], row["n"]): row["taken_plan_ms"] for row in rows}
    assert taken == {
        **{("rows_fma", 8): None, ("rows_fma", 16): 0.75},
        **{("cublaslt_gemm", 8): 0.25, ("cublaslt_gemm", 16): None},
    }


def test_rows_without_a_time_make_an_empty_summary(peers):
    table = peers.summarized([{"status": "unsupported", "message": "no"}], 4000.0)
    assert table.empty and {*peers.KEY, "kernel", "study", "taken_plan_ms"} <= set(table.columns)
    others = peers.with_libraries(None, table[table.study == peers.EXTERNAL])
    peers.told(table.set_index(peers.KEY))
    assert others is None


def test_a_table_of_times_and_libraries_give_the_fastest_of_both(peers):
    index = pd.MultiIndex.from_tuples([("FP32", "a", 8), ("FP32", "b", 8)], names=peers.KEY)
    others = pd.DataFrame({"peer": "theirs", "peer_ms": [1.0, 3.0], "vendor_ms": [4.0, 5.0]}, index=index)
    of_libraries = index.to_frame(index=False).assign(kernel="mine", time_ms=2.0)
    both = peers.with_libraries(others, of_libraries)
    assert list(both.peer) == ["theirs", "mine"] and list(both.vendor_ms) == [4.0, 5.0]
    assert peers.with_libraries(others, of_libraries[:0]) is others
