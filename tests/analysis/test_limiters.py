"""The rules that say what limits a profiled call, one by one."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import limiters as module
from spmm_roofline.analysis.counters import counters
from spmm_roofline.analysis.limiters import limiter, limiters, stalls
from tests.analysis import synthetic

IDLE = dict.fromkeys(module.UNITS, 0.3)
NAN = float("nan")
SECTORS = "lts__t_sectors_srcunit_tex.sum"


@pytest.fixture(scope="module")
def cases():
    return synthetic.case_table()


def waits(most):
    """States of which ``most`` is the longest."""
    return {"long_scoreboard": 1.0, "wait": 0.9, "barrier": 0.5, "drain": 0.2, "sleeping": 0.1} | {most: 4.0}


@pytest.mark.parametrize(("column", "expected"), module.UNITS.items())
def test_a_unit_that_nearly_never_rests_limits_whatever_warps_wait_for(column, expected):
    assert limiter(IDLE | {column: 0.81}, waits("barrier")) == expected
    assert limiter(IDLE | {column: 0.79}, waits("barrier")) == "no_single_limit", "busy is not limited"
    assert limiter(IDLE | {column: 0.61}, waits("barrier")) == "no_single_limit"
    assert limiter(IDLE | {column: 0.59}, waits("barrier")) == "barriers"


def test_of_two_busy_units_the_first_limits_only_if_it_is_well_ahead():
    dram, l2, issue = (
        {f"{name}_share_fraction": share} for name, share in (("dram", 0.9), ("l2", 0.84), ("issue", 0.86))
    )
    assert limiter(IDLE | dram | l2, {}) == "dram_bandwidth"
    assert limiter(IDLE | dram | {"l2_share_fraction": 0.86}, {}) == "no_single_limit"
    # Schedulers that issue as often as a unit is busy are as good a reason.
    assert limiter(IDLE | dram | issue, {}) == "no_single_limit"
    assert limiter(IDLE | {"tensor_share_fraction": 0.81, "issue_share_fraction": 0.95}, {}) == "issue"


@pytest.mark.parametrize(("state", "expected"), module.STATES.items())
def test_else_the_longest_wait_limits(state, expected):
    assert limiter(IDLE, waits(state)) == expected


def test_what_was_not_counted_is_not_guessed():
    assert limiter(dict.fromkeys(IDLE, NAN), {}) == "unknown"
    assert limiter(IDLE, {"long_scoreboard": 50.0}) == "unknown", "one state alone does not show that it is the longest"
    assert limiter(dict.fromkeys(IDLE, NAN), waits("sleeping")) == "other_waits"


def profiled(**changes):
    values = synthetic.COUNTERS | changes
    rows = [row | {"value": values[row["metric"]]} for row in synthetic.profile_rows() if row["kernel"] == "mma_bt"]
    return contracts.frame([row for row in rows if row["value"] is not None], "profile")


def judged(cases, **changes):
    table = profiled(**changes)
    found = limiters(counters(table, cases), stalls(table, cases), {"h200": 4400.0}, {"h200": 8000.0})
    (row,) = found.to_dict("records")
    return row


def test_a_case_by_hand(cases):
    # 0.1 GB through DRAM and 0.35 GB through L2 in 0.05 ms: 2000 of 4400 and 7000 of 8000 GB/s.
    row = judged(cases, **{SECTORS: 3.5e8 / 32})
    assert row["limiter"] == "l2_bandwidth" and row["as_timed"]
    assert row["dram_share_fraction"] == pytest.approx(2000 / 4400) and row["l2_share_fraction"] == pytest.approx(0.875)
    assert judged(cases, **{SECTORS: 3e8 / 32})["limiter"] == "no_single_limit"
    assert row["state"] == "long_scoreboard" and row["state_warps"] == 6.0
    assert row["state_fraction"] == pytest.approx(6 / (6 + 1.5 + 1.2 + 0.9 + 0.3 + 0.1)), "running warps do not wait"
    assert judged(cases, **{SECTORS: 2e8 / 32})["limiter"] == "memory_latency"


def test_profiles_without_states_or_ceilings_still_have_their_row(cases):
    names = [name for name in synthetic.COUNTERS if module.PREFIX in name and "long_scoreboard" not in name]
    row = judged(cases, **dict.fromkeys(names), **{SECTORS: 2e8 / 32})
    assert row["limiter"] == "unknown" and not row["state"] and row["state_fraction"] != row["state_fraction"]
    table = profiled()
    (row,) = limiters(counters(table, cases), stalls(table, cases), {}, {}).to_dict("records")
    assert row["limiter"] == "memory_latency" and row["dram_share_fraction"] != row["dram_share_fraction"]


def test_states_are_rows(cases):
    table = stalls(profiled(), cases)
    assert dict(zip(table["state"], table["warps"], strict=True)) == synthetic.STALLS
    assert set(table["study"]) == {"smat"}
    assert stalls(profiled().assign(matrix="nowhere"), cases).empty
    assert stalls(contracts.frame([], "profile"), cases).empty


def test_every_limiter_has_a_name_and_every_state_of_the_profiler_a_rule():
    from spmm_roofline.profile import ncu
    from spmm_roofline.report import limits

    enum = next(c for c in contracts.table("analysis_limiters").columns if c.name == "limiter").enum
    assert (
        set(enum)
        == set(limits.LIMITERS)
        == {*module.UNITS.values(), *module.STATES.values()} | {"no_single_limit", "other_waits", "unknown"}
    )
    asked = {
        name.removeprefix(module.PREFIX).removesuffix(module.SUFFIX)
        for arch in ("sm_80", "sm_89", "sm_90a")
        for name in ncu.metric_names("config/metrics.yaml", arch)
        if name.startswith(module.PREFIX)
    }
    assert asked - set(module.STATES) == {*module.RUNNING, "misc", "sleeping"}
    assert set(module.STATES) <= asked


def test_thresholds_themselves():
    assert limiter(IDLE | {"dram_share_fraction": module.BUSY}, waits("barrier")) == "no_single_limit"
    ahead = IDLE | {"dram_share_fraction": 0.875, "l2_share_fraction": 0.8125}
    assert limiter(ahead, {}) == "dram_bandwidth", "a lead of 6 points"
    assert limiter(IDLE | {"dram_share_fraction": 1.0, "l2_share_fraction": 1.0 - module.MARGIN / 2}, {}) == (
        "no_single_limit"
    )
    few = dict.fromkeys(range(module.LEAST_STATES - 1), 1.0)
    assert limiter(IDLE, few) == "unknown"
    assert limiter(IDLE, few | {"barrier": 2.0}) == "barriers"
