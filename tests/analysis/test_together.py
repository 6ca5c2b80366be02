"""Kernels of all studies on the same cases, by hand."""

import numpy as np
import pandas as pd
import pytest

from spmm_roofline.analysis import together as module
from spmm_roofline.analysis.together import performance, performance_profile, together
from spmm_roofline.report.tables import comparison
from tests.analysis import synthetic


@pytest.fixture(scope="module")
def cases():
    return synthetic.case_table()


def test_a_profile_by_hand():
    # Two solvers on four problems: times 1, 2, 8 and a failure against 2, 2, 4 and 5.
    one, other = [1.0, 1.0, 2.0], [2.0, 1.0, 1.0, 1.0]
    assert list(performance_profile(one, 4, (1, 1.9, 2, 100))) == [0.5, 0.5, 0.75, 0.75]
    assert list(performance_profile(other, 4, (1, 1.9, 2, 100))) == [0.75, 0.75, 1, 1]
    assert list(performance_profile([], 4, (1,))) == [0.0]
    with pytest.raises(ValueError, match="2 ratios of 1 cases"):
        performance_profile([1.0, 2.0], 1)


def test_profiles_never_fall_and_end_at_what_ran(cases):
    rows = performance(together(cases))
    for _, own in rows.groupby(["l2", "precision_class", "kernel"]):
        own = own.sort_values("tau")
        assert (np.diff(own["share_fraction"]) >= 0).all()
        assert own["share_fraction"].iloc[-1] <= own["ran"].iloc[0] / own["cases"].iloc[0]
    first = rows[rows["tau"] == 1].groupby(["l2", "precision_class"])["share_fraction"].sum()
    assert (first >= 1 - 1e-9).all(), "every case has a fastest kernel"


def test_ratios_and_break_even_by_hand(cases):
    own = cases[(cases["matrix"] == "cfd1") & (cases["n"] == 128)].copy()
    # cuSPARSE takes 4 ms and 1 ms of preprocessing, bricks 3 ms and 8.5 ms: 7.5 ms more, and 1 ms won by each product.
    times = {"cusparse_best_f32": (4.0, 1.0), "bricks": (3.0, 8.5), "row_split": (5.0, 0.0)}
    own = own[own["kernel"].isin(times)]
    own["time_ms"] = own["kernel"].map(lambda name: times[name][0])
    own["preprocess_ms"] = own["kernel"].map(lambda name: times[name][1])
    own["baseline_ms"] = 4.0
    own["speedup"] = 4.0 / own["time_ms"]
    rows = together(own).set_index("kernel")
    assert set(rows["precision_class"]) == {"float32"}, "TF32 stands with FP32"
    assert rows.loc["bricks", "over_best"] == 1 and rows.loc["row_split", "over_best"] == pytest.approx(5 / 3)
    assert rows.loc["bricks", "break_even"] == 8 and pd.isna(rows.loc["row_split", "break_even"])
    assert rows.loc["bricks", "preprocess_products"] == pytest.approx(8.5 / 3)
    assert not rows["shared"].any(), "one matrix is no comparison"


def test_preprocessing_is_packing_and_looking_and_compiling_is_beside(cases):
    own = cases[(cases["matrix"] == "cfd1") & (cases["n"] == 128) & (cases["kernel"].isin(["bricks", "row_split"]))]
    own = own.assign(preprocess_ms=5.0, pack_ms=own["kernel"].map({"bricks": 3.0}).astype("float64"))
    compiled = pd.DataFrame({"kernel": "bricks", "arch": own["arch"].iloc[0], "compile_ms": [200.0, 300.0, np.nan]})
    rows = together(own, compiled).set_index("kernel")
    assert rows["look_ms"].to_dict() == {"bricks": 2.0, "row_split": 5.0}, "what is left beside packing"
    assert rows.loc["bricks", "compile_ms"] == 250 and pd.isna(rows.loc["row_split", "compile_ms"])
    rows = together(own.assign(look_ms=[1.5] * len(own)), compiled).set_index("kernel")
    assert set(rows["look_ms"]) == {1.5}, "a row that recorded it"


def test_a_kernel_that_is_no_faster_never_pays_back():
    calls = pd.array([0, 4, 10, None, None, None], dtype="Int64")
    rows = pd.DataFrame({"break_even": calls, "speedup": 1.0, "preprocess_products": 2.0, "pack_ms": 1.0}).assign(
        look_ms=0.5, compile_ms=float("nan"), study="scalar", kernel="rows", precision_class="float32", l2="cold",
        stale=False,
    )  # fmt: skip
    shown = comparison.break_even(rows)
    line = dict(zip(shown.columns, (cell.text for cell in shown.rows[0]), strict=True))
    quartiles = [line[name] for name in ("pays back after: lower quartile", "median", "upper quartile")]
    assert quartiles == ["10", "never", "never"]
    assert line["never pays back"] == "50 %" and line["by 10"] == "50 %" and line["compile, once"] == "–"


def test_a_case_of_two_suites_counts_once_with_its_newest_row(cases):
    newer = cases[cases["suite"] == "quick"].assign(suite="again", measured_at="2027-01-01T00:00:00Z", stale=True)
    rows = together(pd.concat([cases, newer], ignore_index=True))
    assert len(rows) == len(together(cases))
    matrices = set(newer["matrix"])
    assert (rows["stale"] == rows["matrix"].isin(matrices)).all()


def test_a_failure_is_within_no_factor_of_the_best(cases):
    table = together(cases)
    refused = table[(table["kernel"] == "mma_obts") & (table["status"] != "ok")]
    assert len(refused) == 3 and refused["over_best"].isna().all() and refused["shared"].all()
    (ran,) = performance(table).query("kernel == 'mma_obts'")["ran"].unique()
    assert ran == 15


def test_the_profile_is_about_the_cases_of_the_most_studies(cases):
    """A study that ran on enough matrices joins by itself; one that ran elsewhere does not take cases away."""
    names = sorted(set(cases["matrix"]))
    flagship = cases[(cases["kernel"] == "mma_bt")].assign(kernel="all_in_one", study="flagship")
    rows = together(pd.concat([cases, flagship], ignore_index=True))
    half = rows[rows["precision_class"] == "float16"]
    assert set(half.loc[half["shared"], "study"]) == {"cusparse", "smat", "sptc", "flagship"}
    few = flagship[flagship["matrix"].isin(names[: module.LEAST_MATRICES - 1])]
    rows = together(pd.concat([cases, few], ignore_index=True))
    half = rows[rows["precision_class"] == "float16"]
    assert half.loc[half["shared"], "matrix"].nunique() == 6
    assert "all_in_one" in set(half.loc[half["shared"], "kernel"]), "it ran on five of the six"
    one = flagship[flagship["matrix"] == names[0]]
    rows = together(pd.concat([cases, one], ignore_index=True))
    assert "all_in_one" not in set(rows.loc[rows["shared"], "kernel"])


def test_no_cases_give_empty_tables(cases):
    rows = together(cases.head(0))
    assert rows.empty and performance(rows).empty


def test_a_kernel_that_alone_ran_on_another_kind_of_host_is_not_compared(cases):
    rows = cases.assign(host="2.0")
    moved = rows["kernel"] == "mma_bt"
    rows.loc[moved, "time_ms"] = rows.loc[moved, "time_ms"].astype(float) / 10
    rows.loc[moved, "host"] = "4.5"
    found = together(rows)
    assert "mma_bt" not in set(found["kernel"]) and (found.groupby(["matrix", "n", "l2"])["over_best"].min() == 1).all()
