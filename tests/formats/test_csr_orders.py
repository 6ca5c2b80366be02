"""The CSR formats with additional arrays: rows by length, row segments, merge path, condensed columns."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.csr_binned import BEYOND, BINS, bin_of
from tests import emulation


def canonical(dense):
    a = csr_array(np.asarray(dense, dtype=np.float64))
    a.sort_indices()
    return a


@st.composite
def matrices(draw):
    m, k = draw(st.integers(0, 90)), draw(st.integers(0, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return canonical((rng.random((m, k)) < draw(st.floats(0, 1)) * rng.random((m, 1))) * 1.0)


def lengths(*rows):
    """A matrix whose rows have ``rows`` entries, from column 0."""
    return canonical([[1.0] * length + [0.0] * (max(rows) - length) for length in rows])


def test_rows_come_longest_first_and_in_their_own_order_where_equal():
    assert FORMATS["csr_swizzled"].from_csr(lengths(2, 0, 5, 2, 5)).order.tolist() == [2, 4, 0, 3, 1]


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_the_order_names_every_row_once(a):
    packed = FORMATS["csr_swizzled"].from_csr(a)
    assert sorted(packed.order.tolist()) == list(range(a.shape[0]))
    assert (np.diff(np.diff(a.indptr)[packed.order]) <= 0).all()


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_bins_count_rows_and_runs_name_their_entries(a):
    packed = FORMATS["csr_binned"].from_csr(a)
    row, start, end, zero = packed.runs.reshape(-1, 4).T
    assert row.tolist() == FORMATS["csr_swizzled"].from_csr(a).order.tolist() and not zero.any()
    assert (start == a.indptr[:-1][row]).all() and (end == a.indptr[1:][row]).all()
    counts = np.diff(a.indptr)
    assert packed.longer == (*((counts >= least).sum() for least in BINS), *(0,) * BEYOND)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (90, 700), (600, 70)])
def test_a_device_makes_the_same_runs(shape):
    rng = np.random.default_rng(4)
    a = canonical(rng.random(shape) < rng.random((shape[0], 1)) ** 3)
    form = FORMATS["csr_binned"]
    with emulation.emulated():
        from spmm_roofline.kernels.packers import pack, packer_of

        packed = pack(form, emulation.device.csr_matrix(a), "float32", {}, packer_of(form))
        on_host = form.from_csr(a)
        assert packed.longer == on_host.longer
        for name, array in on_host.arrays().items():
            assert np.array_equal(packed.arrays()[name].get(), array), name


def test_two_bins_are_an_octave():
    assert BINS[:9] == (1, 2, 3, 4, 6, 8, 12, 16, 24) and BINS[-1] == 2**31
    assert all(BINS[i + 2] == 2 * BINS[i] for i in range(1, len(BINS) - 2))
    assert [bin_of(length) for length in (0, 1, 5, 6, 2**31)] == [0, 0, 3, 4, len(BINS) - 1]


def test_segments_come_first_and_rows_of_several_segments_are_marked():
    packed = FORMATS["csr_segmented"].from_csr(lengths(3, 0, 9, 4), segment=4)
    segments = list(
        zip(packed.segment_row.tolist(), packed.segment_start.tolist(), packed.segment_end.tolist(), strict=True)
    )
    # Row 2 is cut into two segments and a residue of one entry; row 3 is one full segment.
    assert segments == [(~2, 3, 7), (~2, 7, 11), (3, 12, 16), (0, 0, 3), (~2, 11, 12)]
    assert packed.split_rows.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(matrices(), st.integers(1, 40))
def test_segments_cover_every_entry_once(a, segment):
    packed = FORMATS["csr_segmented"].from_csr(a, segment=segment)
    row = np.where(packed.segment_row < 0, ~packed.segment_row, packed.segment_row)
    covered = np.zeros(a.nnz, dtype=int)
    for r, start, end in zip(row, packed.segment_start, packed.segment_end, strict=True):
        assert a.indptr[r] <= start < end <= a.indptr[r + 1] and end - start <= segment
        covered[start:end] += 1
    assert (covered == 1).all()
    segments = np.bincount(row, minlength=a.shape[0])
    assert packed.split_rows.tolist() == np.flatnonzero(segments != 1).tolist()
    assert ((packed.segment_row < 0) == (segments[row] > 1)).all()


def test_tiles_of_the_merge_path_by_hand():
    # A tile has room for 50 entries, so that 300 steps make 2 chunks of 3; rows end with steps 40, 41, 242 and 299.
    packed = FORMATS["csr_merge_path"].from_csr(lengths(40, 0, 200, 56), items=81, chunks=2)
    assert packed.tile_row.tolist() == [0, 2, 2, 2, 2, 3, 4]
    counts = packed.counts()
    assert [counts[name] for name in ("items", "tiles", "chunks", "steps", "width")] == [81, 6, 2, 3, 50]


def test_a_few_wide_tiles_suffice_for_rows_of_equal_length():
    rows = csr_array((np.ones(600), np.arange(600), np.arange(601)))
    counts = FORMATS["csr_merge_path"].from_csr(rows, items=131, chunks=1).counts()
    # 100 entries and 100 rows per tile.
    assert (counts["steps"], counts["width"]) == (6, 200)


@st.composite
def uneven(draw):
    """Mostly empty or short rows, and some longer than several tiles."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.integers(0, draw(st.integers(1, 8)), draw(st.integers(0, 900)))
    counts[rng.random(len(counts)) < draw(st.sampled_from([0, 0.01, 0.2]))] = draw(st.integers(0, 400))
    start = rng.integers(0, len(counts) + 1)
    counts[start : start + draw(st.integers(0, 700))] = 0
    indptr = np.append(0, np.cumsum(counts))
    return csr_array((np.ones(indptr[-1]), rng.integers(0, 50, indptr[-1]), indptr), shape=(len(counts), 50))


@settings(max_examples=100, deadline=None)
@given(st.one_of(matrices(), uneven()), st.integers(64, 200), st.integers(1, 40))
def test_chunks_of_the_merge_path_cost_the_same_and_add_up_to_the_product(a, items, chunks):
    """Each chunk sums the rows that begin in it; later chunks contribute partial sums of its last row."""
    packed = FORMATS["csr_merge_path"].from_csr(a, items=items, chunks=chunks)
    m, path, counts = a.shape[0], a.shape[0] + a.nnz, packed.counts()
    steps, width, tile_row = counts["steps"], counts["width"], packed.tile_row
    assert counts["chunks"] == min(chunks, -(-path // items)) and counts["tiles"] == counts["chunks"] * steps
    assert (width - 1) * counts["tiles"] < path or path == 0
    tile_entry = np.minimum(np.arange(counts["tiles"] + 1) * width, path) - tile_row
    assert (tile_row[0], tile_entry[0], tile_row[-1], tile_entry[-1]) == (0, 0, m, a.nnz)
    # Entries and those that alignment adds fit in a tile, and so do the beginnings of its rows and two more.
    assert (np.diff(tile_entry) >= 0).all() and (np.diff(tile_entry) + 31 <= items).all()
    assert (np.diff(tile_row) >= 0).all() and (np.diff(tile_row) + 2 <= items).all()
    x = np.random.default_rng(0).integers(1, 9, a.shape[1]).astype(float)
    products, y, partials = a.data * x[a.indices], np.full(m, np.nan), np.full(counts["chunks"], np.nan)
    for chunk in reversed(range(counts["chunks"])):
        first, last = chunk * steps, (chunk + 1) * steps
        begun = tile_row[first] if a.indptr[tile_row[first]] < tile_entry[first] else -1
        carried = 0.0
        for tile in range(first, last):
            row0, row1 = tile_row[tile : tile + 2]
            begins = np.append(np.clip(a.indptr[row0 : row1 + 1], *tile_entry[tile : tile + 2]), tile_entry[tile + 1])
            sums = [products[start:end].sum() for start, end in pairwise(begins)]
            sums[0] += carried
            carried = sums.pop()
            for row, total in enumerate(sums, row0):
                if row == begun:
                    partials[chunk] = total
                else:
                    y[row] = total
        row = tile_row[last]
        if row == m:
            continue
        if row == begun:
            partials[chunk] = carried
        elif a.indptr[row] < tile_entry[last]:
            others = np.flatnonzero(tile_row[:-1:steps][chunk + 1 :] == row) + chunk + 1
            y[row] = carried + partials[others].sum()
            partials[others] = np.nan
    # Every partial sum was added, exactly once.
    assert np.isnan(partials).all() and np.array_equal(y, a @ x)


def test_a_tile_of_the_merge_path_has_room_for_aligned_entries():
    with pytest.raises(FormatError, match="at least 64 items per tile and at least 1 chunk, not 63 and 528"):
        FORMATS["csr_merge_path"].from_csr(lengths(1), items=63)


def test_a_segment_has_at_least_one_entry():
    with pytest.raises(FormatError, match="at least 1 entry, not 0"):
        FORMATS["csr_segmented"].from_csr(lengths(1), segment=0)


def test_condensed_columns_by_hand():
    dense = np.zeros((18, 40))
    dense[0, [3, 30]] = dense[15, [3, 7, 39]] = dense[16, [39]] = 1
    packed = FORMATS["csr_condensed"].from_csr(canonical(dense))
    # Columns 3, 7, 30 and 39 of the first window are 0 to 3; the second window has column 39 alone.
    assert packed.condensed.tolist() == [0, 2, 0, 1, 3, 0]
    assert packed.row.tolist() == [0, 0, 15, 15, 15, 16]
    assert packed.window_tiles.tolist() == [1, 1]
    assert packed.covered_slots == 2 * 16 * 8 and packed.stored_slots == 6


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_condensed_columns_number_the_columns_of_a_window(a):
    packed = FORMATS["csr_condensed"].from_csr(a)
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    assert (packed.row == rows).all()
    for window, tiles in enumerate(packed.window_tiles):
        own = rows // 16 == window
        columns = np.unique(a.indices[own])
        assert (columns[packed.condensed[own]] == a.indices[own]).all()
        assert tiles == -(-len(columns) // 8)
