"""Nonzero splitting: every row is written by the group where it begins, or is the sum of its partial sums."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.csr_split import rule
from tests.formats.fitting import skewed


def added(total, heads, ended, group):
    """``total`` and the sums of ``group`` and later groups, and whether the row ends in this partition."""
    for number in range(group, len(heads)):
        total = total + heads[number]
        if number in ended:
            return total, True
    return total, False


def product(packed, b):
    """A·B as the groups compute it, from the last partition to the first; partial sums of a row in order."""
    c = np.full((packed.shape[0], b.shape[1]), np.nan)
    partials, arrived = {}, {}
    groups = (len(packed.group_starts) - 1) // len(packed.work)

    def done(row, total):
        assert np.isnan(c[row]).all(), f"row {row} is written twice"
        c[row] = total

    def add_partial(number, total):
        first, count, of, _ = packed.cut[number]
        assert number not in partials
        partials[number] = total
        arrived[first] = arrived.get(first, 0) + 1
        if arrived[first] == count:
            done(of, sum(partials[first + i] for i in range(count)))

    for partition in reversed(range(len(packed.work))):
        begin, busy, before, behind = packed.work[partition]
        slots, rows = packed.group_starts[partition * groups : (partition + 1) * groups + 1].T
        assert slots[0] == begin and (np.diff(slots)[:busy] > 0).all() and (np.diff(slots)[busy:] == 0).all()
        heads, ended, open_rows = [], set(), {}
        for group in range(busy):
            row, total, joins = max(rows[group], ~rows[group]), np.zeros(b.shape[1]), rows[group] < 0
            heads.append(total)
            for slot in range(slots[group], slots[group + 1]):
                column = packed.columns[slot]
                total = total + packed.data[slot] * b[max(column, ~column)]
                if column < 0:
                    if joins:
                        heads[group], joins = total, False
                        ended.add(group)
                    else:
                        done(row, total)
                    row, total = row + 1, np.zeros(b.shape[1])
            if joins:
                heads[group] = total
            else:
                open_rows[group] = row, total
        for group, (row, total) in open_rows.items():
            if rows[group + 1] < 0 if group + 1 < busy else behind >= 0:
                total, ends = added(total, heads, ended, group + 1)
                done(row, total) if ends else add_partial(behind, total)
        if busy and rows[0] < 0:
            total, ends = added(0.0, heads, ended, 0)
            add_partial(before if ends else behind, total)
    return c


@settings(max_examples=60)
@given(
    a=skewed(), ctas=st.integers(1, 3), multiprocessors=st.integers(1, 20), warps=st.sampled_from([1, 2, 16]),
    groups=st.sampled_from([1, 4, 8]), batch=st.sampled_from([1, 8]),
)  # fmt: skip
def test_groups_make_the_product(a, ctas, multiprocessors, warps, groups, batch):
    b = np.random.default_rng(0).random((a.shape[1], 3))
    packed = FORMATS["csr_split"].from_csr(
        a, dtype="float64", ctas=ctas, multiprocessors=multiprocessors, warps=warps, groups=groups, batch=batch
    )
    assert np.allclose(product(packed, b), a @ b)
    assert packed.group_starts[0].tolist() == [0, 0] and packed.group_starts[-1].tolist() == [
        packed.stored_slots,
        a.shape[0],
    ]
    begin = np.append(packed.work[:, 0], packed.stored_slots)

    # The groups of a warp have equal numbers of batches, except in the last warp; warps differ by one batch at most.
    counts = np.diff(packed.group_starts[:, 0]).reshape(-1, warps, groups)
    for partition in counts:
        batches = -(-partition // batch)
        least = partition.sum() // (warps * groups * batch)
        assert set(batches[:, 0]) <= {least, least + 1} and (np.diff(batches[:, 0]) <= 0).all()
        full = partition[: np.count_nonzero(partition[:, 0]) - 1]
        assert (full % batch == 0).all() and (full == full[:, :1]).all()

    lengths = np.maximum(np.diff(a.indptr), 1)
    begins = np.append(0, np.cumsum(lengths))
    assert np.array_equal(np.flatnonzero(packed.columns < 0) + 1, begins[1:])
    # A partition costs its fraction of the total, plus slack on both sides.
    cost, partitions = begins[-1] + len(lengths), len(packed.work)
    assert partitions == max(min(ctas * multiprocessors, cost // (32 * warps)), 1)
    cost_before = begin + np.searchsorted(begins, begin)
    slack = max(cost // partitions // 16, 8)
    assert slack == rule(warps).slack(cost, partitions)
    assert np.diff(cost_before).max() <= cost / partitions + 2 * slack + 3
    assert all(lengths[row] > 2 * slack for row in packed.cut[:, 2])


def test_short_rows_are_not_split_between_ctas():
    a = random_array((4000, 4000), density=0.004, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["csr_split"].from_csr(a, ctas=30, warps=16)
    assert len(packed.work) == 30 and not len(packed.cut)


def test_a_row_over_many_ctas_is_summed_over_all():
    a = csr_array((np.ones(3000), np.arange(3000), [0, 0, 3000, 3000]), shape=(3, 3000))
    packed = FORMATS["csr_split"].from_csr(a, ctas=10)
    assert packed.cut[:, :3].tolist() == [[0, 10, 1]] * 10
    assert packed.work[1:-1, 2:].tolist() == [[-1, partial] for partial in range(1, 9)]
    assert packed.group_starts[:8, 1].tolist() == [0, *[~1] * 7] and (packed.group_starts[8:72, 1] == ~1).all()


def test_positions_that_32_bits_do_not_count_are_refused():
    with pytest.raises(FormatError, match="too few for 2,147,482,623 non-zeros in 1 rows"):
        FORMATS["csr_split"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31 - 1025, data=np.empty(0)))
