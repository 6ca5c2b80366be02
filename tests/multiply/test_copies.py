"""Operands that kernels read where they are, and those that are copied."""

import numpy as np
import pytest

from spmm_roofline.multiply.arrays import View
from spmm_roofline.multiply.copies import TOO_FAR, are_rows, fits, reads
from tests.multiply.operands import check, sparse


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
