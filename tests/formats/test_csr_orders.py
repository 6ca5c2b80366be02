"""What the CSR formats with an extra order add: rows by length, pieces of rows, condensed columns."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS, FormatError


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
    """A matrix whose rows have so many entries, from column 0 on."""
    return canonical([[1.0] * length + [0.0] * (max(rows) - length) for length in rows])


def test_rows_come_longest_first_and_in_their_own_order_where_equal():
    assert FORMATS["csr_swizzled"].from_csr(lengths(2, 0, 5, 2, 5)).order.tolist() == [2, 4, 0, 3, 1]


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_the_order_names_every_row_once(a):
    packed = FORMATS["csr_swizzled"].from_csr(a)
    assert sorted(packed.order.tolist()) == list(range(a.shape[0]))
    assert (np.diff(np.diff(a.indptr)[packed.order]) <= 0).all()


def test_segments_come_first_and_rows_of_several_pieces_are_marked():
    packed = FORMATS["csr_segmented"].from_csr(lengths(3, 0, 9, 4), segment=4)
    pieces = list(zip(packed.piece_row.tolist(), packed.piece_start.tolist(), packed.piece_end.tolist(), strict=True))
    # Row 2 is cut in two segments and a residue of one; row 3 is a full segment, and all of its row.
    assert pieces == [(~2, 3, 7), (~2, 7, 11), (3, 12, 16), (0, 0, 3), (~2, 11, 12)]
    assert packed.split_rows.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(matrices(), st.integers(1, 40))
def test_pieces_cover_every_entry_once(a, segment):
    packed = FORMATS["csr_segmented"].from_csr(a, segment=segment)
    row = np.where(packed.piece_row < 0, ~packed.piece_row, packed.piece_row)
    covered = np.zeros(a.nnz, dtype=int)
    for r, start, end in zip(row, packed.piece_start, packed.piece_end, strict=True):
        assert a.indptr[r] <= start < end <= a.indptr[r + 1] and end - start <= segment
        covered[start:end] += 1
    assert (covered == 1).all()
    pieces = np.bincount(row, minlength=a.shape[0])
    assert packed.split_rows.tolist() == np.flatnonzero(pieces != 1).tolist()
    assert ((packed.piece_row < 0) == (pieces[row] > 1)).all()


def test_tiles_of_the_merge_path_by_hand():
    # The path: three entries, end of row 0, end of row 1, nine entries, end of row 2, four entries, end of row 3.
    packed = FORMATS["csr_merge_path"].from_csr(lengths(3, 0, 9, 4), items=5)
    assert packed.tile_row.tolist() == [0, 2, 2, 3, 4]
    assert (packed.split_row.tolist(), packed.split_first.tolist(), packed.split_last.tolist()) == ([2], [1], [2])
    assert packed.crossing.tolist() == [-1, -1, 0, -1, -1]
    counts = packed.counts()
    assert (counts["tiles"], counts["split_rows"], counts["items"]) == (4, 1, 5)


@settings(max_examples=100, deadline=None)
@given(matrices(), st.integers(1, 40))
def test_tiles_of_the_merge_path_add_up_to_the_product(a, items):
    """The sums of a tile's rows and the parts of those that it shares, as a kernel takes them from the cuts."""
    packed = FORMATS["csr_merge_path"].from_csr(a, items=items)
    m, path, tiles = a.shape[0], a.shape[0] + a.nnz, packed.counts()["tiles"]
    x = np.random.default_rng(0).integers(1, 9, a.shape[1]).astype(float)
    products, y = a.data * x[a.indices], np.full(m, np.nan)
    heads, tails, arrived = np.full(tiles, np.nan), np.full(tiles, np.nan), np.zeros(len(packed.split_row), dtype=int)
    for tile, (row0, row1) in enumerate(zip(packed.tile_row[:-1], packed.tile_row[1:], strict=True)):
        entry0, entry1 = tile * items - row0, min((tile + 1) * items, path) - row1
        assert 0 <= entry0 <= entry1 <= a.nnz and (entry1 - entry0) + (row1 - row0) <= items
        begins = np.append(np.maximum(packed.indptr[row0 : row1 + 1] - entry0, 0), entry1 - entry0)
        assert (np.diff(begins) >= 0).all()
        sums = [products[entry0:entry1][start:end].sum() for start, end in pairwise(begins)]
        came, goes_on = packed.crossing[tile] if row1 > row0 else -1, packed.crossing[tile + 1]
        y[row0:row1] = sums[:-1]
        if came >= 0:
            heads[tile], y[row0] = sums[0], np.nan
            arrived[came] += 1
        if goes_on >= 0:
            tails[tile] = sums[-1]
            arrived[goes_on] += 1
        else:
            assert sums[-1] == 0
    assert np.array_equal(arrived, packed.split_last - packed.split_first + 1)
    for row, first, last in zip(packed.split_row, packed.split_first, packed.split_last, strict=True):
        assert np.isnan(y[row])
        y[row] = tails[first:last].sum() + heads[last]
    assert np.array_equal(y, a @ x)


def test_a_tile_of_the_merge_path_has_at_least_one_item():
    with pytest.raises(FormatError, match="at least 1 item, not 0"):
        FORMATS["csr_merge_path"].from_csr(lengths(1), items=0)


def test_even_tiles_by_hand():
    # Rows end with entries 3, 3, 12 and 16: the first tile ends within row 2, and so does the second; two chunks.
    packed = FORMATS["csr_even"].from_csr(lengths(3, 0, 9, 4), items=5, groups=1, multiprocessors=2)
    assert packed.tile_row.tolist() == [0, 2, 2, 3, 4]
    assert (len(packed.data), len(packed.indices), packed.nnz) == (20, 20, 16)
    counts = packed.counts()
    assert [counts[name] for name in ("items", "tiles", "chunks", "steps", "longer")] == [5, 4, 2, 2, 0]


@settings(max_examples=100, deadline=None)
@given(matrices(), st.integers(1, 40), st.integers(1, 9))
def test_even_tiles_add_up_to_the_product(a, items, groups):
    """Each chunk's sums of the rows that begin in it, with the parts that the chunks behind it have of its last one."""
    packed = FORMATS["csr_even"].from_csr(a, items=items, groups=groups, multiprocessors=1)
    m, counts = a.shape[0], packed.counts()
    chunks, steps, longer = counts["chunks"], counts["steps"], counts["longer"]
    if a.nnz == 0:
        assert (chunks, len(packed.data)) == (min(m, 1), 0)
        return
    x = np.random.default_rng(0).integers(1, 9, a.shape[1]).astype(float)
    products, y, parts = packed.data * x[packed.indices], np.full(m, np.nan), np.full(chunks, np.nan)
    assert len(products) == counts["tiles"] * items and (products[a.nnz :] == 0).all()
    for chunk in reversed(range(chunks)):
        first = chunk * steps + min(chunk, longer)
        last = first + steps + (chunk < longer)
        carried = 0.0
        for tile in range(first, last):
            row0, row1 = packed.tile_row[tile : tile + 2]
            for row in range(row0, row1 + 1):
                start, stop = packed.indptr[row], packed.indptr[min(row + 1, m)]
                inside = products[max(start, tile * items) : min(stop, (tile + 1) * items)].sum()
                carried, total = 0.0, carried + inside
                if row == row1:
                    carried = total
                elif start < first * items:
                    parts[chunk] = total
                else:
                    y[row] = total
        if row1 < m and packed.indptr[row1] < last * items:
            if packed.indptr[row1] < first * items:
                parts[chunk] = carried
                continue
            end, edge = (packed.indptr[row1 + 1] - 1) // items, longer * (steps + 1)
            others = end // (steps + 1) if end < edge else longer + (end - edge) // steps
            y[row1] = carried + parts[chunk + 1 : others + 1].sum()
            parts[chunk + 1 : others + 1] = np.nan
    # Every part was waited for, and once.
    assert np.isnan(parts).all() and np.array_equal(y, a @ x)


def test_an_even_tile_has_at_least_one_entry():
    with pytest.raises(FormatError, match="at least 1 entry a tile and 1 group on 1 multiprocessor, not 0, 4 and 132"):
        FORMATS["csr_even"].from_csr(lengths(1), items=0)


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
