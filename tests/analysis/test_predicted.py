"""Times of the user's own matrices: predicted, and measured where the structure was recorded."""

import json
import math

import pytest

from spmm_roofline import analysis, contracts
from spmm_roofline.analysis import predicted
from spmm_roofline.paths import MODEL
from spmm_roofline.selector.advice import select
from spmm_roofline.selector.document import load
from spmm_roofline.selector.terms import FEATURES
from tests.analysis import synthetic

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("predicted")

OWN = {"mine": {"n": [128], "l2": "cold"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The stored model, but that one kernel was not measured on the H200."""
    content = json.loads(MODEL.read_text())
    del content["devices"]["h200"]["kernels"]["staged_f16"]
    path = tmp_path_factory.mktemp("model") / "selector.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory, model):
    """A run with a matrix of the user that has the structure of a recorded one."""
    folder = tmp_path_factory.mktemp("own")
    row = synthetic.matrix_row("cfd1") | {
        "matrix": "mine",
        "source": "file",
        "origin": "mine.mtx",
        "occupancy": "12/01",
    }
    path = folder / "mine.json"
    contracts.write_row({name: row.get(name) for name in contracts.table("matrices").names}, path, "matrices")
    recorded = synthetic.write_recorded(folder / "h200")
    out = synthetic.analyse(folder / "analysis", recorded=[recorded], matrices=[path], own=OWN, model=[model])
    return analysis.read(out)


def test_times_are_those_of_the_selector(tables, model):
    rows = tables["predicted"]
    assert {*rows["matrix"]} == {"mine"} and {*rows["n"]} == {128}
    about = contracts.records(tables["matrices"][tables["matrices"]["matrix"] == "mine"])[0]
    advice = select(about, 128, "float16", "h200", model=model)
    own = rows[(rows["device"] == "h200") & (rows["precision"] == "float16")].set_index("kernel")
    kernels = load(model, "h200").for_width(128).kernels
    known = [choice for choice in advice.choices if kernels[choice.kernel].reaches(128)]
    assert {choice.kernel for choice in known if choice.extrapolated_from} == {"staged_f16"}
    assert {*own.index[own["predicted_ms"].notna()]} == {choice.kernel for choice in known}
    for choice in known:
        row = own.loc[choice.kernel]
        assert row["predicted_ms"] == pytest.approx(choice.time_ms)
        if choice.extrapolated_from:
            assert row["extrapolated_from"] == choice.extrapolated_from and math.isnan(row["low_ms"])
        else:
            assert row["low_ms"] < row["predicted_ms"] < row["high_ms"]


def again(tables, cases, matrices):
    """The rows of ``mine`` with other cases and matrices, all rates known."""
    rates = {"h200": 4000.0}, {"h200": 8000.0}, {"h200": 60_000_000}
    return predicted.predicted(OWN, str(MODEL), cases, matrices, tables["formats"], tables["selector"], *rates)


def test_the_launch_limit_is_the_replay_of_the_fastest_kind_of_host(tables):
    cases = tables["cases"].copy()
    few = cases.index[cases["replay_ms"] > 0][:5]
    cases.loc[few, ["host", "replay_ms"]] = "2.0", 0.002
    rows = again(tables, cases, tables["matrices"])
    assert {*rows.loc[rows["device"] == "h200", "launch_ms"]} == {0.002}


def test_a_matrix_without_entries_has_the_limit_of_a_launch(tables):
    matrices = tables["matrices"].copy()
    mine = matrices["matrix"] == "mine"
    matrices.loc[mine, ["m", "k"]] = 3
    matrices.loc[mine, [name for name in FEATURES if name not in ("m", "k")]] = 0
    matrices.loc[mine, "matrix_sha256"] = "0" * 64
    rows = again(tables, tables["cases"], matrices)
    rows = rows[(rows["device"] == "h200") & (rows["format"] == "csr")]
    assert len(rows) and {*rows["bound"]} == {"launch"} and (rows["memory_ms"] >= 0).all()


def test_a_recorded_structure_has_its_measured_times_which_rank_first(tables):
    rows = tables["predicted"]
    cases = tables["cases"]
    own = cases[(cases["matrix"] == "cfd1") & (cases["n"] == 128) & (cases["status"] == "ok")]
    own = own[~own["kernel"].str.startswith("cusparse_best_") & ~own["noisy"].fillna(False).astype(bool)]
    measured = rows[rows["measured_ms"].notna()]
    least = own.groupby("kernel")["time_ms"].min()
    assert {*measured["kernel"]} == {*least.index} and {*measured["device"]} == {"h200"}
    assert {*measured["origin"]} == {"recorded"}
    for _, case in rows.groupby(["device", "precision", "n", "l2"]):
        case = case.sort_values("rank")
        assert list(case["rank"]) == [*range(1, len(case) + 1)]
        assert case["measured_ms"].notna().is_monotonic_decreasing, "measured kernels come first"
        for column, known in (("measured_ms", True), ("predicted_ms", False)):
            assert case.loc[case["measured_ms"].notna() == known, column].is_monotonic_increasing


def test_a_limit_needs_all_three(tables):
    rows = tables["predicted"]
    limits = rows[[f"{name}_ms" for name in predicted.LIMITS]]
    known = rows["bound"] != ""
    assert (limits.notna().all(axis=1) == known.fillna(False)).all()
    for row in rows[known.fillna(False)].itertuples():
        assert getattr(row, f"{row.bound}_ms") == max(row.memory_ms, row.compute_ms, row.launch_ms)


def test_without_a_matrix_or_a_model_there_is_nothing(tables):
    nothing = [tables[name] for name in ("cases", "matrices", "formats", "selector")]
    for own, model in (({}, str(MODEL)), (OWN, None)):
        assert predicted.predicted(own, model, *nothing, {}, {}, {}).empty
