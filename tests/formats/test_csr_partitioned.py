"""Row segments: each row is written by one segment or summed over all its sections; partitions have equal costs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.csr_partitioned import RULE
from tests.formats.fitting import skewed


@settings(max_examples=60)
@given(a=skewed(), ctas=st.integers(1, 3), multiprocessors=st.integers(1, 20), groups=st.sampled_from([1, 8, 80]))
def test_segments_cover_all_rows_and_partitions_all_segments(a, ctas, multiprocessors, groups):
    packed = FORMATS["csr_partitioned"].from_csr(a, ctas=ctas, multiprocessors=multiprocessors, groups=groups)
    m = a.shape[0]
    lengths = np.maximum(np.diff(a.indptr), 1)
    begin, code = packed.segments[:, 0], packed.segments[:-1, 1]
    assert begin[0] == 0 and begin[-1] == lengths.sum() and (np.diff(begin) > 0).all()
    written, added = [], {}
    for segment, row in enumerate(code.tolist()):
        ends = np.flatnonzero(packed.columns[begin[segment] : begin[segment + 1]] < 0)
        assert ends[-1] == begin[segment + 1] - begin[segment] - 1
        if row >= 0:
            written += range(row, row + len(ends))
        else:
            first, count, of = packed.cut[~row, :3]
            added.setdefault(int(of), []).append((~row - first, count))
            assert len(ends) == 1 and len(ends) <= begin[segment + 1] - begin[segment] <= RULE.most_long
    for sections in added.values():
        assert sections == [(i, len(sections)) for i in range(len(sections))] and len(sections) > 1
    assert sorted([*written, *added]) == list(range(m))
    assert all(lengths[row] > RULE.least_long for row in added) and lengths[written].max(initial=0) <= RULE.most_long

    assert packed.work[0] == 0 and packed.work[-1] == len(code) and (np.diff(packed.work) >= 0).all()
    rows = np.where(code >= 0, code, packed.cut[~np.minimum(code, -1), 2] if len(packed.cut) else 0)
    cost_before = np.append(begin[:-1] + RULE.row_cost * rows, begin[-1] + RULE.row_cost * m)
    partitions = len(packed.work) - 1
    assert partitions == max(min(ctas * multiprocessors, cost_before[-1] // RULE.least_cost), 1)
    # A split row lies in one partition unless it is long for it.
    kept, largest = (
        max(cost_before[-1] // partitions // RULE.kept_divisor, RULE.kept_entries * groups),
        np.diff(cost_before).max(),
    )
    for first, count, _, segment in np.unique(packed.cut, axis=0).tolist():
        assert code[segment] == ~first
        cost = int(cost_before[segment + count] - cost_before[segment])
        partition, last = np.searchsorted(packed.work, [segment, segment + count - 1], side="right")
        assert cost > kept or partition == last
        largest = max(largest, cost if cost <= kept else 0)
    assert np.diff(cost_before[packed.work]).max() <= cost_before[-1] / partitions + largest + 1
