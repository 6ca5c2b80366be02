"""Sampled products, transposed products, and other values in the same places."""

import sys

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from tests.multiply.operands import SMALLEST, TOLERANCE, check, dense, sparse

pytestmark = pytest.mark.usefixtures("device")


def places(a):
    return np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices


def check_sampled(found, x, y, rows, columns, dtype):
    from spmm_roofline.formats.values import widened

    found = widened(found, dtype).get()
    products = x[rows] * y[columns]
    room = np.abs(products).sum(1) + SMALLEST[dtype] / TOLERANCE[dtype]
    assert np.max(np.abs(found - products.sum(1)) / room, initial=0.0) < TOLERANCE[dtype], dtype


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 8, 41, 128, 264])
def test_a_sampled_product(dtype, n):
    from spmm_roofline import SpMM

    a = sparse(83, 131, 0.08)
    (x, exact_x), (y, exact_y) = dense(83, n, dtype), dense(131, n, dtype, 2)
    multiply = SpMM(a, dtype)
    found = multiply.sample(x, y)
    assert found.shape == (a.nnz,)
    check_sampled(found, exact_x, exact_y, *places(a), dtype)
    check_sampled(multiply.T.sample(y, x), exact_x, exact_y, *places(a), dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape, density", [((1, 1), 1.0), ((1, 500), 0.9), ((500, 3), 0.3), ((9, 40), 0.0)])
def test_any_pattern(dtype, shape, density):
    from spmm_roofline import SpMM

    a = sparse(*shape, density)
    (x, exact_x), (y, exact_y) = dense(shape[0], 16, dtype), dense(shape[1], 16, dtype, 2)
    check_sampled(SpMM(a, dtype).sample(x, y), exact_x, exact_y, *places(a), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [24, 128])
def test_the_transpose(dtype, n):
    from spmm_roofline import SpMM

    a = sparse(90, 110, 0.1)
    b, exact = dense(90, n, dtype)
    multiply = SpMM(a, dtype)
    assert multiply.T.T is multiply and multiply.T.shape == (110, 90)
    check(multiply.T @ b, csr_array(a.T), exact, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_other_values_in_every_packed_format(dtype):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels.choose import GENERAL
    from spmm_roofline.kernels.registry import of_study
    from spmm_roofline.paths import KERNELS

    cupy = sys.modules["cupy"]
    a = sparse(90, 110, 0.1)
    a[3], a[5] = 1.0, 0.0  # a long row and an empty one
    a = csr_array(a)
    a.eliminate_zeros()
    other = csr_array((np.random.default_rng(5).random(a.nnz) - 0.5, a.indices, a.indptr), shape=a.shape)
    (b, exact), (wide, exact_wide) = dense(110, 24, dtype), dense(90, 24, dtype, 2)
    for name in [head.name for head in of_study(GENERAL, KERNELS).values() if head.dtype["a"] == dtype][:4]:
        multiply = SpMM(a, dtype, kernel=name)
        multiply(b), multiply.T(wide)
        for values in (other, a):
            multiply.update(cupy.asarray(values.data))
            check(multiply(b), values, exact, dtype)
            check(multiply.T(wide), csr_array(values.T), exact_wide, dtype)


def test_what_is_planned_after_an_update_has_the_new_values():
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    a = sparse(90, 110, 0.1)
    other = csr_array((a.data[::-1].copy(), a.indices, a.indptr), shape=a.shape)
    multiply = SpMM(a, "float32")
    multiply.update(cupy.asarray(other.data))
    (b, exact), (wide, exact_wide) = dense(110, 24, "float32"), dense(90, 24, "float32", 2)
    check(multiply.T(wide), csr_array(other.T), exact_wide, "float32")
    for n in (8, 512):
        b, exact = dense(110, n, "float32")
        check(multiply(b), other, exact, "float32")


def test_entries_keep_the_order_of_the_caller():
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    a = sparse(30, 40, 0.3)
    rng = np.random.default_rng(1)
    mixed = np.concatenate([rng.permutation(np.arange(*a.indptr[i : i + 2])) for i in range(30)])
    arrays = [cupy.asarray(array) for array in (a.indptr.astype("int64"), a.indices[mixed], a.data[mixed])]
    multiply = SpMM(tuple(arrays), "float32", shape=a.shape)
    (x, exact_x), (y, exact_y) = dense(30, 16, "float32"), dense(40, 16, "float32", 2)
    rows, columns = places(a)
    check_sampled(multiply.sample(x, y), exact_x, exact_y, rows[mixed], columns[mixed], "float32")
    multiply.update(arrays[2] * 2)
    check(multiply(y), csr_array(2 * a), exact_y, "float32")
    check(multiply.T(x), csr_array(2 * a.T), exact_x, "float32")


def test_values_of_a_place_that_was_given_twice_cannot_be_replaced():
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    twice = coo_array(([1.0, 2.0, 3.0], ([0, 0, 2], [1, 1, 0])), shape=(4, 3))
    with pytest.raises(ValueError, match="several values for one place"):
        SpMM(twice, "float32").update(cupy.ones(2))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_same_operands_give_the_same_bits(dtype, device):
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    a = sparse(300, 400, 0.05)
    a[7] = 1.0
    (b, _), (x, _) = dense(400, 40, dtype), dense(300, 40, dtype, 2)
    multiply = SpMM(csr_array(a), dtype)
    first = multiply(b), multiply.T(x), multiply.sample(x, b)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for i in range(100 if device == "gpu" else 2):
        with streams[i % 2]:
            again = multiply(b), multiply.T(x), multiply.sample(x, b)
        cupy.cuda.Device().synchronize()
        for one, other in zip(first, again, strict=True):
            assert bytes(one.get().data) == bytes(other.get().data)


def test_what_does_not_fit_is_refused():
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    a = sparse(10, 20, 0.5)
    multiply = SpMM(a, "float32")
    x, y = cupy.zeros((10, 8), "float32"), cupy.zeros((20, 8), "float32")
    for arguments, message in (
        ((y, y), "x must have 10 rows"),
        ((x, x), "y must have 20 rows"),
        ((x, y[:, :4]), "x has 8 columns, and y has 4"),
        ((x.astype("float16"), y), "x is float16"),
    ):
        with pytest.raises(ValueError, match=message):
            multiply.sample(*arguments)
    with pytest.raises(ValueError, match="A has 100 entries"):
        multiply.update(cupy.ones(3))
    pointers, columns = cupy.asarray(np.array([0, 1, 3])), cupy.asarray(np.array([0, 1, 5]))
    with pytest.raises(ValueError, match="pass its shape"):
        SpMM((pointers, columns))
    with pytest.raises(ValueError, match="A has 4 columns"):
        SpMM((pointers, columns), shape=(2, 4))
    with pytest.raises(ValueError, match="A has 3 rows"):
        SpMM((pointers, columns), shape=(3, 6))
