"""Canonical form: sorted CSR without duplicates and zeros for any entries, with a count of everything dropped."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from spmm_roofline.matrices.canonical import (
    Entries,
    MatrixError,
    canonical,
    drawn_values,
    mirrored,
    structure_sha256,
)


@st.composite
def entries(draw):
    m, k = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    count = draw(st.integers(0, 60))
    rows = draw(st.lists(st.integers(0, m - 1), min_size=count, max_size=count))
    columns = draw(st.lists(st.integers(0, k - 1), min_size=count, max_size=count))
    # Small integers add up exactly, so duplicates that cancel are certain to give a true zero.
    values = draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
    return Entries((m, k), np.array(rows, dtype=int), np.array(columns, dtype=int), np.array(values, dtype=float))


@given(entries())
def test_equals_scipy_and_counts_what_was_dropped(given_entries):
    matrix = canonical(given_entries, "test")
    csr = matrix.csr
    expected = coo_array((given_entries.values, (given_entries.rows, given_entries.columns)), shape=given_entries.shape)
    assert np.array_equal(csr.toarray(), expected.toarray())
    for start, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        assert (np.diff(csr.indices[start:end]) > 0).all()
    assert (csr.data != 0).all()
    assert (csr.indptr.dtype, csr.indices.dtype, csr.data.dtype) == (np.int32, np.int32, np.float64)
    assert matrix.stored_entries == len(given_entries.rows)
    assert csr.nnz == matrix.stored_entries - matrix.explicit_zeros - matrix.duplicates
    assert min(matrix.explicit_zeros, matrix.duplicates) >= 0


def test_counts_zeros_duplicates_and_cancellation_apart():
    rows = np.array([0, 0, 1, 1, 2, 2])
    columns = np.array([0, 0, 1, 2, 0, 0])
    values = np.array([1.0, 2.0, 0.0, 5.0, 3.0, -3.0])
    matrix = canonical(Entries((3, 3), rows, columns, values), "test")
    assert matrix.csr.toarray().tolist() == [[3, 0, 0], [0, 0, 5], [0, 0, 0]]
    assert (matrix.stored_entries, matrix.explicit_zeros, matrix.duplicates) == (6, 2, 2)


@given(entries(), st.randoms(use_true_random=False))
def test_order_of_entries_does_not_matter(given_entries, random):
    order = list(range(len(given_entries.rows)))
    random.shuffle(order)
    shuffled = Entries(given_entries.shape, *(a[order] for a in (given_entries.rows, given_entries.columns)))
    pattern = Entries(given_entries.shape, given_entries.rows, given_entries.columns)
    first, second = canonical(pattern, "test"), canonical(shuffled, "test")
    assert first.sha256 == second.sha256
    assert np.array_equal(first.csr.data, second.csr.data)


def test_pattern_values_are_real_signed_and_bounded():
    values = drawn_values("ab" * 32, 100_000)
    magnitude = np.abs(values)
    assert magnitude.min() >= 0.5
    assert magnitude.max() < 1.5
    assert abs((values < 0).mean() - 0.5) < 0.01
    assert abs(magnitude.mean() - 1) < 0.01
    assert len(np.unique(values)) > 99_000
    assert np.array_equal(values, drawn_values("ab" * 32, 100_000))
    assert not np.array_equal(values, drawn_values("cd" * 32, 100_000))


def test_hash_covers_shape_pointers_and_indices_but_not_values():
    base = csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    bytes_ = np.array([2, 3, 0, 2, 3], dtype="<i8").tobytes() + np.array([0, 2, 1], dtype="<i4").tobytes()
    assert structure_sha256(base) == hashlib.sha256(bytes_).hexdigest()
    assert structure_sha256(base) == structure_sha256(base * 7)
    wider = csr_array((base.data, base.indices, base.indptr), shape=(2, 4))
    moved = csr_array(np.array([[1.0, 2, 0], [0, 3, 0]]))
    assert len({structure_sha256(each) for each in (base, wider, moved)}) == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_mirrored_completes_a_triangle(sign):
    lower = np.array([[5.0 if sign == 1 else 0, 0, 0], [1, 0, 0], [2, 3, 0]])
    rows, columns = np.nonzero(lower)
    whole = canonical(mirrored(Entries((3, 3), rows, columns, lower[rows, columns]), sign), "test").csr.toarray()
    assert np.array_equal(whole, lower + sign * np.tril(lower, -1).T)


def test_no_nonzeros_is_a_matrix():
    matrix = canonical(Entries((3, 5), np.array([], dtype=int), np.array([], dtype=int), np.array([])), "test")
    assert matrix.csr.shape == (3, 5)
    assert matrix.csr.indptr.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "values", "message"),
    [
        ((0, 3), [], [], [], "the matrix is 0 x 3; a product needs at least one row and one column"),
        ((3, 0), [], [], [], "the matrix is 3 x 0; a product needs"),
        ((2**31, 3), [], [], [], "32-bit indices end at 2147483647"),
        ((2, 2), [0, 2], [0, 0], [1, 1], r"row index 2 \(counted from 0\) lies outside the matrix's 2 rows"),
        ((2, 2), [0, 1], [0, -1], [1, 1], r"column index -1 \(counted from 0\) lies outside the matrix's 2 columns"),
        ((2, 2), [0, 1], [0, 1], [1, np.nan], "1 value is not finite, the first is nan in row 1, column 1"),
        ((2, 2), [0, 1], [1, 1], [np.inf, np.nan], "2 values are not finite, the first is inf in row 0, column 1"),
    ],
)
def test_refuses_what_cannot_be_multiplied(shape, rows, columns, values, message):
    given_entries = Entries(shape, np.array(rows, int), np.array(columns, int), np.array(values, float))
    with pytest.raises(MatrixError, match=f"^mine: .*{message}"):
        canonical(given_entries, "mine")
