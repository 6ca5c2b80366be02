"""Synergy: the paper's equations and classes by hand, best_sc, break-even, and the model beside the counters."""

import math

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import synergy
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("synergy")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    recorded = synthetic.write_recorded(tmp_path_factory.mktemp("recorded") / "h200")
    folder = synthetic.analyse(tmp_path_factory.mktemp("analysis"), recorded=[recorded])
    return analysis.read(folder)


# --- the model of section 4 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1 / 16, 0.125, 0.2, 0.25, 1.0])
def test_equations_for_bricks_of_16_by_4(alpha):
    n, nnz = 128, 64_000
    # Equation (3): both are N nnz / (512 α) where TN = 32.
    assert synergy.approximate_transactions_of_a(n, nnz, alpha) == pytest.approx(n * nnz / (512 * alpha))
    assert synergy.transactions_of_b(n, nnz, alpha) == pytest.approx(n * nnz / (512 * alpha))
    assert synergy.intensity(alpha) == pytest.approx(512 * alpha)
    # Equation (1) halves with twice the columns of a warp, equation (2) does not know of them.
    assert synergy.approximate_transactions_of_a(n, nnz, alpha, tn=64) == pytest.approx(n * nnz / (1024 * alpha))


def test_transactions_of_a_by_hand():
    # 1000 full bricks: two transactions of values and two of the pattern, by each of four warps at N = 128.
    assert synergy.bricks(64_000, 1.0) == 1000
    assert synergy.transactions_of_a(128, 64_000, 1.0) == 4 * 1000 * 4
    assert synergy.transactions_of_a(128, 64_000, 1.0) == synergy.approximate_transactions_of_a(128, 64_000, 1.0)
    # With eight values a brick: one of values, two of the pattern, for eight times the bricks.
    assert synergy.transactions_of_a(128, 64_000, 0.125) == 4 * 8000 * 3


def test_bricks_of_one_column_share_what_is_read_of_b():
    # Equation (5).
    assert synergy.transactions_of_b(128, 64_000, 0.5, beta=2.0) == synergy.transactions_of_b(128, 64_000, 0.5) / 2


@pytest.mark.parametrize(
    ("alpha", "name"),
    [(0, "low"), (0.1249, "low"), (0.125, "medium"), (0.2499, "medium"), (0.25, "high"), (1, "high")],
)
def test_classes_are_those_of_table_1(alpha, name):
    assert synergy.synergy_class(alpha) == name


@pytest.mark.parametrize("alpha", [-0.1, 1.5, math.nan])
def test_no_class_beyond_densities(alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        synergy.synergy_class(alpha)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_best_sc_is_of_the_papers_set_and_best_today_of_all_without_tensor_cores(tables):
    """Of the invented kernels one is called as GE-SpMM is; cuSPARSE's go by names that the set does not have."""
    cases = tables["cases"]
    rows = tables["synergy"]
    assert set(rows["kernel"]) == {"bricks"} and len(rows) == 6 * 3
    for row in rows.itertuples():
        same = cases[
            (cases["matrix"] == row.matrix) & (cases["n"] == row.n) & (cases["status"] == "ok") & ~cases["noisy"]
        ]
        for named, rivals, ratio in (
            (("best_sc", row.best_sc, row.best_sc_ms), ["row_split"], row.speedup),
            (
                ("best_today", row.best_today, row.best_today_ms),
                ["cusparse_csr_alg2_f32", "cusparse_csr_alg3_f32", "row_split"],
                row.speedup_today,
            ),
        ):
            found = same[same["kernel"].isin(rivals)].sort_values("time_ms")
            if found.empty:
                assert not named[1] and pd.isna(ratio)
                continue
            fastest = found.iloc[0]
            assert named[1:] == (fastest["kernel"], fastest["time_ms"]), named[0]
            assert ratio == pytest.approx(fastest["time_ms"] / row.time_ms)
        assert row.preprocess_products == pytest.approx(3.5 / row.time_ms)
    both = rows.dropna(subset="speedup")
    assert (both["speedup_today"] <= both["speedup"]).all() and 0 < len(both) < len(rows)


def test_break_even_is_where_packing_has_paid(tables):
    cases = tables["cases"].copy()
    cases.loc[cases["kernel"] == "bricks", "preprocess_ms"] = 10.0
    cases.loc[cases["kernel"] == "row_split", "preprocess_ms"] = 1.0
    own = cases["kernel"] == "bricks"
    scalar = cases["kernel"] == "row_split"
    cases.loc[scalar, "time_ms"] = 2.0
    cases.loc[cases["kernel"].str.startswith("cusparse"), "time_ms"] = 5.0
    for time_ms, count in ((1.0, 9), (1.9, 90), (2.5, None)):
        cases.loc[own, "time_ms"] = time_ms
        found = synergy.synergy(
            cases, tables["matrices"], tables["formats"], synthetic.HEADS, {"best_sc": ["scalar/*"]}
        )
        value = found["break_even"].astype("float64").iloc[0]
        assert value == count if count else math.isnan(value)


def test_classes_hold_every_case_once_and_once_more_in_all(tables):
    rows, table = tables["synergy"], tables["synergy_classes"]
    timed = rows.dropna(subset="best_sc_ms").groupby(["n", "suite"])["matrix"].nunique()
    for (kernel, n, suite), part in table.groupby(["kernel", "n", "suite"]):
        by_class = part.set_index("synergy")["matrices"]
        whole = timed[n, suite] if kernel == "best_sc" else {"quick": 2, "real-sample": 4}[suite]
        assert by_class.drop("all").sum() == by_class["all"] == whole
    assert set(table["kernel"]) == {"bricks", "best_sc", "best_today"}
    own = rows[(rows["suite"] == "real-sample") & (rows["n"] == 128)]
    line = table[(table["suite"] == "real-sample") & (table["n"] == 128) & (table["synergy"] == "all")]
    line = line.set_index("kernel")
    ratios = own["speedup"].dropna()
    assert line.loc["bricks", "geomean"] == pytest.approx(np.prod(ratios) ** (1 / len(ratios)))
    assert line.loc["bricks", "median_gflops"] == pytest.approx(own["useful_gflops"].median())
    assert line.loc["best_sc", "most_gflops"] == pytest.approx(own["best_sc_gflops"].max())
    assert line.loc["best_sc", "geomean"] == 1


def test_a_rank_correlation_needs_five_matrices(tables):
    assert tables["synergy_classes"]["spearman"].isna().all()
    rows = tables["synergy"]
    many = rows[rows["n"] == 128].assign(suite="s", oi_shmem=[1.0, 2, 3, 4, 5, 6], useful_gflops=[2.0, 1, 3, 4, 5, 6])
    many = many.assign(best_sc_gflops=math.nan)
    line = synergy.classes(many, 50).set_index(["kernel", "synergy"])
    assert line.loc[("bricks", "all"), "spearman"] == pytest.approx(1 - 6 * 2 / (6 * 35))


def test_the_model_stands_beside_the_counters(tables):
    line = tables["shared_memory"].set_index("matrix").loc["cfd1"]
    nnz, alpha = 1_828_364, 0.18
    assert line["modelled_a"] == pytest.approx(3 * 4 * nnz / (64 * alpha))
    assert line["modelled_b"] == pytest.approx(128 * nnz / (512 * alpha))
    assert line["counted_over_modelled"] == pytest.approx(5e6 / line["modelled"])
    assert set(tables["shared_memory"]["kernel"]) == {"bricks"}, "the other format has no bricks"


# --- published numbers ------------------------------------------------------------------------------------------------


def papers(rows):
    names = ["matrix", "n", "kernel", "quantity", "value"]
    common = {"study": "cutespmm", "source": "table 9", "paper_device": "a100", "unit": "1"}
    return contracts.frame([common | dict(zip(names, row, strict=True)) for row in rows], "analysis_papers")


def test_published_ratios_stand_beside_ours(tables):
    from spmm_roofline.analysis.published import published

    given = papers(
        [
            ("cfd1", 128, "bricks", "useful rate", 900.0),
            ("cfd1", 128, "best_sc", "useful rate", 600.0),
            ("nowhere", 128, "bricks", "useful rate", 900.0),
            ("nowhere", 128, "best_sc", "useful rate", 600.0),
            ("low", 0, "none", "matrices", 3.0),
            ("high", 0, "none", "matrices", 1.0),
        ]
    )
    # The paper's population is its own suite: matrices of another one do not count.
    of_study = tables["synergy"].assign(suite=tables["synergy"]["suite"].replace({"real-sample": "cutespmm"}))
    found = published(given, tables["cases"], of_study).set_index("matrix")
    ours = tables["synergy"].set_index(["matrix", "n"]).loc[("cfd1", 128), "speedup"]
    assert (found.loc["cfd1", "published"], found.loc["cfd1", "ours"]) == (1.5, pytest.approx(ours))
    assert "nowhere" not in found.index
    classes = of_study[of_study["suite"] == "cutespmm"].drop_duplicates("matrix")["synergy"]
    assert 0 < len(classes) < of_study["matrix"].nunique()
    assert found.loc["low", "published"] == 0.75
    assert found.loc["low", "ours"] == pytest.approx((classes == "low").mean())


def test_a_rate_over_the_library_of_2_4_products(tables):
    from spmm_roofline.analysis.published import published

    cases = tables["cases"].copy()
    of_case = cases[(cases["matrix"] == "cfd1") & (cases["n"] == 128) & (cases["kernel"] == "row_split")]
    (own,) = of_case.to_dict("records")
    library = own | {"kernel": "lt_search", "study": "cusparselt", "time_ms": own["time_ms"] / 4}
    cases = pd.concat([cases, pd.DataFrame([library])], ignore_index=True)
    given = papers([("cfd1", 128, "row_split", "throughput", 98.0), ("cfd1", 128, "cusparselt", "throughput", 100.0)])
    (row,) = published(given, cases, tables["synergy"]).to_dict("records")
    assert (row["quantity"], row["published"], row["ours"]) == ("over_cusparselt", 0.98, pytest.approx(0.25))


def test_a_pruned_matrix_is_known_without_its_layer(tables):
    from spmm_roofline.analysis.published import published

    cases = tables["cases"].copy()
    cases.loc[cases["matrix"] == "cfd1", "matrix"] = "transformer-random_pruning-0.5-body_attention_q"
    given = papers(
        [
            ("transformer-random_pruning-0.5", 128, "row_split", "useful rate", 300.0),
            ("transformer-random_pruning-0.5", 128, "cusparse", "useful rate", 600.0),
        ]
    )
    (row,) = published(given, cases, tables["synergy"]).to_dict("records")
    same = (cases["matrix"].str.startswith("transformer")) & (cases["n"] == 128) & (cases["kernel"] == "row_split")
    assert (row["quantity"], row["published"]) == ("over_cusparse", 0.5)
    assert row["ours"] == cases.loc[same, "speedup"].item()


def test_what_the_paper_prints_is_read():
    rows = contracts.read(synthetic.ROOT / "config/published/cutespmm.csv", "analysis_papers")
    counts = rows[rows["source"] == "table 2"].set_index("matrix")["value"]
    assert counts.sum() == 1099
    rates = rows[rows["quantity"] == "useful rate"].set_index(["source", "matrix", "n", "kernel"])["value"]
    assert rates[("table 3", "artist", 128, "best_sc")] == 1361
    assert rates[("table 4", "YeastH", 512, "tcgnn")] == 671
    # Table 3 names no GPU; where both have a width, its best on scalar cores is that of table 4, on an A100.
    both = [
        key for key in rates.index if key[0] == "table 3" and key[3] == "best_sc" and ("table 4", *key[1:]) in rates
    ]
    differing = [key for key in both if abs(rates[key] / rates[("table 4", *key[1:])] - 1) > 0.2]
    assert len(both) > 20 and not differing
