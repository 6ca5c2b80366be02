"""Dense operands in both orders: what a kernel receives, and that verification reads them in the same order."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats.csr import Csr
from spmm_roofline.kernels import heads, operands, reference
from spmm_roofline.measure import verify

ORDERS = ["row_major", "column_major"]


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """NumPy in place of CuPy, and SciPy in place of the library's product."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.setattr(verify, "_spot_check", lambda a, b, c: None)
    monkeypatch.setattr(reference.Reference, "product", lambda self, b: self.a.to_csr() @ b)


def head(order, **pads):
    return replace(heads()["gespmm_seq_row"], layout={"b": order, "c": order}, pads=pads)


@pytest.mark.parametrize(("order", "shape", "ld"), [("row_major", (8, 12), 12), ("column_major", (12, 8), 8)])
@pytest.mark.parametrize("operand", ["b", "c"])
def test_an_operand_is_padded_in_its_order(operand, order, shape, ld):
    pads = {"k" if operand == "b" else "m": 8, "n": 4}
    dense = operands.allocate(head(order, **pads), operand, 5, 9)
    assert dense.storage.shape == shape and dense.ld == ld
    values = np.arange(45.0).reshape(5, 9)
    dense.fill(values)
    assert (dense.widened() == values).all()
    assert dense.storage.ravel()[2 * ld + 3] == values[(2, 3) if order == "row_major" else (3, 2)]
    assert dense.storage.sum() == values.sum(), "padding is zero"
    dense.poison()
    assert np.isnan(dense.storage).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_check_reads_c_in_its_order(order):
    rng = np.random.default_rng()
    matrix = csr_array((rng.random((5, 7)) + 0.5) * (rng.random((5, 7)) < 0.7))
    a = Csr.from_csr(matrix, "float64")
    b, c = operands.allocate(head(order), "b", 7, 200), operands.allocate(head(order), "c", 5, 200)
    b.fill(rng.random((7, 200)) * 2 - 1)
    c.poison()
    assert "5 of 5 rows" in verify.verify(a, b, c, "float32").wrong
    c.fill(matrix @ b.widened())
    assert not verify.verify(a, b, c, "float32").wrong
    c.view[3, 150] = np.nan
    assert "1 of 5 rows" in verify.verify(a, b, c, "float32").wrong
    c.view[3, 150] = 9
    assert "above" in verify.verify(a, b, c, "float32").wrong


def test_a_call_of_several_multiplications_is_checked_as_one():
    rng = np.random.default_rng()
    matrix = csr_array((rng.random((6, 6)) + 0.5) * (rng.random((6, 6)) < 0.7))
    a = Csr.from_csr(matrix, "float64")
    b, c = operands.allocate(head("row_major"), "b", 6, 3), operands.allocate(head("row_major"), "c", 6, 3)
    b.fill(rng.random((6, 3)) * 2 - 1)
    c.fill(matrix @ (matrix @ (matrix @ b.widened())))
    assert not verify.verify(a, b, c, "float32", steps=3).wrong
    assert "above" in verify.verify(a, b, c, "float32", steps=2).wrong


def test_kernels_of_dense_times_sparse_take_x_and_y_in_row_major_order():
    study = [each for each in heads().values() if each.study == "attention"]
    assert study and all(each.layout == {"b": "column_major", "c": "column_major"} for each in study)
