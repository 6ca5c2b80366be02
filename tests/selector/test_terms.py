"""Terms: how each kind of work grows with the matrix, the width and the ceilings."""

import numpy as np
import pytest
from scipy import sparse

from spmm_roofline.matrices.features import features
from spmm_roofline.selector.terms import (
    COUNTS,
    FEATURES,
    TERMS,
    VALUE_BYTES,
    Rates,
    Work,
    compulsory_bytes,
    counts,
    log_sum,
    terms,
)

RATES = Rates(dram_gb_per_s=4000.0, l2_gb_per_s=8000.0, l2_bytes=50e6)
#: A format of 8 bytes per non-zero and 4 per row, whose kernel multiplies each non-zero.
CSR = Work("float32", 32, 50_000.0, np.array([8.0, 4, 0, 0, 0, 0]), np.array([1.0, 0, 0, 0, 0, 0]))


def case_of(a, n=64, warm=False):
    known = features(sparse.csr_array(a))
    return {name: known[name] for name in FEATURES} | {"n": n, "warm": warm}


def named(case, work=CSR, rates=RATES):
    return dict(zip(TERMS, terms(case, work, rates)[0], strict=True))


DENSE = case_of(np.ones((32, 64)))


def test_counts_of_a_dense_matrix_are_all_its_slots():
    found = dict(zip(COUNTS, counts(DENSE)[0], strict=True))
    assert found.pop("rows") == 32
    assert set(found.values()) == {32 * 64}


def test_counts_of_an_empty_matrix_are_zero_but_for_its_size():
    found = dict(zip(COUNTS, counts(case_of(np.zeros((32, 64))))[0], strict=True))
    assert found == dict.fromkeys(COUNTS, 0) | {"rows": 32, "slots of A": 32 * 64}


def test_terms_are_bytes_and_flops_over_their_ceilings():
    found = named(DENSE)
    nnz, n = 32 * 64, 64
    assert found["read_a"] == pytest.approx((8 * nnz + 4 * 32) / 4e9)
    assert found["read_b"] == pytest.approx(64 * n * 4 / 4e9)
    assert found["write_c"] == pytest.approx(32 * n * 4 / 4e9)
    assert found["gather"] == pytest.approx(nnz * n * 4 / 8e9)
    assert found["flops"] == pytest.approx(2 * nnz * n / 50e9)
    assert found["uneven"] == 0


def test_a_warm_l2_spares_the_reads_of_small_operands_alone():
    cold, warm = (named(DENSE | {"warm": state}) for state in (False, True))
    assert warm["read_a"] < 0.01 * cold["read_a"] and warm["read_b"] < 0.01 * cold["read_b"]
    assert warm["write_c"] == cold["write_c"]
    large = {"m": 10**7, "k": 10**7, "nnz": 10**9, "nonempty_columns": 10**7}
    assert named(DENSE | large | {"warm": True})["read_b"] > 0.9 * named(DENSE | large)["read_b"]


def test_a_column_slab_costs_the_same_where_c_has_fewer_columns():
    one, half, two = (named(DENSE | {"n": n}) for n in (32, 16, 64))
    for name in ("gather", "condensed", "flops", "nonzeros", "rows", "tiles"):
        assert half[name] == one[name] and two[name] == pytest.approx(2 * one[name])
    assert half["write_c"] == one["write_c"] / 2


@pytest.mark.parametrize("size", ["nnz", "m", "n", "nonempty_columns", "row_length_max", "row_length_std"])
def test_no_term_falls_with_more_work(size):
    more = DENSE | {size: 3 * DENSE[size] + 1}
    assert (terms(more, CSR, RATES) >= terms(DENSE, CSR, RATES)).all()


def test_the_sum_is_bounded_by_reading_a_and_b_and_by_the_fastest_call():
    times_ms = terms(DENSE, CSR, RATES)
    least = times_ms[0, list(TERMS).index("read_a")] + times_ms[0, list(TERMS).index("read_b")]
    nothing = np.zeros(len(TERMS))
    assert np.exp(log_sum(times_ms, nothing, 0.0, RATES))[0] == pytest.approx(least)
    assert np.exp(log_sum(times_ms, nothing, 0.5, RATES))[0] == pytest.approx(0.5)
    assert np.exp(log_sum(times_ms, nothing + 1, 0.0, RATES))[0] == pytest.approx(times_ms.sum())


def test_what_l2_does_not_keep_of_c_is_written_in_no_less_time_than_dram_takes():
    wide = DENSE | {"n": 10**6}
    times_ms, found = terms(wide, CSR, RATES), named(wide)
    least = np.exp(log_sum(times_ms, np.zeros(len(TERMS)), 0.0, RATES))[0]
    assert least == pytest.approx(found["read_a"] + found["read_b"] + (32 * 10**6 * 4 - 50e6) / 4e9)


@pytest.mark.parametrize("precision", VALUE_BYTES)
def test_compulsory_bytes_count_each_operand_once(precision):
    size = VALUE_BYTES[precision]
    csr = 32 * 64 * (size + 4) + 4 * 33
    assert compulsory_bytes(DENSE, precision) == csr + (64 + 32) * 64 * size
