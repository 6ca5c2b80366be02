"""Two devices on the same work: ratios, shares of the limits, choices and their costs, by hand and on a small world."""

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import analysis, figures
from spmm_roofline.analysis import elsewhere as module
from spmm_roofline.analysis.between import between, swapped
from spmm_roofline.report import devices
from tests.analysis import synthetic


@pytest.fixture(scope="module")
def two():
    """Cases of two devices: on the second every time is half, but that of one kernel five times as long."""
    cases = synthetic.case_table()
    other = cases.assign(device="h300", time_ms=cases["time_ms"] / 2, useful_gflops=2 * cases["useful_gflops"])
    slow = other["kernel"] == "mma_bt"
    other.loc[slow, "time_ms"] = 5 * cases["time_ms"][slow]
    other.loc[slow, "useful_gflops"] = cases["useful_gflops"][slow] / 5
    return pd.concat([cases, other], ignore_index=True)


def test_one_device_is_no_comparison():
    cases = synthetic.case_table()
    assert between(cases).empty and swapped(cases).empty


def test_ratios_by_suite_and_kernel(two):
    table = between(two).set_index(["suite", "kernel", "l2"])
    assert set(table["device"]) == {"h200"} and set(table["other"]) == {"h300"}
    halved = table.xs("row_split", level="kernel")
    assert halved["speedup"].to_numpy() == pytest.approx(2.0)
    assert table.xs("mma_bt", level="kernel")["speedup"].to_numpy() == pytest.approx(0.2)
    everything = table.loc[("", "", "cold")]
    assert 0.2 < everything["speedup"] < 2 and everything["speedup_upper_quartile"] == pytest.approx(2.0)
    suites = table.loc[[suite for suite in table.index.get_level_values("suite").unique() if suite]]
    of_kernels = suites.xs("row_split", level="kernel")["cases"].sum()
    assert halved.loc[("", "cold"), "cases"] <= of_kernels, "a case of several suites counts once"


def test_the_ratio_of_the_limits_is_the_speed_up_at_equal_shares(two):
    rows = two.dropna(subset=["bound_fraction"])
    table = between(rows).set_index(["suite", "kernel", "l2"])
    known = table.dropna(subset=["limit_ratio"])
    assert len(known)
    # Rates are the limits times the shares, so that the three ratios multiply to one.
    product = known["limit_ratio"] * known["other_bound_fraction"] / known["bound_fraction"]
    one_step = known.index.get_level_values("kernel") == "row_split"
    assert product[one_step].to_numpy(dtype=float) == pytest.approx(known["speedup"][one_step].to_numpy(dtype=float))


def test_the_other_choice_costs_what_the_times_say(two):
    own = two[(two["matrix"] == "cfd1") & (two["n"] == 128) & two["kernel"].isin(["mma_t", "mma_bt"])]
    own = own[own["suite"] == own["suite"].iloc[0]]
    times = own.set_index(["device", "kernel"])["time_ms"]
    assert times["h200", "mma_bt"] < times["h200", "mma_t"] and times["h300", "mma_t"] < times["h300", "mma_bt"]
    (row,) = swapped(own).to_dict("records")
    assert (row["kernel"], row["other_kernel"], row["kernels"]) == ("mma_bt", "mma_t", 2)
    assert row["loss"] == pytest.approx(times["h200", "mma_t"] / times["h200", "mma_bt"] - 1)
    assert row["other_loss"] == pytest.approx(times["h300", "mma_bt"] / times["h300", "mma_t"] - 1)


def test_what_only_one_device_ran_does_not_count(two):
    without = two[~((two["device"] == "h300") & two["kernel"].isin(["mma_bt", "bricks"]))]
    assert not set(between(without)["kernel"]) & {"mma_bt", "bricks"}
    assert not set(swapped(without)["kernel"]) & {"mma_bt", "bricks"}


def test_the_page_says_where_devices_differ(two):
    said = devices.pair_says(between(two), swapped(two), {"h200": "A", "h300": "B"})
    assert "as fast on B as on A" in said and "the fastest kernel differs on" in said
    assert "instead of" in said
    alike = two.assign(time_ms=1.0)
    same = devices.pair_says(between(alike), swapped(alike), {"h200": "A", "h300": "B"})
    assert "differs on 0, by more than 3.0 % on 0" in same and "instead of" not in same
    alone = devices.pair_says(between(two), swapped(two).head(0), {"h200": "A", "h300": "B"})
    assert alone.endswith("No case has two kernels that both devices timed.")


def test_claims_of_two_devices():
    rows = [("one", "h100", "reproduced"), ("one", "h200", "reproduced"), ("two", "h100", "reproduced")]
    rows += [("two", "h200", "not_reproduced"), ("three", "h100", "not_testable"), ("three", "h200", "reproduced")]
    table = pd.DataFrame(rows, columns=["claim", "device", "overall"])
    assert devices.claims_say(table) == (
        "2 claims can be tested on more than one device; the verdict is the same on 1 and differs on 1: two."
    )
    assert devices.claims_say(table.head(0)) == "No claim can be tested on two devices."


def judged(*rows):
    names = ["chooser", "trained_on", "device", "cases", "regret"]
    return pd.DataFrame(rows, columns=names)


def test_regret_elsewhere_is_said_both_ways():
    rows = judged(
        ("costs", "", "h100", 10, 0.05), ("selector", "h100", "h100", 10, 0.01), ("selector", "h100", "h200", 10, 0.04),
        ("selector", "h200", "h100", 10, 0.02), ("selector", "h200", "h100", 30, 0.06),
    )  # fmt: skip
    mean = np.expm1((np.log1p(0.02) + 3 * np.log1p(0.06)) / 4)
    said = devices.elsewhere_say(rows)
    assert said.startswith("The selector loses 4.0 % trained on h100 and judged on h200 and ")
    assert f"{100 * mean:.1f} % trained on h200 and judged on h100" in said
    assert "The choice of SpMM by costs loses 5.0 % on h100." in said


def test_costs_are_judged_against_the_fastest_general_kernel():
    head = {"study": module.GENERAL, "format": module.USUAL, "after": None, "dtype": {"a": "float64"}}
    heads = {
        name: head | {"name": name, "tile": {"slab": slab}} for name, slab in (("narrow", 32), ("wide", 128))
    }  # fmt: skip
    about = {"device": "h200", "suite": "one", "precision": "float64", "matrix": "cube", "m": 100, "k": 100, "nnz": 900}
    about |= {"l2": "warm", "status": "ok", "noisy": False}
    rows = [about | {"n": n, "kernel": name, "time_ms": time} for n, name, time in (
        (32, "narrow", 1.0), (32, "wide", 2.0), (128, "narrow", 1.0), (128, "wide", 1.5), (256, "wide", 1.0),
    )]  # fmt: skip
    matrices = pd.DataFrame({"matrix": ["cube"], "row_length_max": [9]})
    formats = pd.DataFrame({"matrix": ["cube"], "format": [module.USUAL], "status": ["ok"], "blocks": [50]})
    table = module.chosen_by_cost(
        pd.DataFrame(rows), matrices, formats, heads, {"h200": {"multiprocessors": 132, "l2_bytes": 60 << 20}}
    )
    assert list(table["n"]) == [32, 128], "one kernel is no choice"
    assert list(table["kernel"]) == ["narrow", "wide"]
    assert table["regret"].to_list() == pytest.approx([0.0, 0.5])
    nowhere = module.chosen_by_cost(pd.DataFrame(rows), matrices, formats, heads, {})
    assert nowhere.empty


def test_two_devices_have_figures(tmp_path, monkeypatch):
    other = [
        row | {"device": "a100"}
        | ({"time_ms": (1.5 if row["kernel"] == "mma_bt" else 2.0) * row["time_ms"]} if row["status"] == "ok" else {})
        for row in synthetic.measure_rows()
    ]  # fmt: skip
    folders = [synthetic.write_recorded(tmp_path / "h200"), synthetic.write_recorded(tmp_path / "a100", other)]
    tables = analysis.read(synthetic.analyse(tmp_path / "analysis", recorded=folders))
    kinds = [kind for kind in figures.kinds() if kind.section == "devices"]
    monkeypatch.setattr(figures, "kinds", lambda: kinds)
    drawn = {figure.name: figure for figure in figures.draw_all(tables)}
    assert set(drawn) == {"between", "swapped"}
    assert "h200 is 1.94× as fast as a100" in drawn["between"].says
    assert "On a100, the fastest kernel of h200 is another one on" in drawn["swapped"].says
