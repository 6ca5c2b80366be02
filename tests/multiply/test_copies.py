"""Operands that kernels read where they are, and those that are copied."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spmm_roofline.multiply.arrays import View
from spmm_roofline.multiply.copies import TOO_FAR, are_rows, fits, has_own_elements, near, reads, share
from tests.multiply.operands import check, dense, sparse


def view(ld, dtype="float32", columns=256):
    """Ten aligned rows in memory that is large enough, which nobody reads."""
    return View(256, 10, columns, ld, 1, dtype, 0, 1 << 60, None)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)])
def test_rows_that_32_bits_cannot_set_apart_are_copied(dtype, size):
    far, unit = TOO_FAR // size, 16 // size
    for columns in (8, 256):  # whole slabs may have gaps of any length behind them
        near, beyond = view(far - unit, dtype, columns), view(far, dtype, columns)
        assert reads(near, columns, unit) and not reads(beyond, columns, unit)
        assert fits(near, columns, unit) == (columns == 256) and not fits(beyond, columns, unit)
        assert are_rows(near, None) and not are_rows(near, beyond)


@pytest.mark.parametrize(
    ("kernel", "dtype", "apart"),
    [
        ("window_f16", "float16", TOO_FAR),
        ("staged_f16", "float16", TOO_FAR),
        ("window_fma", "float32", TOO_FAR),
        ("narrow_fma", "float32", 2 * TOO_FAR),  # its strides have no sign
    ],
)
def test_products_of_rows_that_are_far_apart(kernel, dtype, apart, device, tmp_path):
    """On the host, in a file of which only the rows take memory."""
    import cupy

    from spmm_roofline import SpMM

    if device == "gpu":
        pytest.skip("the memory of a GPU has no rows that take nothing")
    rows, columns = 3, 8 if kernel == "narrow_fma" else 256
    values = np.random.default_rng(0).random((rows, columns)).astype(dtype)
    path = tmp_path / "rows"
    ld = apart // values.itemsize
    with open(path, "wb") as file:
        try:
            file.truncate(rows * apart)
        except OSError as error:
            pytest.skip(f"this file system has no large files with holes: {error}")
    memory = np.memmap(path, dtype, "r+", shape=(rows, ld))
    memory[:, :columns] = values
    b, a = memory.view(cupy.ndarray)[:, :columns], sparse(20, rows, 0.9)
    check(SpMM(a, dtype, kernel=kernel)(b), a, values.astype(np.float64), dtype)


def view_of(array):
    rows, columns = array.shape
    (down, right), size = array.strides, array.itemsize
    return View(array.ctypes.data, rows, columns, down // size, right // size, array.dtype.name, 0, 1 << 60, array)


#: A slice of 24 rows or columns, its step up to 3.
CUT = st.builds(slice, st.integers(0, 23), st.integers(1, 24), st.integers(1, 3))
WHOLE = slice(0, 24, 1)


@given(st.tuples(CUT, CUT), st.tuples(CUT, CUT), st.sampled_from([1, -1]))
@example((WHOLE, slice(0, 12, 1)), (WHOLE, slice(12, 24, 1)), 1)
@example((WHOLE, slice(0, 24, 2)), (WHOLE, slice(1, 24, 2)), -1)
@example((WHOLE, slice(0, 13, 1)), (WHOLE, slice(12, 24, 1)), 1)
def test_what_shares_elements_is_found(cut_of_b, cut_of_c, order):
    memory, numbers = np.zeros((24, 24), "float32"), np.arange(24 * 24).reshape(24, 24)
    b, c = view_of(memory[cut_of_b]), view_of(memory[cut_of_c].T[::order])
    have_common = np.intersect1d(numbers[cut_of_b], numbers[cut_of_c]).size > 0
    assert share(b, c) == have_common
    low, high = near(b, c)
    assert low < c.pointer - b.pointer < high or not have_common
    assert has_own_elements(b) and has_own_elements(c)


def test_elements_that_share_an_address_are_found():
    row = np.zeros((1, 8), "float32")
    windows = np.lib.stride_tricks.sliding_window_view(row[0], 4)
    assert not has_own_elements(view_of(np.broadcast_to(row, (3, 8)))) and not has_own_elements(view_of(windows))
    assert has_own_elements(view_of(np.broadcast_to(row, (1, 8)))) and has_own_elements(view_of(windows[:, :1]))
    assert has_own_elements(view_of(np.broadcast_to(row, (0, 8))))


@pytest.mark.parametrize("n", [None, 8, 13])
def test_a_result_in_place_of_b_is_refused(device, n):
    from spmm_roofline import SpMM

    a = sparse(40, 40, 0.2)
    multiply, (wide, exact) = SpMM(a, "float32"), dense(40, 32, "float32")
    b, c = (wide[:, 0], wide[:, 16]) if n is None else (wide[:, :n], wide[:, 16 : 16 + n])
    before = exact[:, 0] if n is None else exact[:, :n]
    for _ in range(2):  # the second is a launch that serves arrays of these layouts
        check(multiply(b, out=c), a, before, "float32")
    for out in (b, wide[:, n - 1 : 2 * n - 1]) if n else (b,):
        with pytest.raises(ValueError, match="shares elements with b"):
            multiply(b, out=out)
    assert np.array_equal(b.get(), before)


def test_arrays_of_jax_are_not_written(device):
    from spmm_roofline import SpMM

    array = type("Array", (), {"__module__": "jaxlib", "__dlpack__": None})()
    with pytest.raises(ValueError, match="arrays of JAX do not change"):
        SpMM(sparse(30, 40, 0.2), "float32")(array, out=array)


def test_a_result_whose_rows_are_one_is_refused(device):
    import cupy

    from spmm_roofline import SpMM

    multiply, (b, _) = SpMM(sparse(30, 40, 0.2), "float32"), dense(40, 8, "float32")
    with pytest.raises(ValueError, match="share an address"):
        multiply(b, out=cupy.broadcast_to(cupy.zeros((1, 8), "float32"), (30, 8)))
