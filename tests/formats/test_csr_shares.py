"""CSR in equal shares: every row is written by one piece or added up of all its parts, and no share is much longer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.csr_shares import KEPT, KEPT_PART, LEAST_COST, LEAST_LONG, MOST_LONG, ROW_COST
from tests.formats.fitting import skewed


@settings(max_examples=60)
@given(a=skewed(), ctas=st.integers(1, 3), multiprocessors=st.integers(1, 20), groups=st.sampled_from([1, 8, 80]))
def test_pieces_are_all_rows_and_shares_all_pieces(a, ctas, multiprocessors, groups):
    packed = FORMATS["csr_shares"].from_csr(a, ctas=ctas, multiprocessors=multiprocessors, groups=groups)
    m = a.shape[0]
    lengths = np.maximum(np.diff(a.indptr), 1)
    begin, code = packed.pieces[:, 0], packed.pieces[:-1, 1]
    assert begin[0] == 0 and begin[-1] == lengths.sum() and (np.diff(begin) > 0).all()
    written, added = [], {}
    for piece, row in enumerate(code.tolist()):
        ends = np.flatnonzero(packed.columns[begin[piece] : begin[piece + 1]] < 0)
        assert ends[-1] == begin[piece + 1] - begin[piece] - 1
        if row >= 0:
            written += range(row, row + len(ends))
        else:
            first, count, of = packed.cut[~row, :3]
            added.setdefault(int(of), []).append((~row - first, count))
            assert len(ends) == 1 and len(ends) <= begin[piece + 1] - begin[piece] <= MOST_LONG
    for parts in added.values():
        assert parts == [(i, len(parts)) for i in range(len(parts))] and len(parts) > 1
    assert sorted([*written, *added]) == list(range(m))
    assert all(lengths[row] > LEAST_LONG for row in added) and lengths[written].max(initial=0) <= MOST_LONG

    assert packed.work[0] == 0 and packed.work[-1] == len(code) and (np.diff(packed.work) >= 0).all()
    rows = np.where(code >= 0, code, packed.cut[~np.minimum(code, -1), 2] if len(packed.cut) else 0)
    paid = np.append(begin[:-1] + ROW_COST * rows, begin[-1] + ROW_COST * m)
    shares = len(packed.work) - 1
    assert shares == max(min(ctas * multiprocessors, paid[-1] // LEAST_COST), 1)
    # A row that is cut lies in one share unless it is long for it.
    kept, largest = max(paid[-1] // shares // KEPT_PART, KEPT * groups), np.diff(paid).max()
    for first, count, _, piece in np.unique(packed.cut, axis=0).tolist():
        assert code[piece] == ~first
        cost = int(paid[piece + count] - paid[piece])
        share, last = np.searchsorted(packed.work, [piece, piece + count - 1], side="right")
        assert cost > kept or share == last
        largest = max(largest, cost if cost <= kept else 0)
    assert np.diff(paid[packed.work]).max() <= paid[-1] / shares + largest + 1
