"""The kernel to choose: on the matrices that both ran, and what is within noise says so."""

import pandas as pd
import pytest

from spmm_roofline.analysis.kinds import leader

NAN = float("nan")


def times(**kernels):
    return pd.DataFrame(
        kernels, index=[f"m{number}" for number in range(len(next(iter(kernels.values()))))], dtype=float
    )


def test_who_ran_more_is_not_better_for_that():
    # On the two matrices that both ran b is faster; a alone ran the others.
    table = times(a=[2.0, 2.0, 1.0, 1.0], b=[1.0, 1.0, NAN, NAN])
    assert leader(table) == ("b", "a", pytest.approx(2.0))


def test_a_kernel_of_few_matrices_is_no_choice():
    assert leader(times(a=[2.0, 2.0, 1.0], b=[1.0, NAN, NAN]))[0] == "a"


def test_a_geometric_mean_over_shared_matrices_decides():
    # 4 and 1/2: a is ahead by the square root of two.
    assert leader(times(a=[1.0, 2.0], b=[4.0, 1.0])) == ("a", "b", pytest.approx(2**0.5))


def test_one_kernel_has_nobody_behind_it():
    assert leader(times(a=[1.0, 2.0])) == ("a", "", None)
    assert leader(times(a=[1.0, NAN], b=[NAN, 2.0]))[1:] == ("", None), "they share no matrix"
