"""SpMM with a matrix of more entries than one plan can count: row blocks."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from tests.multiply.operands import TOLERANCE, check, check_operator, dense, sparse, vector

pytestmark = pytest.mark.usefixtures("device")

M, K = 300, 80


@pytest.fixture
def a():
    return sparse(M, K, 0.1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of about a third of A."""
    from spmm_roofline.multiply import blocks

    monkeypatch.setattr(blocks, "MOST_SLOTS", 1100)


def whole(a, monkeypatch, *arguments):
    """The product of A in one plan."""
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import blocks

    with monkeypatch.context() as context:
        context.setattr(blocks, "MOST_SLOTS", 2**31)
        return SpMM(a, *arguments)


@pytest.mark.parametrize("n", [13, 64])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_product_in_row_blocks(a, dtype, n):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply.blocks import RowBlocks

    multiply = SpMM(a, dtype)
    assert isinstance(multiply, RowBlocks) and len(multiply._blocks) == 3
    assert multiply.shape == a.shape and multiply.nnz == a.nnz
    b, exact = dense(K, n, dtype)
    check(multiply(b), a, exact, dtype)
    check(multiply(b[:, 0])[:, None], a, exact[:, :1], dtype)
    out, before = dense(M, n, dtype, seed=2)
    bias, added = vector(n, dtype)
    assert multiply(b, out=out, alpha=0.5, beta=-2.0, bias=bias, relu=True) is out
    check(out, a, exact, dtype, 0.5, (added, -2.0 * before), relu=True)


def test_a_capture_is_refused_before_anything_is_made_of_a(a, monkeypatch):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.multiply import blocks

    monkeypatch.setattr(cupy.cuda.runtime, "streamIsCapturing", lambda stream: True)
    monkeypatch.setattr(blocks, "canonical", None)
    with pytest.raises(ValueError, match="plan before the capture"):
        SpMM(a, "float32")


def test_a_may_change_after_it_was_planned(a):
    import cupy

    from spmm_roofline import SpMM

    arrays = [cupy.array(array) for array in (a.indptr, a.indices, a.data.astype("float32"))]
    multiply = SpMM(tuple(arrays), "float32", n=24, shape=a.shape)
    assert len(multiply._blocks) == 3
    for array in arrays:
        array[...] = 10_000  # beyond every row and column
    (b, exact), (x, exact_x) = dense(K, 300, "float32"), dense(M, 24, "float32", 2)
    check(multiply(b), a, exact, "float32")
    check(multiply.T(x), csr_array(a.T), exact_x, "float32")


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_transpose_adds_up_blocks(a, dtype):
    from spmm_roofline import SpMM

    multiply = SpMM(a, dtype)
    assert multiply.T.shape == (K, M) and multiply.T.T is multiply
    x, exact = dense(M, 24, dtype)
    check(multiply.T @ x, a.T.tocsr(), exact, dtype)
    check((x.T @ multiply).T, a.T.tocsr(), exact, dtype)
    out, before = dense(K, 24, dtype, seed=2)
    bias, added = vector(24, dtype)
    multiply.T(x, out=out, alpha=0.5, beta=-2.0, bias=bias, relu=True)
    check(out, a.T.tocsr(), exact, dtype, 0.5, (added, -2.0 * before), relu=True)


def test_blocks_give_the_bits_of_one_plan(a, monkeypatch):
    from spmm_roofline import SpMM

    # Lane groups add up a row in order, wherever it lies.
    b, _ = dense(K, 40, "float32")
    one = whole(a, monkeypatch, "float32", "rows_fma")
    np.testing.assert_array_equal(SpMM(a, "float32", "rows_fma")(b).get(), one(b).get())


def test_samples_and_updates(a, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    x, y = (dense(rows, 16, "float32", rows)[0] for rows in (M, K))
    one, multiply = whole(a, monkeypatch, "float32"), SpMM(a, "float32")
    np.testing.assert_array_equal(multiply.sample(x, y).get(), one.sample(x, y).get())
    np.testing.assert_array_equal(multiply.T.sample(y, x).get(), one.sample(x, y).get())
    values = np.random.default_rng(5).random(a.nnz)
    transposed = multiply.T
    multiply.update(cupy.asarray(values))
    other = csr_array((values, a.indices, a.indptr), shape=a.shape)
    b, exact = dense(K, 24, "float32")
    check(multiply(b), other, exact, "float32")
    x, exact = dense(M, 24, "float32")
    check(transposed @ x, other.T.tocsr(), exact, "float32")


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_update_without_memory_leaves_a_as_it_was(a, in_blocks, monkeypatch):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.multiply.plan import SpMM as Plan

    multiply = SpMM(a, "float32") if in_blocks else whole(a, monkeypatch, "float32")
    b, exact = dense(K, 8, "float32")
    x, exact_x = dense(M, 8, "float32")
    products = multiply, multiply.T
    own_values, left = Plan._own_values, iter(range(3 if in_blocks else 1))

    def allocated(plan, dtype):
        if next(left, None) is None:
            raise MemoryError
        own_values(plan, dtype)

    with monkeypatch.context() as context, pytest.raises(MemoryError):
        context.setattr(Plan, "_own_values", allocated)
        multiply.update(cupy.asarray(2 * a.data))
    for values in (a.data, 2 * a.data):
        of_a = csr_array((values, a.indices, a.indptr), shape=a.shape)
        check(products[0](b), of_a, exact, "float32")
        check(products[1](x), csr_array(of_a.T), exact_x, "float32")
        multiply.update(cupy.asarray(2 * a.data))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_plan_is_not_copied(a, copied, monkeypatch):
    from spmm_roofline import MaskedAttention, SpMM

    for plan in (SpMM(a, "float32"), whole(a, monkeypatch, "float32"), MaskedAttention(a)):
        with pytest.raises(TypeError, match="keep A, and plan it again"):
            copied({"layer": plan} if copied is not copy.copy else plan)


def test_a_csr_keeps_the_order_of_its_rows(a, monkeypatch):
    import cupy

    from spmm_roofline import SpMM

    turned = [np.arange(*ends)[::-1] for ends in pairwise(a.indptr)]
    order = np.concatenate(turned)
    mixed = csr_array((a.data[order], a.indices[order], a.indptr), shape=a.shape)
    one, multiply = whole(mixed, monkeypatch, "float32"), SpMM(mixed, "float32")
    x, y = (dense(rows, 16, "float32", rows)[0] for rows in (M, K))
    np.testing.assert_array_equal(multiply.sample(x, y).get(), one.sample(x, y).get())
    values = np.random.default_rng(5).random(a.nnz)
    multiply.update(cupy.asarray(values))
    b, exact = dense(K, 24, "float32")
    check(multiply(b), csr_array((values, mixed.indices, a.indptr), shape=a.shape), exact, "float32")


@pytest.mark.parametrize("form", ["coo", "cupy", "arrays", "pattern", "long pointers"])
def test_a_may_be_in_any_form(a, form):
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    from spmm_roofline import SpMM
    from spmm_roofline.multiply.blocks import RowBlocks

    arrays = tuple(map(cupy.asarray, (a.indptr.astype("int64"), a.indices.astype("int64"), a.data)))
    shape = None
    if form == "coo":
        given = coo_array(a)
    elif form == "cupy":
        given = csr_matrix(a)
    elif form == "long pointers":
        given = a.copy()
        given.indptr, given.indices = a.indptr.astype("int64"), a.indices.astype("int64")
    else:
        given, shape = arrays if form == "arrays" else arrays[:2], a.shape
    if form == "pattern":
        a = csr_array((np.ones(a.nnz), a.indices, a.indptr), shape=a.shape)
    b, exact = dense(K, 24, "float32")
    multiply = SpMM(given, "float32", shape=shape)
    assert isinstance(multiply, RowBlocks)
    check(multiply(b), a, exact, "float32")


def test_what_blocks_take_together(a, monkeypatch):
    from spmm_roofline import SpMM

    multiply = SpMM(a, "float32")
    assert multiply.plan_ms > 0
    blocks = multiply._blocks
    assert multiply.plan_bytes == sum(block.plan_bytes for block in blocks)
    assert set(multiply.kernel_for(128).split(", ")) == {block.kernel_for(128) for block in blocks}


def test_borders_lie_between_rows(monkeypatch):
    from spmm_roofline.multiply import blocks

    monkeypatch.setattr(blocks, "MOST_SLOTS", 12)
    pointers = np.array([0, 10, 10, 10, 13, 17, 17, 20], dtype=np.int64) + 0
    assert blocks.borders(pointers) == [0, 1, 4, 6, 7]
    with pytest.raises(ValueError, match=r"row 1 of A has 11 entries; a row may have 10"):
        blocks.borders(np.array([0, 1, 12, 13], dtype=np.int64))


def test_pointers_of_64_bits_are_cut_where_32_bits_end(monkeypatch):
    from spmm_roofline.formats.csr_split import MOST
    from spmm_roofline.multiply import blocks

    monkeypatch.setattr(blocks, "MOST_SLOTS", MOST)
    pointers = np.arange(0, 5_000_000_001, 50_000, dtype=np.int64)
    found = blocks.borders(pointers)
    assert found[0] == 0 and found[-1] == len(pointers) - 1 and len(found) == 4
    assert max(np.diff(pointers[found]) + 2 * np.diff(found)) <= MOST


def test_what_does_not_fit_is_refused(a):
    import cupy

    from spmm_roofline import SpMM

    multiply = SpMM(a, "float32")
    for call, message in (
        (lambda: multiply(cupy.zeros((K + 1, 8), "float32")), "must have 80 rows"),
        (lambda: multiply(cupy.zeros((K, 8), "float16")), "takes arrays of float32"),
        (lambda: multiply(cupy.zeros((K, 8), "float32"), out=cupy.zeros((M, 7), "float32")), "out has 7 columns"),
        (lambda: multiply(cupy.zeros((K, 8), "float32"), beta=1.0), "no out is given"),
        (lambda: multiply.update(cupy.zeros(3)), "A has"),
        (lambda: SpMM((a.indptr, a.indices, a.data)), "pass its shape"),
        (lambda: SpMM((a.indptr, a.indices, a.data), shape=(M + 1, K)), "A has 301 rows"),
        (lambda: SpMM(a, "float8_e4m3"), "multiply in"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    twice = coo_array((np.ones(2 * a.nnz), tuple(np.tile(places, 2) for places in a.tocoo().coords)), shape=a.shape)
    with pytest.raises(ValueError, match="several values for one place"):
        SpMM(twice, "float32").update(cupy.zeros(a.nnz))


def test_operators_of_pytorch(torch, a, monkeypatch):
    from spmm_roofline import SpMM, sddmm, spmm

    def run(multiply):
        generator = torch.Generator().manual_seed(0)

        def drawn(*shape):
            return torch.randn(*shape, generator=generator, device="cpu").to(torch.zeros(1).device).requires_grad_()

        b, values, bias = drawn(K, 24), drawn(a.nnz), drawn(24)
        c = spmm(multiply, b, values, alpha=2.0, bias=bias, relu=True)
        (c.sum() + sddmm(multiply, c, b).sum() + multiply(b).square().sum()).backward()
        return [tensor.detach() for tensor in (c, b.grad, values.grad, bias.grad)]

    multiply = SpMM(a, "float32")
    for found, wanted in zip(run(multiply), run(whole(a, monkeypatch, "float32")), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    b = torch.zeros(K, 23, requires_grad=True)
    check_operator("product", (b, None, multiply.number, False, 1.0))
    x = torch.zeros(M, 23, requires_grad=True)
    check_operator("product", (x, None, multiply.number, True, 1.0))
