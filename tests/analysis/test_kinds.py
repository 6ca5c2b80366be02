"""The kernel to choose: on the matrices that both ran, and what is within noise says so."""

import pandas as pd
import pytest

from spmm_roofline.analysis.kinds import kinds, leader

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


def test_kernels_that_share_half_of_the_matrices_are_compared():
    assert leader(times(a=[1.0, 1.0], b=[4.0, NAN])) == ("a", "b", pytest.approx(4.0))
    assert leader(times(a=[1.0, 1.0, 1.0, NAN], b=[NAN, NAN, 4.0, 4.0]))[1:] == ("", None), "one of four is too few"


def cases(**kernels):
    """``kernels``: times on matrices m0, m1, …; None where the kernel refused the matrix, NaN where it was not run."""
    rows = []
    for kernel, own in kernels.items():
        study = "cusparse" if kernel.startswith("cusparse") else "smat"
        for number, time in enumerate(own):
            if time is not None and time != time:
                continue
            row = {"device": "d", "host": "4.4", "suite": "s", "study": study, "kernel": kernel, "l2": "cold", "n": 32}
            row |= {"matrix": f"m{number}", "matrix_sha256": f"{number}", "protocol": 1, "kind": "mesh"}
            row |= {"precision": "float16", "dtype_accumulator": "float32", "noisy": False, "stale": False}
            row |= {"time_ms": time, "baseline_ms": 2.0, "status": "unsupported" if time is None else "ok"}
            row |= {"useful_gflops": None if time is None else 8 / time, "measured_at": "2026", "bound": "memory"}
            rows.append(row | {"bound_fraction": 0.5, "speedup": None if time is None else 2 / time})
    return pd.DataFrame(rows).astype({"time_ms": float, "useful_gflops": float, "speedup": float})


def chosen(**kernels):
    (row,) = kinds(cases(**kernels), 100).to_dict("records")
    return row


def test_the_choice_by_hand():
    row = chosen(fast=[1.0, 2.0, 4.0, 1.0], slow=[2.0, 4.0, 8.0, 4.0], cusparse_best_f16=[2.0] * 4)
    assert (row["kernel"], row["study"], row["matrices"], row["compared"]) == ("fast", "smat", 4, 4)
    # 2, 1, 1/2 and 2 over cuSPARSE, and 2, 2, 2 and 4 over the other.
    assert row["speedup"] == pytest.approx(2 ** (1 / 4)) and row["wins"] == 2
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["runner_up"] == "cusparse_best_f16" and row["lead"] == pytest.approx(2 ** (1 / 4))
    assert not row["within_noise"] and row["useful_gflops"] == pytest.approx(8 / 8 ** (1 / 4))
    assert (row["bound"], row["bound_fraction"], row["sums"]) == ("memory", 0.5, "float32")


def test_a_lead_within_noise_says_so():
    assert chosen(fast=[1.0, 1.0], slow=[1.029, 1.029])["within_noise"]
    assert not chosen(fast=[1.0, 1.0], slow=[1.031, 1.031])["within_noise"]


def test_cusparse_is_chosen_where_it_leads():
    row = chosen(slow=[4.0, 4.0], cusparse_best_f16=[2.0, 2.0], cusparse_csr=[1.0, 1.0])
    assert (row["kernel"], row["speedup"], row["wins"]) == ("cusparse_best_f16", pytest.approx(1), 0)


def test_who_refuses_a_matrix_or_has_no_baseline():
    assert chosen(refuses=[1.0, None], slow=[4.0, 4.0])["kernel"] == "slow"
    alone = cases(mma=[1.0, 1.0]).assign(baseline_ms=NAN, speedup=NAN)
    (row,) = kinds(alone, 100).to_dict("records")
    assert row["compared"] == 0 and row["speedup"] != row["speedup"] and row["runner_up"] == ""


def test_the_bound_of_a_choice_is_the_most_frequent_one():
    for bounds, most in ((("memory", "launch", "launch"), "launch"), (("memory", "launch", "compute"), "compute")):
        rows = cases(mma=[1.0, 1.0, 1.0]).assign(bound=bounds)
        (row,) = kinds(rows, 100).to_dict("records")
        assert row["bound"] == most, "of equally frequent ones the first of the alphabet"
    assert kinds(cases(mma=[1.0, 1.0]).assign(time_ms=0.0), 100).empty, "a time of zero is none"
