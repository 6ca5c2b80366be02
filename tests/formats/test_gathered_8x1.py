"""Blocks of windows: columns numbered among themselves, and no block with more of them than there is room for."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.gathered_8x1 import MOST_WINDOWS, TILE_K, WINDOW
from tests.formats.fitting import skewed


def columns_of(a, windows):
    """The columns in which some windows of A have entries."""
    first, last = WINDOW * windows[0], min(WINDOW * windows[1], a.shape[0])
    return np.unique(a.indices[a.indptr[first] : a.indptr[last]])


@settings(max_examples=60)
@given(a=skewed(), capacity=st.sampled_from([16, 48, 384]))
def test_a_block_has_room_for_its_columns_and_none_for_those_of_its_neighbour(a, capacity):
    packed = FORMATS["gathered_8x1"].from_csr(a, capacity=capacity)
    windows = -(-a.shape[0] // WINDOW)
    borders = packed.work[:, 1].tolist()
    assert borders[0] == 0 and borders[-1] == windows and packed.work[-1, 0] == len(packed.columns)
    for block, (first, last) in enumerate(pairwise(borders)):
        own = packed.columns[packed.work[block, 0] : packed.work[block + 1, 0]]
        assert np.array_equal(own, columns_of(a, (first, last)))
        assert len(own) <= capacity or last == first + 1
        size = 1
        while size < last - first:
            size *= 2
        assert first % size == 0 and (last - first == size or last == windows)
        twice = first // (2 * size) * 2 * size
        doubled = (twice, min(twice + 2 * size, windows))
        if 2 * size <= MOST_WINDOWS and doubled != (first, last):
            assert len(columns_of(a, doubled)) > capacity


def test_tiles_of_a_window_are_full_but_for_the_last():
    a = random_array((100, 300), density=0.2, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["gathered_8x1"].from_csr(a)
    for window, (first, last) in enumerate(pairwise(packed.windows)):
        own = packed.columns[packed.places[first:last].ravel()]
        wanted = columns_of(a, (window, window + 1))
        assert len(own) == -(-len(wanted) // TILE_K) * TILE_K
        assert np.array_equal(own[: len(wanted)], wanted) and (own[len(wanted) :] == wanted[-1]).all()


def test_a_window_with_too_many_columns_is_a_block_of_its_own():
    a = csr_array((np.ones(500), np.arange(500), [0, *[0] * 8, 500, 500]), shape=(10, 500))
    packed = FORMATS["gathered_8x1"].from_csr(a, capacity=64)
    assert packed.work.tolist() == [[0, 0], [0, 1], [500, 2]]
    assert np.array_equal(packed.places.ravel()[:500], np.arange(500))


def test_more_columns_than_places_count_are_refused():
    a = csr_array((np.ones(2**16 + 1), np.arange(2**16 + 1), [0, 2**16 + 1]), shape=(1, 2**16 + 1))
    with pytest.raises(FormatError, match="eight rows have entries in 65,537 columns"):
        FORMATS["gathered_8x1"].from_csr(a)


def test_positions_that_32_bits_do_not_count_are_refused():
    with pytest.raises(FormatError, match="too short for 2,147,483,648 non-zeros"):
        FORMATS["gathered_8x1"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31, data=np.empty(0)))


@pytest.mark.parametrize("capacity", [15, 1025])
def test_blocks_have_room_for_a_tile_and_packing_for_them(capacity):
    with pytest.raises(FormatError, match=f"not {capacity}"):
        FORMATS["gathered_8x1"].from_csr(csr_array((5, 5)), capacity=capacity)
