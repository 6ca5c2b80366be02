"""Sampled products, transposed products, and other values in the same places."""

import sys

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, diags_array, vstack

from spmm_roofline.formats.base import Survey
from spmm_roofline.kernels.choose import SAMPLED, Product, sampled
from tests.multiply.operands import SMALLEST, TOLERANCE, check, dense, general_kernels, sparse, vector

pytestmark = pytest.mark.usefixtures("device")


def places(a):
    return np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices


def check_sampled(found, x, y, rows, columns, dtype):
    from spmm_roofline.formats.values import widened

    found = widened(found, dtype).get()
    products = x[rows] * y[columns]
    room = np.abs(products).sum(1) + SMALLEST[dtype] / TOLERANCE[dtype]
    assert np.max(np.abs(found - products.sum(1)) / room, initial=0.0) < TOLERANCE[dtype], dtype


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_repeated_product_reads_the_new_operands(dtype, transposed, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    a = sparse(83, 61, 0.1)
    multiply = SpMM(a, dtype)
    multiply = multiply.T if transposed else multiply
    for seed in range(3):
        x, exact_x = dense(83, 64, dtype, seed)
        y, exact_y = dense(61, 64, dtype, seed + 10)
        found = multiply.sample(y, x) if transposed else multiply.sample(x, y)
        check_sampled(found, exact_x, exact_y, *places(a), dtype)
        # From the second product on, nothing is looked at anew.
        monkeypatch.setattr(plan, "reads", None)


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


def kernels_of(dtype):
    kernels = SAMPLED[dtype]
    return [kernel for kernel in (kernels.windows, kernels.entries) if kernel]


#: Every kernel of sampled products with its dtype.
CASES = [(dtype, kernel) for dtype in SAMPLED for kernel in kernels_of(dtype)]


def check_kernel(a, dtype, kernel, n, slab=None, mixed=None):
    """Check a kernel that no rule chose; ``mixed`` is the order in which A gets its entries."""
    from spmm_roofline import SpMM
    from spmm_roofline.multiply.sampled import Sampled

    cupy = sys.modules["cupy"]
    (x, exact_x), (y, exact_y) = dense(a.shape[0], n, dtype), dense(a.shape[1], n, dtype, 2)
    rows, columns = places(a)
    given = a
    if mixed is not None:
        given = tuple(cupy.asarray(array) for array in (a.indptr, columns[mixed], a.data[mixed]))
        rows, columns = rows[mixed], columns[mixed]
    multiply = SpMM(given, dtype, shape=a.shape)
    if a.nnz:
        multiply._sampled = lambda n: Sampled(multiply._matrix, dtype, kernel, slab=slab)
    check_sampled(multiply.sample(x, y), exact_x, exact_y, rows, columns, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_operands_without_columns_give_zeros(dtype):
    from spmm_roofline import SpMM

    (x, _), (y, _) = dense(40, 0, dtype), dense(30, 0, dtype)
    a = sparse(40, 30, 0.2)
    assert not SpMM(a, dtype).sample(x, y).get().any()


def uneven():
    """Rows of one, of no and of many entries, and a dense one."""
    a = sparse(70, 90, 0.05).tolil()
    a[9], a[30:40] = 0.5, 0.0
    return csr_array(a)


@pytest.mark.parametrize("dtype, kernel", CASES)
@pytest.mark.parametrize("n", [1, 7, 8, 31, 32, 33, 64, 100, 128, 200, 256, 512])
def test_each_kernel_with_any_width(dtype, kernel, n):
    check_kernel(uneven(), dtype, kernel, n)


@pytest.mark.parametrize("dtype, kernel", CASES)
@pytest.mark.parametrize(
    "pattern",
    {
        "no entry": csr_array((5, 7)),
        "one entry": csr_array(([2.0], ([3], [4])), shape=(5, 7)),
        "one row": sparse(1, 300, 0.7),
        "one column": sparse(300, 1, 0.7),
        "a dense row": vstack([sparse(9, 200, 0.02), csr_array(np.ones((1, 200))), sparse(30, 200, 0.02)], "csr"),
        "a full matrix": csr_array(np.ones((37, 41))),
        "a diagonal": csr_array(diags_array(np.ones(200))),
        "rows of two": csr_array((np.ones(150), np.tile([3, 60], 75), np.arange(0, 151, 2)), shape=(75, 64)),
        "any places": sparse(120, 150, 0.06),
    }.items(),
    ids=lambda item: item[0],
)
def test_each_kernel_with_any_pattern(dtype, kernel, pattern):
    check_kernel(pattern[1], dtype, kernel, 40)


@pytest.mark.parametrize("dtype, kernel", CASES)
def test_each_kernel_keeps_the_order_of_the_caller(dtype, kernel):
    a, rng = uneven(), np.random.default_rng(1)
    mixed = np.concatenate([rng.permutation(np.arange(*a.indptr[i : i + 2])) for i in range(a.shape[0])])
    check_kernel(a, dtype, kernel, 24, mixed=mixed)


@pytest.mark.parametrize("dtype", SAMPLED)
@pytest.mark.parametrize("n, slab", [(32, 32), (104, 32), (200, 64), (300, 128)])
def test_several_launches_add_up(dtype, n, slab):
    check_kernel(uneven(), dtype, SAMPLED[dtype].entries, n, slab)


@pytest.mark.parametrize("dtype", SAMPLED)
@pytest.mark.parametrize("k", [2500, 3500, 9000])
def test_columns_that_do_not_fit_into_l2(dtype, k):
    check_kernel(sparse(20, k, 0.005), dtype, SAMPLED[dtype].entries, 136)


@pytest.mark.parametrize("dtype, kernel", [case for case in CASES if case[0] == "float32"])
def test_sums_of_many_positive_products_are_not_cut_off(dtype, kernel):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.multiply.sampled import Sampled

    x, y = (cupy.random.default_rng(seed).random((rows, 4096)) + 0.5 for seed, rows in ((0, 16), (1, 32)))
    x, y = x.astype("float32"), y.astype("float32")
    multiply = SpMM(csr_array(np.ones((16, 32))), dtype)
    multiply._sampled = lambda n: Sampled(multiply._matrix, dtype, kernel)
    found = multiply.sample(x, y).get()
    wanted = (x.get().astype("float64") @ y.get().astype("float64").T).reshape(-1)
    # Sums that tensor cores cut off at each addition would lose 3e-5.
    assert np.abs(found / wanted - 1).max() < 4e-6


@pytest.mark.parametrize("dtype, kernel", CASES)
def test_an_infinity_reaches_only_entries_of_its_row_and_column(dtype, kernel):
    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import rounded, widened
    from spmm_roofline.multiply.sampled import Sampled

    a = uneven()
    x, y = np.ones((a.shape[0], 40)), np.ones((a.shape[1], 40))
    x[9], y[17] = np.inf, -np.inf
    multiply = SpMM(a, dtype)
    multiply._sampled = lambda n: Sampled(multiply._matrix, dtype, kernel)
    cupy = sys.modules["cupy"]
    found = widened(multiply.sample(*(rounded(cupy.asarray(each), dtype) for each in (x, y))), dtype).get()
    rows, columns = places(a)
    touched = (rows == 9) | (columns == 17)
    assert (found[~touched] == 40).all() and not np.isfinite(found[touched]).any()


@pytest.mark.parametrize("dtype", [dtype for dtype, kernels in SAMPLED.items() if kernels.windows])
@pytest.mark.parametrize("n", [32, 128, 512])
def test_windows_serve_patterns_that_fill_them(dtype, n):
    for fill, windows in ((60, True), (10, False)):
        product = Product(40_000, n, fill * 20_000, 132, lambda: Survey(20_000, 80), 40_000)
        assert sampled(dtype, product) == (SAMPLED[dtype].windows if windows else SAMPLED[dtype].entries)


@pytest.mark.parametrize(("dtype", "n", "fill", "blocks", "windows"), [
    ("float16", 32, 22, 10_000, False), ("float16", 128, 22, 10_000, True), ("float32", 128, 22, 10_000, False),
    ("float32", 512, 22, 10_000, True), ("bfloat16", 32, 60, 300, False), ("tf32", 32, 60, 300, False),
])  # fmt: skip
def test_the_width_and_the_tiles_decide_which_kernel_samples(dtype, n, fill, blocks, windows):
    product = Product(blocks, n, fill * blocks, 132, lambda: Survey(blocks, 80), 10_000)
    assert sampled(dtype, product) == (SAMPLED[dtype].windows if windows else SAMPLED[dtype].entries)


@pytest.mark.parametrize("dtype", SAMPLED)
def test_where_nothing_is_sampled_nothing_is_compared(dtype):
    for n, nnz in ((0, 10), (32, 0)):
        assert sampled(dtype, Product(10, n, nnz, 132, lambda: Survey(2, 5), 10)) == SAMPLED[dtype].entries


def test_a_plan_samples_by_both_kernels(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import choose

    windows, entries = SAMPLED["float32"]
    monkeypatch.setattr(choose, "sampled", lambda dtype, product: windows if product.n > 64 else entries)
    a = sparse(83, 131, 0.08)
    multiply = SpMM(a, "float32")
    for n in (8, 128, 8):
        (x, exact_x), (y, exact_y) = dense(83, n, "float32"), dense(131, n, "float32", 2)
        check_sampled(multiply.sample(x, y), exact_x, exact_y, *places(a), "float32")
    assert list(multiply._patterns) == [entries, windows]


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

    cupy = sys.modules["cupy"]
    a = sparse(90, 110, 0.1)
    a[3], a[5] = 1.0, 0.0  # a long row and an empty one
    a = csr_array(a)
    a.eliminate_zeros()
    other = csr_array((np.random.default_rng(5).random(a.nnz) - 0.5, a.indices, a.indptr), shape=a.shape)
    (b, exact), (wide, exact_wide) = dense(110, 24, dtype), dense(90, 24, dtype, 2)
    for name in [head.name for head in general_kernels() if head.dtype["a"] == dtype][:4]:
        multiply = SpMM(a, dtype, kernel=name)
        multiply(b), multiply.T(wide)
        for values in (other, a):
            multiply.update(cupy.asarray(values.data))
            check(multiply(b), values, exact, dtype)
            check(multiply.T(wide), csr_array(values.T), exact_wide, dtype)


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_of_any_dtype_are_rounded_as_packing_does(dtype, source):
    """Also values that a repeated update reads, and after the caller's array has changed."""
    from spmm_roofline import SpMM

    cupy = sys.modules["cupy"]
    a = sparse(40, 50, 0.2)
    multiply = SpMM(a, dtype)
    (b, _), (x, _), (wide, _) = dense(50, 24, dtype), dense(40, 24, dtype, 2), dense(50, 300, dtype, 3)
    for seed in range(3):
        values, exact = vector(a.nnz, source, seed)
        multiply.update(values)
        values[...] = 0
        fresh = csr_array((exact, a.indices, a.indptr), shape=a.shape)
        expected, turned = SpMM(fresh, dtype), SpMM(csr_array(fresh.T), dtype)
        assert bool(cupy.array_equal(multiply(b), expected(b))), seed
        assert bool(cupy.array_equal(multiply.T(x), turned(x))), seed
        assert bool(cupy.array_equal(multiply(wide), expected(wide))), seed


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


def test_values_on_another_gpu_are_refused():
    from spmm_roofline.multiply.arrays import library_of
    from spmm_roofline.multiply.values import given

    values = sys.modules["cupy"].ones(5)
    with pytest.raises(ValueError, match="values is on GPU 0, and A was planned on GPU 1"):
        given(library_of(values, "values"), values, 5, 1)


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
