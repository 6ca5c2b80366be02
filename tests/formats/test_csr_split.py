"""CSR in equal parts: every row is written by the group where it begins, or added up of all its parts."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.csr_split import LEAST_COST, LEAST_SLACK, ROW_COST, SLACK
from tests.formats.fitting import skewed


def added(total, heads, ended, group):
    """A sum with the parts from a group on, and whether the row ends in this share."""
    for number in range(group, len(heads)):
        total = total + heads[number]
        if number in ended:
            return total, True
    return total, False


def product(packed, b):
    """A·B as the groups compute it, from the last share to the first; parts of a row in the order of their numbers."""
    c = np.full((packed.shape[0], b.shape[1]), np.nan)
    parts, arrived = {}, {}
    groups = (len(packed.places) - 1) // len(packed.work)

    def done(row, total):
        assert np.isnan(c[row]).all(), f"row {row} is written twice"
        c[row] = total

    def part(number, total):
        first, count, of, _ = packed.cut[number]
        assert number not in parts
        parts[number] = total
        arrived[first] = arrived.get(first, 0) + 1
        if arrived[first] == count:
            done(of, sum(parts[first + i] for i in range(count)))

    for share in reversed(range(len(packed.work))):
        begin, busy, before, behind = packed.work[share]
        slots, rows = packed.places[share * groups : (share + 1) * groups + 1].T
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
                done(row, total) if ends else part(behind, total)
        if busy and rows[0] < 0:
            total, ends = added(0.0, heads, ended, 0)
            part(before if ends else behind, total)
    return c


@settings(max_examples=60)
@given(
    a=skewed(), ctas=st.integers(1, 3), multiprocessors=st.integers(1, 20), warps=st.sampled_from([1, 2, 16]),
    groups=st.sampled_from([1, 4, 8]), batch=st.sampled_from([1, 8]),
)  # fmt: skip
def test_equal_parts_make_the_product(a, ctas, multiprocessors, warps, groups, batch):
    b = np.random.default_rng(0).random((a.shape[1], 3))
    packed = FORMATS["csr_split"].from_csr(
        a, dtype="float64", ctas=ctas, multiprocessors=multiprocessors, warps=warps, groups=groups, batch=batch
    )
    assert np.allclose(product(packed, b), a @ b)
    assert packed.places[0].tolist() == [0, 0] and packed.places[-1].tolist() == [packed.stored_slots, a.shape[0]]
    begin = np.append(packed.work[:, 0], packed.stored_slots)

    # The groups of a warp have equally many batches, but for the last warp, and no warp two more than another.
    counts = np.diff(packed.places[:, 0]).reshape(-1, warps, groups)
    for share in counts:
        batches = -(-share // batch)
        least = share.sum() // (warps * groups * batch)
        assert set(batches[:, 0]) <= {least, least + 1} and (np.diff(batches[:, 0]) <= 0).all()
        full = share[: np.count_nonzero(share[:, 0]) - 1]
        assert (full % batch == 0).all() and (full == full[:, :1]).all()

    lengths = np.maximum(np.diff(a.indptr), 1)
    begins = np.append(0, np.cumsum(lengths))
    assert np.array_equal(np.flatnonzero(packed.columns < 0) + 1, begins[1:])
    # The cost of a share is its part of all, and slack on both sides.
    cost, shares = begins[-1] + ROW_COST * len(lengths), len(packed.work)
    assert shares == max(min(ctas * multiprocessors, cost // (LEAST_COST * warps)), 1)
    paid = begin + ROW_COST * np.searchsorted(begins, begin)
    slack = max(cost // shares // SLACK, LEAST_SLACK)
    assert np.diff(paid).max() <= cost / shares + 2 * slack + 2 * ROW_COST + 1
    assert all(lengths[row] > 2 * slack for row in packed.cut[:, 2])


def test_short_rows_are_not_cut_between_ctas():
    a = random_array((4000, 4000), density=0.004, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["csr_split"].from_csr(a, ctas=30, warps=16)
    assert len(packed.work) == 30 and not len(packed.cut)


def test_a_row_over_many_ctas_is_added_up_of_all():
    a = csr_array((np.ones(3000), np.arange(3000), [0, 0, 3000, 3000]), shape=(3, 3000))
    packed = FORMATS["csr_split"].from_csr(a, ctas=10)
    assert packed.cut[:, :3].tolist() == [[0, 10, 1]] * 10
    assert packed.work[1:-1, 2:].tolist() == [[-1, part] for part in range(1, 9)]
    assert packed.places[:8, 1].tolist() == [0, *[~1] * 7] and (packed.places[8:72, 1] == ~1).all()


def test_positions_that_32_bits_do_not_count_are_refused():
    with pytest.raises(FormatError, match="too few for 2,147,482,623 non-zeros in 1 rows"):
        FORMATS["csr_split"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31 - 1025, data=np.empty(0)))
