"""First use by many threads: of whole products in a new process, and of what a process keeps."""

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from spmm_roofline.multiply import arrays, launches
from spmm_roofline.multiply.arrays import library_of
from spmm_roofline.multiply.launches import MOST
from tests.multiply.operands import check, dense, sparse
from tests.multiply.test_launches import Product, Stream, array, enqueue
from tests.threads import at_once

ROOT = Path(__file__).resolve().parents[2]


def test_sixteen_threads_of_a_new_process_multiply(device, tmp_path):
    path = os.pathsep.join([str(ROOT / "workflow"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tests.multiply.first_use", device],
        cwd=ROOT,
        env=os.environ | {"SPMM_ROOFLINE_CACHE": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # Nothing is left of compilations but cubins, of which each kernel has one.
    kernels = [path.name.rpartition("-")[0] for path in tmp_path.iterdir()]
    assert kernels and len(set(kernels)) == len(kernels) and {path.suffix for path in tmp_path.iterdir()} == {".cubin"}


def test_threads_find_one_library(device, monkeypatch):
    import cupy

    find = arrays._cupy.__wrapped__

    @cache
    def slow():
        time.sleep(0.05)
        return find()

    monkeypatch.setattr(arrays, "_cupy", slow)
    arrays._known.clear()
    one = cupy.zeros(1)
    found = at_once(lambda _: library_of(one, "b"))
    assert all(library is found[0] for library in found)


def test_threads_plan_one_transpose(device, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    pack, packed = plan.pack, []

    def slow(*arguments):
        packed.append(arguments[0])
        time.sleep(0.05)
        return pack(*arguments)

    multiply = SpMM(sparse(40, 50, 0.1), "float32")
    monkeypatch.setattr(plan, "pack", slow)
    found = at_once(lambda _: multiply.T)
    assert all(product is multiply.T for product in found) and len(packed) == 1


def test_threads_keep_launches_at_the_same_time(monkeypatch):
    monkeypatch.setattr(launches, "capturing", lambda: False)
    product = Product()

    def shapes(number):
        for columns in range(1, 300):
            enqueue(product, array(1, 10, columns), array(2, 10, columns), stream=Stream(number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once(shapes)
    finally:
        sys.setswitchinterval(interval)
    assert len(product.launches._kept) == MOST


def test_a_new_thread_launches_before_any_call_of_the_runtime(device):
    """As threads of PyTorch's autograd do, which have no context of CUDA then."""
    from spmm_roofline import SpMM

    a = sparse(40, 50, 0.1)
    for kernel in ("rows_fma", "short_rows_fma", "spread_rows_fma"):
        multiply = SpMM(a, "float32", kernel=kernel)
        b, exact = dense(50, 32, "float32")
        (c, again) = (multiply(b) for _ in range(2))
        at_once(lambda _, c=c, b=b, multiply=multiply: multiply(b, out=c), range(1))
        check(c, a, exact, "float32")
        assert (c == again).all()
