"""Super-tiles that list their inner tiles: the list names every tile that holds an entry, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spmm_roofline.formats import FORMATS, FormatError
from tests.formats.test_formats import canonical, same, sparse

LISTED, MAPPED = FORMATS["bcsr_classed_tiled_listed"], FORMATS["bcsr_classed_tiled"]


@settings(max_examples=60)
@given(a=sparse(), block=st.sampled_from([2, 4, 8]))
def test_the_list_is_what_the_map_of_every_tile_says(a, block):
    listed, mapped = LISTED.from_csr(a, block=block), MAPPED.from_csr(a, block=block)
    for field in ("indptr", "indices", "data", "data24", "metadata"):
        assert np.array_equal(getattr(listed, field), getattr(mapped, field))
    codes = np.full_like(mapped.inner, -1)
    for super_tile, ends in enumerate(listed.inner_indptr):
        for row in range(block):
            columns, of_tiles = listed.inner[ends[row] : ends[row + 1]].T
            assert (np.diff(columns) > 0).all(), "tiles of a tile row are sorted by column"
            codes[super_tile, row, columns] = of_tiles
    assert np.array_equal(codes, mapped.inner)
    assert len(listed.inner) == (mapped.inner >= 0).sum() == listed.blocks, "no tile without an entry is listed"
    used = (mapped.inner >= 0).any(axis=1)
    assert listed.slices.tolist() == [sum(1 << j for j in np.flatnonzero(row)) for row in used]
    assert listed.counts() == mapped.counts()
    assert same(listed.to_csr(), mapped.to_csr())


@settings(max_examples=30)
@given(a=sparse(), block=st.sampled_from([2, 8]))
def test_lists_of_other_sizes_of_super_tiles_give_the_matrix_back(a, block):
    assert same(LISTED.from_csr(a, dtype="float64", block=block).to_csr(), a)


def test_lists_follow_each_other_without_gaps():
    rng = np.random.default_rng(0)
    packed = LISTED.from_csr(canonical((rng.random((300, 500)) < 0.003) * 1.0))
    assert np.array_equal(packed.inner_indptr[1:, 0], packed.inner_indptr[:-1, -1])
    assert packed.inner_indptr[0, 0] == 0 and packed.inner_indptr[-1, -1] == len(packed.inner)


def test_a_lone_entry_takes_one_tile_and_one_slice_of_b():
    dense = np.zeros((100, 200))
    dense[50, 100] = 3  # super-tile (0, 1) of 64x64, tile row 3, tile column 1
    packed = LISTED.from_csr(canonical(dense))
    assert packed.indptr.tolist() == [0, 1, 1] and packed.indices.tolist() == [1]
    assert packed.inner_indptr.tolist() == [[0, 0, 0, 0, 1]]
    assert packed.inner.tolist() == [[1, 0]] and packed.slices.tolist() == [0b10]


def test_a_list_costs_less_than_a_map_where_super_tiles_are_nearly_empty():
    a = canonical(np.eye(4096)[:, np.random.default_rng(0).permutation(4096)])
    listed, mapped = LISTED.from_csr(a, block=8), MAPPED.from_csr(a, block=8)
    assert listed.nbytes < mapped.nbytes


def test_a_size_that_no_super_tile_has_is_refused():
    with pytest.raises(FormatError, match="bcsr_classed_tiled_listed merges 2, 4 or 8 tiles a side, not 3"):
        LISTED.from_csr(canonical(np.eye(3)), block=3)
