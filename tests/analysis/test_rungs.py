"""Counters of a kernel beside those of the rungs below it."""

from functools import cache

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.counters import counters as of_profile
from spmm_roofline.analysis.limiters import stalls as of_profile_states
from spmm_roofline.analysis.rungs import _pairs, rungs
from spmm_roofline.kernels import heads as registered
from tests.analysis import synthetic

NAMES = ("mma_t", "mma_bt", "mma_obts")


case_table = cache(synthetic.case_table)


def heads(**changes):
    return synthetic.HEADS | {name: synthetic.HEADS[name] | change for name, change in changes.items()}


def profile(**counters):
    """Profile rows of kernels on cfd1 at N = 128; ``counters``: kernel → metric → value."""
    names = contracts.table("profile").names
    rows = []
    for kernel in NAMES:
        case = {name: value for name, value in synthetic.measure_row(kernel, "cfd1", 128).items() if name in names}
        for metric, value in (synthetic.COUNTERS | counters.get(kernel, {})).items():
            rows.append(case | {"metric": metric, "unit": "", "value": value})
    return rows


def table(rows, known=None, cases=None):
    cases = case_table().copy() if cases is None else cases
    frame = contracts.frame(rows, "profile")
    matrices = contracts.frame([synthetic.matrix_row(name) for name in synthetic.MATRICES], "matrices")
    both = of_profile(frame, cases), of_profile_states(frame, cases)
    return rungs(*both, cases, matrices, known or synthetic.HEADS).set_index(["kernel", "below"])


def test_each_rung_below_is_compared():
    rows = table(profile())
    assert rows["rungs"].to_dict() == {("mma_bt", "mma_t"): 1, ("mma_obts", "mma_bt"): 1, ("mma_obts", "mma_t"): 2}
    assert table([row for row in profile() if row["kernel"] != "mma_bt"]).index.tolist() == [("mma_obts", "mma_t")]


def test_the_counters_of_both_stand_in_a_row():
    fewer = {"smsp__inst_executed.sum": 1e6, "smsp__sass_inst_executed_op_global_ld.sum": 7.0}
    waits = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    row = table(profile(mma_bt=fewer | {waits: 2.5})).loc[("mma_bt", "mma_t")]
    assert (row["instructions"], row["below_instructions"]) == (1e6, 4e6)
    assert (row["global_loads"], row["below_global_loads"]) == (7, 4e5)
    assert (row["memory_warps"], row["below_memory_warps"]) == (2.5, 6)
    assert row["shared_loads"] == row["below_shared_loads"] == 7e5
    tiles = synthetic.matrix_row("cfd1")["tiles_16x16"]
    assert row["products"] == tiles * 128 / 8 and not row["all_dense"]
    times = [synthetic.measure_row(kernel, "cfd1", 128)["time_ms"] for kernel in ("mma_t", "mma_bt")]
    assert row["speedup"] == pytest.approx(times[0] / times[1])


def test_tiles_and_loads_come_from_the_heads():
    known = heads(
        mma_t={"tile": {"k": 16}},
        mma_bt={"tile": {"k": 32}, "features": ["ldmatrix", "mma", "mma_sp"]},
        mma_obts={"features": ["cp_async", "ldmatrix", "mma"]},
    )
    rows = table(profile(), known)
    assert tuple(rows.loc[("mma_bt", "mma_t"), ["tile_k", "below_tile_k", "loads_alike"]]) == (32, 16, True)
    assert rows["tile_k"].isna().to_dict()[("mma_obts", "mma_t")]
    assert not rows.loc[("mma_obts", "mma_t"), "loads_alike"]


def test_what_was_not_counted_stays_empty():
    few = [row for row in profile() if "op_" not in row["metric"] and "branch" not in row["metric"]]
    row = table(few).loc[("mma_bt", "mma_t")]
    for name in ("global_loads", "shared_loads", "below_shared_loads", "branch_warps"):
        assert row[name] != row[name], f"{name} was made up"
    assert row["instructions"] == 4e6 and row["speedup"] > 1


def test_a_pair_without_a_valid_time_has_no_speedup():
    cases = case_table().copy()
    cases.loc[(cases["kernel"] == "mma_t") & (cases["matrix"] == "cfd1"), "noisy"] = True
    rows = table(profile(), cases=cases)
    assert rows["speedup"].isna().to_dict() == {
        ("mma_bt", "mma_t"): True,
        ("mma_obts", "mma_bt"): False,
        ("mma_obts", "mma_t"): True,
    }


def test_nothing_profiled_gives_no_row():
    assert table([]).empty


def test_the_wide_kernels_of_the_thesis_have_a_narrow_one_with_the_same_loads():
    known = {name: head.as_dict() for name, head in registered().items()}
    alike = {(kernel, below) for kernel, below, _, same in _pairs(set(known), known) if same}
    assert {("mma_st_large", "mma_st"), ("mma_st_large", "mma_t")} <= alike
    assert ("mma_obts_large_separate", "mma_obts_large") in alike, "the kernel without the branch"
    assert ("mma_obts_large", "mma_t") not in alike, "asynchronous copies are other loads"
