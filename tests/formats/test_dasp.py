"""DASP: where rows of each length are stored, and that a kernel's reading of them gives the product."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS, FormatError


def of_lengths(lengths, k=2000, seed=0):
    """A matrix whose rows have ``lengths`` entries in random columns."""
    rng = np.random.default_rng(seed)
    indices = [np.sort(rng.choice(k, length, replace=False)) for length in lengths]
    indices = np.concatenate([*indices, []]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]).astype(np.int32)
    return csr_array((rng.integers(1, 9, len(indices)).astype(float), indices, indptr), shape=(len(lengths), k))


def product(packed, x):
    """A·x as the kernel reads it: every row is written once."""
    y = np.full(packed.shape[0], np.nan)
    met = packed.data * x[packed.indices]
    counts = packed.counts()

    def write(rows, sums):
        named = rows >= 0
        assert np.isnan(y[rows[named]]).all()
        y[rows[named]] = sums[named]

    tiles = [met[start:end] for start, end in zip(packed.tile_ptr[:-1], packed.tile_ptr[1:], strict=True)]
    assert all(len(section) <= 8 for section in tiles[: counts["partials"]])
    partials = np.array([section.sum() for section in tiles[: counts["partials"]]])
    sections = zip(packed.partial_ptr[:-1], packed.partial_ptr[1:], strict=True)
    write(packed.long_row, np.array([partials[start:end].sum() for start, end in sections]))
    rest = packed.data_rest * x[packed.indices_rest]
    for block, own in enumerate(tiles[counts["partials"] :]):
        rows = slice(8 * block, 8 * block + 8)
        bounds = zip(packed.rest_ptr[rows], packed.rest_ptr[rows.start + 1 : rows.stop + 1], strict=True)
        write(packed.medium_row[rows], own.sum(axis=(0, 2)) + [rest[start:end].sum() for start, end in bounds])
    for tile in range(counts["short_tiles"]):
        width = 1 if tile < counts["one_three"] else 2 if tile < counts["one_three"] + counts["two_two"] else 4
        both = met[packed.tile_ptr[-1] + tile]
        write(packed.short_row[tile, 0], both[:, :width].sum(axis=1))
        write(packed.short_row[tile, 1], both[:, width:].sum(axis=1))
    single = np.zeros(counts["single_rows"])
    single[: counts["singles"]] = packed.data_single * x[packed.indices_single]
    write(packed.single_row, single)
    return y


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(
        st.one_of(st.integers(0, 5), st.integers(0, 60), st.sampled_from([255, 256, 257, 700])), max_size=60
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_a_kernel_reads_is_the_product(lengths, seed):
    a = of_lengths(lengths, seed=seed)
    packed = FORMATS["dasp"].from_csr(a)
    x = np.random.default_rng(seed).integers(1, 9, a.shape[1]).astype(float)
    assert np.array_equal(product(packed, x), a @ x)
    back = packed.to_csr()
    assert np.array_equal(back.indptr, a.indptr) and np.array_equal(back.indices, a.indices)
    assert np.array_equal(back.data, a.data)


def test_long_rows_are_cut_into_sections_of_eight_tiles():
    packed = FORMATS["dasp"].from_csr(of_lengths([3, 600, 256, 255]))
    # 600 entries are 19 tiles in sections of 8, 8 and 3; 256 are 8 tiles in one; a row of 255 is not long.
    assert packed.long_row.tolist() == [1, 2] and packed.partial_ptr.tolist() == [0, 3, 4]
    assert packed.tile_ptr[:5].tolist() == [0, 8, 16, 19, 27]
    assert packed.medium_row.tolist() == [3] + [-1] * 7


def test_a_tile_of_medium_rows_is_three_quarters_full():
    # Eight rows: tiles hold 32, 32 and, with six rows of four entries, 24; one entry of the first row remains.
    packed = FORMATS["dasp"].from_csr(of_lengths([12, 12, 12, 12, 12, 13, 8, 8]))
    assert packed.medium_row.tolist() == [5, 0, 1, 2, 3, 4, 6, 7]
    assert packed.tile_ptr.tolist() == [0, 3] and np.diff(packed.rest_ptr).tolist() == [1] + [0] * 7
    # With one entry fewer the third tile is not stored.
    packed = FORMATS["dasp"].from_csr(of_lengths([12, 12, 12, 12, 12, 11, 8, 8]))
    assert packed.tile_ptr.tolist() == [0, 2] and np.diff(packed.rest_ptr).tolist() == [4] * 5 + [3, 0, 0]


def test_short_rows_are_combined_in_tiles():
    packed = FORMATS["dasp"].from_csr(of_lengths([1, 3, 2, 4, 0, 1, 2, 3, 2, 1, 4]))
    assert (packed.one_three, packed.two_two) == (1, 1)

    def eight(*rows):
        return [*rows, *[-1] * (8 - len(rows))]

    assert packed.short_row.tolist() == [
        [eight(0, 5), eight(1, 7)],
        [eight(2, 8), eight(6)],
        [eight(3, 10), eight()],
    ]
    # There is no row of three for row 9, of one entry; row 4 is empty.
    assert packed.single_row.tolist() == [9, 4] and len(packed.data_single) == 1


def test_more_slots_than_positions_count_are_refused():
    with pytest.raises(FormatError, match="too short for 2,147,483,648 non-zeros"):
        FORMATS["dasp"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31))
