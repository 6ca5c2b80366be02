"""The coarse grid of non-zeros that a spy plot draws."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, eye_array, random_array

from spmm_roofline.matrices.occupancy import CELLS, occupancy


def counted(text):
    """The least count of non-zeros of each cell that the text allows."""
    return np.array([[1 << bits >> 1 for bits in (int(digit, 36) for digit in line)] for line in text.split("/")])


def test_a_small_matrix_has_a_cell_for_each_entry():
    assert occupancy(csr_array(np.array([[1.0, 0, 2], [0, 0, 3]]))) == "101/001"


def test_a_digit_is_the_number_of_bits_of_a_count():
    full = csr_array(np.ones((2 * CELLS, 4 * CELLS)))
    assert {*occupancy(full)} == {"4", "/"}, "eight non-zeros have four bits"


@pytest.mark.parametrize("shape", [(1000, 70), (63, 5000), (129, 129)])
def test_cells_count_what_lies_in_them(shape):
    matrix = coo_array(random_array(shape, density=0.05, rng=np.random.default_rng(1)))
    down, across = (min(size, CELLS) for size in shape)
    rows, columns = (index.astype(np.int64) for index in matrix.coords)
    counts = np.zeros((down, across), dtype=int)
    np.add.at(counts, (rows * down // shape[0], columns * across // shape[1]), 1)
    least = counted(occupancy(csr_array(matrix)))
    assert least.shape == counts.shape
    assert ((least <= counts) & (counts < np.maximum(2 * least, 1))).all()


def test_no_entries_and_a_diagonal():
    assert {*occupancy(csr_array((100, 100)))} == {"0", "/"}
    grid = counted(occupancy(csr_array(eye_array(6400))))
    assert (np.diag(grid) == 64).all() and grid.sum() == 64 * 64
