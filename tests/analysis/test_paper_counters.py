"""Counters that a paper prints beside ours: each finds its case, or a reason why we have none."""

from functools import cache

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import registry
from spmm_roofline.analysis.counters import counters as of_profile
from spmm_roofline.analysis.limiters import stalls as of_profile_states
from spmm_roofline.analysis.paper_counters import QUANTITIES, UNCOUNTED, UNPROFILED, paper_counters
from tests.analysis import synthetic

KERNEL, LIBRARY = "mma_bt", "cusparse_csr_alg2_f16"
#: The library was called as the study calls it.
HEADS = synthetic.HEADS | {LIBRARY: synthetic.HEADS[LIBRARY] | {"baseline": "smat"}}
DESCRIBED = {"small": {"multiprocessors": 10}}


case_table = cache(synthetic.case_table)


def printed(quantity, value, **changes):
    row = {"study": "smat", "source": "section 1", "paper_device": "small", "matrix": "cfd1", "n": 128}
    row |= {"kernel": KERNEL, "quantity": quantity, "unit": "1", "value": value}
    return row | changes


def table(*rows, profile=None):
    cases = case_table().copy()
    profile = contracts.frame(synthetic.profile_rows() if profile is None else profile, "profile")
    papers = contracts.frame(list(rows), "analysis_papers")
    both = of_profile(profile, cases), of_profile_states(profile, cases)
    return paper_counters(papers, cases, *both, HEADS, DESCRIBED).set_index("quantity")


def test_a_printed_counter_stands_beside_ours():
    rows = table(
        printed("excess sectors", 0.2),
        printed("executed instructions", 2e6),
        printed("grid size", 2048),
        printed("warp cycles per issued instruction", 5.7),
    )
    assert rows.loc["excess_sectors_fraction", "ours"] == pytest.approx(0.1)
    assert rows.loc["instructions", "ratio"] == pytest.approx(2) and rows.loc["ctas", "ratio"] == pytest.approx(2)
    assert rows.loc["cycles_per_instruction", "ours"] == pytest.approx(sum(synthetic.STALLS.values()))
    assert (rows["reason"] == "").all() and (rows["kernel"] == KERNEL).all()
    assert rows["comparable"].to_dict() == {
        "excess_sectors_fraction": True,
        "instructions": True,
        "ctas": True,
        "cycles_per_instruction": False,
    }


def test_a_number_in_another_form_is_turned_into_ours():
    rows = table(printed("average divergent branches", 66), printed("predicated-off threads per warp", 8))
    # 4 schedulers of 10 multiprocessors.
    assert rows.loc["divergent_branches", "published"] == 66 * 4 * 10
    assert (
        rows.loc["divergent_branches", "ours"] == synthetic.COUNTERS["smsp__sass_branch_targets_threads_divergent.sum"]
    )
    assert tuple(rows.loc["working_threads_per_instruction", ["published", "ours"]]) == (24, 25)


def test_a_state_of_the_warps_is_a_counter_too(monkeypatch):
    state = "barrier"
    monkeypatch.setitem(
        QUANTITIES, "cycles in LG throttle", QUANTITIES["cycles in LG throttle"].__class__(state, "cycles")
    )
    assert table(printed("cycles in LG throttle", 2.4)).loc[state, "ratio"] == pytest.approx(0.5)


def test_what_we_lack_has_a_reason():
    uncounted = [row for row in synthetic.profile_rows() if row["metric"] != "launch__grid_size"]
    rows = table(printed("grid size", 5), printed("executed instructions", 4e6), profile=uncounted)
    assert rows["reason"].to_dict() == {"ctas": UNCOUNTED, "instructions": ""}
    assert rows.loc["ctas", ["ours", "ratio"]].isna().all()
    rows = table(printed("grid size", 5), profile=[])
    assert rows["reason"].tolist() == [UNPROFILED]


def test_a_case_that_we_never_timed_has_no_row():
    assert table(printed("grid size", 5, n=4096)).empty
    assert table(printed("grid size", 5, matrix="elsewhere")).empty
    assert table().empty and table(printed("useful rate", 5)).empty


def test_the_library_is_the_call_of_the_study():
    (row,) = table(printed("grid size", 5, kernel="cusparse")).to_dict("records")
    assert row["kernel"] == LIBRARY and row["reason"] == UNPROFILED
    assert table(printed("grid size", 5, kernel="cusparse", study="cutespmm")).empty, "no call of that study is known"


def test_each_layer_of_a_pruned_model_is_compared():
    cases = case_table().copy()
    names = {
        "cfd1": "net-random-0.5-body_attention_a",
        "lp_nug30": "net-random-0.5-body_attention_b",
        "dblp-2010": "net-random-0.9-body_attention_a",
    }
    cases["matrix"] = cases["matrix"].replace(names)
    papers = contracts.frame([printed("grid size", 5, matrix="net-random-0.5")], "analysis_papers")
    none = (contracts.frame([], f"analysis_{name}") for name in ("counters", "stalls"))
    assert set(paper_counters(papers, cases, *none, HEADS, DESCRIBED)["matrix"]) == {names["cfd1"], names["lp_nug30"]}


def test_every_quantity_is_counted():
    columns = set(contracts.table("analysis_counters").names)
    states = {"lg_throttle", "mio_throttle"}
    assert {printed_as.column for printed_as in QUANTITIES.values()} <= columns | states
    assert "paper_counters" in registry.steps()


def test_the_thesis_prints_every_kernel_of_its_ladder():
    rows = contracts.read("config/published/attention.csv", "analysis_papers")
    told = rows[rows["quantity"].isin(QUANTITIES)]
    assert len(told) == 66 and set(told["n"]) == {4096}
    fractions = told[told["unit"] == "1"]["value"]
    assert fractions.between(0, 1).all()
    main = told[told["source"] == "section 5.3.2"].set_index(["kernel", "quantity", "matrix"])["value"]
    assert main.index.get_level_values("kernel").nunique() == 7
    # One CTA for an element of C, and for one of its rows: the grids follow from 4,096 rows of 512.
    dense = "transformer-l0_regularization-0.5"
    assert main["xw_nonzeros", "grid size", dense] == 4096 * 512 and main["xw_row", "grid size", dense] == 4096
    assert main["xw_tiles", "grid size", dense] == 4096 * 512 / 64
