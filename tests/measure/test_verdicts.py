"""The verdict on the host: results rounded as the hardware rounds pass, results that are wrong in plausible ways fail.

What must pass and what must fail is made with fixed numbers of bits and lengths of rows, independent of the table of
tolerances. Each good result comes within a tenth of both tolerances and each wrong one lies less than fifty times above
one of them, so that a tolerance cannot drift by such a factor unnoticed.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats.csr import Csr
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.measure import verify
from spmm_roofline.measure.verify import TOLERANCES, Errors, errors_of, judge

CLASSES = list(TOLERANCES)
C_TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}


def bits(values, count):
    """``values`` (float64) rounded to ``count`` significant bits, to nearest."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(fraction, count)), exponent - count)


def dense(values, dtype="float64", column_major=False):
    """An operand on the host, with a padding of NaN."""
    rows, columns = values.shape
    stored = np.asarray(values).astype(C_TYPES[dtype])
    stored = stored.view(np.uint16) if dtype == "bfloat16" else stored
    padded = np.full((rows + 3, columns + 5), 0x7FC0 if dtype == "bfloat16" else np.nan, dtype=stored.dtype)
    padded[:rows, :columns] = stored
    return Dense(np.ascontiguousarray(padded.T) if column_major else padded, rows, columns, column_major, dtype)


def operand(a):
    """A SciPy matrix as the format that the reference multiplies."""
    return Csr(a.shape, a.nnz, "float64", a.indptr.astype("int32"), a.indices.astype("int32"), a.data)


def verdict(a, b, c, sums, c_dtype, steps=1, column_major=False):
    """Verdict on the values ``c`` (float64) stored as ``c_dtype``, for a SciPy matrix ``a`` and an array ``b``."""
    c = dense(c, c_dtype, column_major)
    return judge(errors_of(operand(a), dense(b), c, lambda x: a @ x, steps), sums, c_dtype)


# --- what hardware may do ---------------------------------------------------------------------------------------------


def matrix(rows, length, rng, spread=1):
    """``rows`` rows of ``length`` values ±[0.5, 1.5), as the measure stage draws them."""
    values = (rng.random((rows, length)) + 0.5) * rng.choice([-1, 1], (rows, length))
    columns = np.arange(length) * spread
    return csr_array(
        (values.ravel(), np.tile(columns, rows), np.arange(rows + 1) * length), shape=(rows, length * spread)
    )


def products(a, b):
    """a_ij · b_j of a full matrix and one column, in the order of the row."""
    return a.data.reshape(a.shape) * b[:, 0]


def added_in(dtype, a, b):
    """Sums in ``dtype``, rounded to nearest after each addition."""
    return np.cumsum(products(a, b).astype(dtype), axis=1, dtype=dtype)[:, -1:].astype(float)


def cut_off(a, b, each):
    """Sums of tensor cores: ``each`` exact products are added to an FP32 sum, and the excess bits are cut off."""
    sums = np.zeros(a.shape[0], dtype=np.float32)
    for batch in np.add.reduceat(products(a, b), range(0, a.shape[1], each), axis=1).T:
        exact = sums.astype(float) + batch
        sums = exact.astype(np.float32)
        beyond = np.abs(sums) > np.abs(exact)
        sums[beyond] = np.nextafter(sums[beyond], np.float32(0))
    return sums[:, None].astype(float)


#: (sums, C) → rows and their length, and how the hardware adds them.
GOOD = {
    ("float16", "float16"): (2000, 1000, lambda a, b: added_in(np.float16, a, b)),
    ("float16", "float32"): (2000, 1000, lambda a, b: added_in(np.float16, a, b)),
    ("bfloat16", "bfloat16"): (2000, 150, lambda a, b: added_in(ml_dtypes.bfloat16, a, b)),
    ("float32", "float16"): (5000, 32, lambda a, b: a @ b),
    ("float32", "bfloat16"): (5000, 32, lambda a, b: a @ b),
    ("float32", "float32"): (1000, 2000, lambda a, b: cut_off(a, b, 8)),
    ("tf32", "float32"): (500, 8000, lambda a, b: cut_off(a, b, 4)),
    ("float64", "float64"): (2, 4_000_000, lambda a, b: np.cumsum(products(a, b), axis=1)[:, -1:]),
}


@pytest.mark.parametrize("case", CLASSES, ids="-".join)
def test_what_hardware_rounds_passes_and_comes_near_the_tolerances(case):
    rows, length, add = GOOD[case]
    rng = np.random.default_rng(5)
    a, b = matrix(rows, length, rng), rng.random((length, 1)) * 2 - 1
    c = dense(add(a, b), case[1])
    # A float64 sum in the order of the row may be the very sum that is judged.
    exact = products(a, b).astype(np.longdouble).sum(axis=1, keepdims=True).astype(float)
    found = judge(errors_of(operand(a), dense(b), c, lambda x: exact), *case)
    assert found.wrong == ""
    tolerance, row_tolerance = TOLERANCES[case]
    assert found.rel_error > tolerance / 10 and found.max_row_error > row_tolerance / 10, found


# --- what is wrong ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faults:
    """Significant bits of operands that are too coarse for a class: in all rows, and in one row alone."""

    everywhere: int
    in_a_row: int


#: (sums, C) → faults that the Frobenius norm alone and the error of a row alone must find.
FAULTS = {
    ("float16", "float16"): Faults(5, 3),
    ("float16", "float32"): Faults(5, 3),
    ("bfloat16", "bfloat16"): Faults(3, 2),
    ("float32", "float16"): Faults(8, 6),
    ("float32", "bfloat16"): Faults(5, 3),
    ("float32", "float32"): Faults(13, 11),
    ("tf32", "float32"): Faults(10, 8),
    ("float64", "float64"): Faults(41, 38),
}
ROWS, LENGTH, WIDTH = 2500, 40, 6


@pytest.fixture(scope="module")
def case():
    """A, B and the exact product of many rows of equal length."""
    rng = np.random.default_rng(7)
    a, b = matrix(ROWS, LENGTH, rng, spread=3), rng.random((3 * LENGTH, WIDTH)) * 2 - 1
    return a, b, a @ b


def coarse(a, b, count):
    """A·B of operands with ``count`` significant bits."""
    return csr_array((bits(a.data, count), a.indices, a.indptr), shape=a.shape) @ bits(b, count)


@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_the_rounded_product_passes_in_either_layout(case, types, column_major):
    a, b, c = case
    found = verdict(a, b, c, *types, column_major=column_major)
    assert found.wrong == "" and found.rel_error <= found.max_row_error


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_a_dtype_that_is_coarser_everywhere_shows_in_the_norm(case, types):
    a, b, _ = case
    found = verdict(a, b, coarse(a, b, FAULTS[types].everywhere), *types)
    assert found.wrong.startswith("relative error")
    assert 1 < found.rel_error / TOLERANCES[types][0] < 50
    assert verdict(a, b, coarse(a, b, FAULTS[types].everywhere + 8), *types).wrong == ""


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_a_row_that_is_coarser_than_the_rest_shows_in_its_error(case, types):
    a, b, c = case
    wrong = c.copy()
    wrong[1234] = coarse(a, b, FAULTS[types].in_a_row)[1234]
    found = verdict(a, b, wrong, *types)
    assert "of row 1234" in found.wrong and found.rel_error <= TOLERANCES[types][0]
    assert 1 < found.max_row_error / TOLERANCES[types][1] < 50


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_a_lost_entry_an_entry_added_twice_and_two_swapped_rows_are_wrong(case, types):
    a, b, c = case
    entry = 777 * LENGTH + 5
    contribution = a.data[entry] * b[a.indices[entry]]
    for sign in (-1, 1):
        wrong = c.copy()
        wrong[777] += sign * contribution
        assert verdict(a, b, wrong, *types).wrong
    wrong = c.copy()
    wrong[[10, 11]] = c[[11, 10]]
    assert verdict(a, b, wrong, *types).wrong


@pytest.mark.parametrize(
    ("types", "length"),
    [
        (("float16", "float16"), "400"),
        (("float16", "float32"), "400"),
        (("bfloat16", "bfloat16"), "123"),
        (("float32", "bfloat16"), "1,100"),
        (("float32", "float16"), "62,500"),
        (("tf32", "float32"), "1,000,000"),
    ],
)
def test_a_lost_value_shows_in_rows_of_the_length_that_the_page_says(types, length):
    assert length in Path("docs/how/measuring.md").read_text().split()
    rows = 1000
    for factor, shows in ((0.95, True), (1.05, False)):
        # All values are ±1, so that one row is off by 1 and every row has the norm √L.
        norms = np.full(rows, np.sqrt(factor * int(length.replace(",", ""))))
        errors = Errors(np.eye(1, rows)[0], norms, np.zeros(rows, dtype=bool), float((norms**2).sum()))
        assert bool(judge(errors, *types).wrong) == shows


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_one_element_beyond_the_tolerance_of_its_row_is_wrong(case, types):
    a, b, c = case
    size = np.sqrt((a.data[:LENGTH] ** 2).sum() * (b**2).mean() * WIDTH)
    tolerance = TOLERANCES[types][1]
    errors = errors_of(operand(a), dense(b), dense(c), lambda x: a @ x)
    for factor, right in ((0.98, True), (1.02, False), (2, False)):
        squares = np.zeros(ROWS)
        squares[0] = (factor * tolerance * size) ** 2
        found = judge(replace(errors, row_squares=squares), *types)
        assert (found.wrong == "") == right, found
        assert found.max_row_error == pytest.approx(factor * tolerance, rel=1e-6)


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_an_unwritten_row_an_unwritten_element_and_an_overflow_are_wrong(case, types):
    a, b, c = case
    wrong = c.copy()
    wrong[[3, 9]] = np.nan
    assert verdict(a, b, wrong, *types).wrong == f"2 of {ROWS} rows of C hold NaN: not written, or wrongly"
    wrong = c.copy()
    wrong[ROWS - 1, WIDTH - 1] = np.nan
    assert verdict(a, b, wrong, *types).wrong.startswith(f"1 of {ROWS} rows")
    wrong = c.copy()
    wrong[5, 0] = np.inf
    assert verdict(a, b, wrong, *types).wrong


@pytest.mark.parametrize("types", CLASSES, ids="-".join)
def test_an_empty_row_must_be_zero(case, types):
    a, b, _ = case
    a = csr_array(a.copy())
    a.data[50 * LENGTH : 51 * LENGTH] = 0
    for matrix_ in (a, csr_array(a.multiply(a != 0))):  # stored zeros, and no entries at all
        matrix_.sort_indices()
        c = matrix_ @ b
        assert verdict(matrix_, b, c, *types).wrong == "" and verdict(matrix_, b, -c * -1.0, *types).wrong == ""
        c[50, 2] = 1e-7 if types[1] != "float64" else 1e-20
        assert verdict(matrix_, b, c, *types).wrong == "row 50 of A is zero, but row 50 of C is not"
        c[50, 2] = 3.0
        assert verdict(matrix_, b, c, *types).wrong


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_every_column_counts_and_so_does_every_slab(monkeypatch):
    rng = np.random.default_rng(1)
    a = csr_array(random_array((30, 40), density=0.3, rng=rng, format="csr"))
    a.sort_indices()
    n = 2 * verify.COLUMNS + 7
    b = rng.standard_normal((40, n))
    c = a @ b
    whole = errors_of(operand(a), dense(b), dense(c + 0.01), lambda x: a @ x)
    assert whole.row_squares == pytest.approx(np.full(30, n * 1e-4))
    assert whole.reference_square == pytest.approx((c**2).sum())
    norms = np.sqrt(a.multiply(a).sum(axis=1))
    assert whole.row_sizes == pytest.approx(norms * np.sqrt((b**2).sum() / 40))
    for column in range(0, n, 5):
        wrong = c.copy()
        wrong[4, column] += 1
        assert verdict(a, b, wrong, "float64", "float64").wrong, column


def test_relative_error_and_row_error_by_hand():
    # A = [[3, 4], [0, 2]], B = [[1], [1]]: C = [7, 2], ‖C‖² = 53; rms(B) = 1, so that rows have the sizes 5 and 2.
    a, b = csr_array(np.array([[3.0, 4.0], [0.0, 2.0]])), np.ones((2, 1))
    found = verdict(a, b, np.array([[7.5], [2.0]]), "float16", "float16")
    assert found.rel_error == pytest.approx(0.5 / 53**0.5)
    assert found.max_row_error == pytest.approx(0.5 / 5)
    assert found.wrong == "relative error 0.0687 is above 0.01"


def test_repeated_products_are_held_against_what_the_last_one_reads():
    rng = np.random.default_rng(2)
    a = csr_array(random_array((25, 25), density=0.4, rng=rng, format="csr"))
    a.sort_indices()
    b = rng.standard_normal((25, 3))
    assert verdict(a, b, a @ (a @ b), "float32", "float32", steps=2).wrong == ""
    assert verdict(a, b, a @ b, "float32", "float32", steps=2).wrong
    errors = errors_of(operand(a), dense(b), dense(a @ (a @ b)), lambda x: a @ x, 2)
    assert errors.row_sizes == pytest.approx(np.sqrt(a.multiply(a).sum(axis=1)) * np.sqrt(((a @ b) ** 2).sum() / 25))


@pytest.mark.parametrize("shape", [(0, 4, 3), (5, 4, 0), (5, 4, 3), (5, 0, 3)])
def test_products_without_entries(shape):
    m, k, n = shape
    a, b = csr_array((m, k)), np.ones((k, n))
    assert verdict(a, b, np.zeros((m, n)), "float32", "float32").wrong == ""
    if m * n:
        assert verdict(a, b, np.full((m, n), 1e-3), "float32", "float32").wrong
        assert verdict(a, b, np.full((m, n), np.nan), "float32", "float32").wrong.startswith("5 of 5")


@pytest.mark.parametrize("scale_a", [2.0**-30, 2.0**30])
@pytest.mark.parametrize("scale_b", [2.0**-30, 2.0**30])
def test_errors_are_relative(case, scale_a, scale_b):
    a, b, _ = case
    wrong = coarse(a, b, 20)
    one = verdict(a, b, wrong, "float64", "float64")
    other = verdict(a * scale_a, b * scale_b, wrong * scale_a * scale_b, "float64", "float64")
    assert other.rel_error == pytest.approx(one.rel_error) and other.max_row_error == pytest.approx(one.max_row_error)


def test_an_output_without_rows_has_no_error_and_b_of_one_row_has_its_own_size():
    nothing = verdict(csr_array((0, 4)), np.ones((4, 3)), np.zeros((0, 3)), "float32", "float32")
    assert (nothing.rel_error, nothing.max_row_error) == (0, 0)
    a, b = csr_array(np.array([[2.0], [1.0]])), np.full((1, 4), 3.0)
    errors = errors_of(operand(a), dense(b), dense(a @ b), lambda x: a @ x)
    assert errors.row_sizes == pytest.approx(np.array([2 * 3 * 2, 1 * 3 * 2]))
    empty = replace(errors, row_sizes=np.zeros(2), row_squares=np.array([0, 0.25]))
    assert judge(empty, "float32", "float32").max_row_error == 0.5


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
@pytest.mark.parametrize(("shape", "density"), [((8, 50), 0.5), ((1, 50), 0.5), ((1, 1), 1.0)])
@pytest.mark.parametrize("entry", [0, -1])
def test_a_reference_that_is_wrong_verifies_nothing(entry, shape, density, scale):
    rng = np.random.default_rng(3)
    a = csr_array(random_array(shape, density=density, rng=rng, format="csr"))
    a.sort_indices()
    b = scale * (rng.random((shape[1], 4)) + 0.5)
    lost = a.copy()
    lost.data[entry] *= 1 + 1e-9
    errors_of(operand(a), dense(b), dense(a @ b), lambda x: a @ x)
    # Each of at most eight rows is among 64 drawn ones, almost surely.
    with pytest.raises(AssertionError, match=r"the float64 reference is off by .* in row"):
        errors_of(operand(a), dense(b), dense(a @ b), lambda x: lost @ x)
