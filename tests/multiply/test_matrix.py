"""A as callers give it: copied, checked and put in order before anything is planned."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.multiply.matrix import matrix_of
from tests.multiply.operands import sparse

pytestmark = pytest.mark.usefixtures("device")

M, K = 700, 500


@pytest.fixture
def arrays():
    """Row pointers, columns and values of a matrix with empty rows, first and last ones among them."""
    a = sparse(M, K, 0.02)
    full = np.diff(a.indptr) * (np.arange(M) % 5 > 0)
    full[0] = full[-1] = 0
    kept = np.repeat(full > 0, np.diff(a.indptr))
    return np.concatenate([[0], np.cumsum(full)]).astype("int32"), a.indices[kept].astype("int32"), a.data[kept]


def on_device(arrays, dtypes=("int32", "int32", "float64")):
    import cupy

    return tuple(cupy.asarray(x.astype(dtype)) for x, dtype in zip(arrays, dtypes, strict=True))


def same(matrix, pointers, columns, values):
    csr = matrix.csr
    assert (csr.indptr.dtype, csr.indices.dtype, csr.shape) == ("int32", "int32", (M, K))
    for own, given in ((csr.indptr, pointers), (csr.indices, columns), (csr.data, values)):
        assert np.array_equal(own.get(), given)


@pytest.mark.parametrize("of_pointers", ["int32", "int64", "uint32", "int16", "uint64"])
@pytest.mark.parametrize("of_columns", ["int32", "int64", "uint16"])
def test_indices_of_any_integer_dtype_are_copied(of_pointers, of_columns, arrays):
    given = on_device(arrays, (of_pointers, of_columns, "float64"))
    matrix = matrix_of(given, (M, K))
    assert matrix.order is None and not matrix.summed
    for x in given:
        x[...] = 0
    same(matrix, *arrays)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_integers_of_numpy_are_numbers_and_not_bits(dtype, arrays):
    pointers, columns, values = arrays
    values = np.arange(1, len(values) + 1).astype(dtype)
    same(matrix_of((pointers, columns, values), (M, K)), pointers, columns, values.astype("float64"))


def test_arrays_of_any_stride_are_taken(arrays):
    import cupy

    pointers, columns, values = on_device(arrays)
    pairs = cupy.empty((len(columns), 2), dtype="int64")
    pairs[:, 0], pairs[:, 1] = columns, -1
    same(matrix_of((pointers, pairs[:, 0], values), (M, K)), *arrays)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("which", "change", "message"),
    [
        (0, lambda x: x[:-1], rf"crow has {M} pointers"),
        (0, lambda x: x[:0], "crow has no pointers"),
        (0, lambda x: x + 1, rf"crow has {M + 1} pointers"),
        (0, lambda x: np.where(np.arange(len(x)) == 10, x[20], x), "crow decreases"),
        (0, lambda x: np.where(np.arange(len(x)) == 10, -1, x), "crow decreases"),
        (0, lambda x: np.where(x == x[-1], x[-1] - 1, x), rf"crow has {M + 1} pointers"),
        (1, lambda x: np.where(np.arange(len(x)) == len(x) - 1, K, x), rf"col holds 0 to {K}; A has {K} columns"),
        (1, lambda x: np.where(np.arange(len(x)) == 3, -1, x), rf"col holds -1 to {K - 1}; A has {K} columns"),
    ],
)
def test_indices_that_are_those_of_no_matrix_are_refused(which, change, message, dtype, arrays):
    given = [arrays[0], arrays[1], arrays[2]]
    given[which] = change(given[which])
    with pytest.raises(ValueError, match=message):
        matrix_of(on_device(given, (dtype, dtype, "float64")), (M, K))


@pytest.mark.parametrize(("which", "message"), [(0, "crow decreases"), (1, "col holds 0 to 4294967")])
def test_an_index_that_only_64_bits_hold_is_not_taken_for_another(which, message, arrays):
    given = [x.astype("int64") for x in arrays[:2]]
    given[which][5] += 2**32
    with pytest.raises(ValueError, match=message):
        matrix_of(on_device((*given, arrays[2]), ("int64", "int64", "float64")), (M, K))


def shuffled(arrays, rng):
    """The same matrix with the entries of each row in another order, and where each entry was before."""
    pointers, columns, values = arrays
    row = np.repeat(np.arange(M), np.diff(pointers))
    order = np.lexsort((rng.random(len(columns)), row))
    return (pointers, columns[order], values[order]), order


def test_unsorted_rows_are_sorted_and_values_keep_their_order(arrays):
    other, order = shuffled(arrays, np.random.default_rng(5))
    matrix = matrix_of(on_device(other), (M, K))
    same(matrix, *arrays)
    assert np.array_equal(order[matrix.order.get()], np.arange(len(order))) and not matrix.summed


@pytest.mark.parametrize("of", ["arrays", "cupy", "scipy"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_entries_of_one_place_are_added(of, is_sorted, arrays):
    import cupyx.scipy.sparse as sparse_on_device

    pointers, columns, values = arrays
    twice = (2 * pointers, np.repeat(columns, 2), np.repeat(values, 2))
    if not is_sorted:
        twice, _ = shuffled(twice, np.random.default_rng(6))
    if of == "arrays":
        matrix = matrix_of(on_device(twice), (M, K))
    elif of == "cupy":
        given = on_device(twice)
        matrix = matrix_of(sparse_on_device.csr_matrix((given[2], given[1], given[0]), shape=(M, K)))
    else:
        matrix = matrix_of(csr_array((twice[2], twice[1], twice[0]), shape=(M, K)))
    assert matrix.summed
    same(matrix, pointers, columns, 2 * values)


@pytest.mark.parametrize("most_slots", [None, 40])
def test_zeros_within_diagonals_are_no_entries(most_slots, monkeypatch):
    from scipy.sparse import diags_array

    from spmm_roofline import SpMM
    from spmm_roofline.multiply import blocks

    if most_slots:
        monkeypatch.setattr(blocks, "MOST_SLOTS", most_slots)
    below, on = np.arange(29.0), np.where(np.arange(30) % 3, 2.0, 0.0)
    a = diags_array([below, on], offsets=[-1, 0])
    multiply, b = SpMM(a, "float64"), np.random.default_rng(9).standard_normal((30, 5))
    multiply.update(on_device([np.arange(1.0, multiply.nnz + 1)], ["float64"])[0])
    wanted = a.tocsr()
    assert multiply.nnz == wanted.nnz == np.count_nonzero(a.toarray())
    wanted.data = np.arange(1.0, wanted.nnz + 1)
    assert np.allclose(multiply(*on_device([b], ["float64"])).get(), wanted @ b)


def test_what_scipy_says_of_its_order_is_not_trusted(arrays):
    other, _ = shuffled(arrays, np.random.default_rng(7))
    a = csr_array((other[2], other[1], other[0]), shape=(M, K))
    a.has_canonical_format = True
    same(matrix_of(a), *arrays)


def test_arrays_of_scipy_may_be_longer_than_the_entries(arrays):
    pointers, columns, values = arrays
    a = csr_array((values, columns, pointers), shape=(M, K))
    a.indices, a.data = np.append(columns, [K + 7] * 9), np.append(values, [np.nan] * 9)
    same(matrix_of(a), *arrays)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (300, 7)])
def test_a_matrix_without_entries(shape):
    pointers = np.zeros(shape[0] + 1)
    matrix = matrix_of(on_device((pointers, pointers[:0], pointers[:0])), shape)
    assert matrix.nnz == 0 and matrix.shape == shape and len(matrix.csr.indptr) == shape[0] + 1
    assert not matrix.csr.indptr.get().any()


def test_more_rows_and_entries_than_threads_of_one_launch(arrays, monkeypatch):
    from spmm_roofline.multiply import matrix

    monkeypatch.setattr(matrix, "MOST_CTAS", 2)
    same(matrix_of(on_device(arrays), (M, K)), *arrays)
    columns = arrays[1].copy()
    columns[-1] = columns[-2]
    with_one_twice = matrix_of(on_device((arrays[0], columns, arrays[2])), (M, K))
    assert with_one_twice.summed == (np.diff(arrays[0])[np.diff(arrays[0]) > 0][-1] > 1)


@pytest.mark.parametrize("shape", [(M, K), (1, 900), (900, 1), (3, 0), (0, 3), (40, 6000)])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_the_transpose_keeps_the_positions_of_values(shape, is_sorted):
    rng = np.random.default_rng(8)
    a = sparse(*shape, 0.02 if min(shape) > 100 else 0.3) if min(shape) else csr_array(shape)
    arrays = a.indptr, a.indices, a.data
    if not is_sorted:
        row = np.repeat(np.arange(shape[0]), np.diff(a.indptr))
        order = np.lexsort((rng.random(a.nnz), row))
        arrays = a.indptr, a.indices[order], a.data[order]
    turned = matrix_of(on_device(arrays), shape).transposed
    expected = a.T.tocsr()
    expected.sort_indices()
    assert turned.shape == expected.shape
    for own, array in zip(turned.csr[:3], (expected.data, expected.indices, expected.indptr), strict=True):
        assert np.array_equal(own.get(), array)
    places = np.arange(a.nnz) if turned.order is None else turned.order.get()
    assert np.array_equal(arrays[2][places], expected.data)


def test_a_shape_that_is_not_that_of_a_matrix_is_refused(arrays):
    from spmm_roofline import SpMM

    a = csr_array((arrays[2], arrays[1], arrays[0]), shape=(M, K))
    assert SpMM(a, "float32", shape=(M, K)).shape == (M, K)
    with pytest.raises(ValueError, match="only arrays need a shape"):
        SpMM(a, "float32", shape=(M, K + 1))
