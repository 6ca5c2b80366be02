"""The selector on the recorded rows: its regret, its intervals, and the model that is stored."""

import json

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import selector
from spmm_roofline.analysis.selector import choices, gather, recorded_tables, train_on_tables
from spmm_roofline.cli import main
from spmm_roofline.kernels.registry import heads
from spmm_roofline.paths import MODEL
from spmm_roofline.selector import document
from spmm_roofline.selector.correction import coordinates
from spmm_roofline.selector.model import Model
from spmm_roofline.selector.terms import COUNTS, FEATURES, VALUE_BYTES, log_sum, terms
from spmm_roofline.selector.training import train
from spmm_roofline.selector.validation import held_out
from tests.analysis import synthetic
from tests.analysis.synthetic import ROOT

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("selector")

RECORDED = ROOT / "resources/recorded"
DEVICES = ROOT / "config/devices"
REMEDY = "`spmm-roofline train --recorded resources/recorded --out resources/selector.json` trains it anew"


def geometric(regrets):
    """Geometric mean of chosen time over best time, minus 1."""
    return float(np.expm1(np.log1p(regrets).mean()))


def read_recorded():
    """Cases, matrices, heads and ceilings as the analysis of the recorded rows alone has them."""
    found = heads(str(ROOT / "kernels"))
    plain = {name: head.as_dict() for name, head in found.items()}
    made = recorded_tables(
        RECORDED, DEVICES.glob("*.yaml"), plain, {name: head.sha256() for name, head in found.items()}
    )
    return made["cases"], made["matrices"], plain, made["rates"]


@pytest.fixture(scope="module")
def recorded():
    return read_recorded()


@pytest.fixture(scope="module")
def rows(recorded):
    measured, matrices, _, _ = recorded
    return gather(measured, matrices, "h200")


@pytest.fixture(scope="module")
def judged(recorded, rows):
    return held_out(rows, recorded[3]["h200"], "matrix_sha256")


@pytest.fixture(scope="module")
def seen(judged):
    return pd.DataFrame(choices(judged))


@pytest.fixture(scope="module")
def stored():
    return document.read(contracts.document(MODEL, "selector"), "h200")


@pytest.fixture(scope="module")
def trained(recorded, tmp_path_factory):
    """What the command makes of the recorded rows, for one device: the tests look at no other."""
    measured, matrices, plain, rates = recorded

    def known(root, devices, heads, _):
        assert root == RECORDED and heads == plain and sorted(devices) == sorted(DEVICES.glob("*.yaml"))
        return {"cases": measured, "matrices": matrices, "rates": {"h200": rates["h200"]}}

    out = tmp_path_factory.mktemp("trained") / "selector.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selector, "recorded_tables", known)
        assert main(["train", "--recorded", str(RECORDED), "--devices", str(DEVICES), "--out", str(out)]) == 0
    return out


# --- the recorded rows ------------------------------------------------------------------------------------------------


def test_the_regret_on_matrices_held_out_meets_its_goal(seen):
    for precision, own in seen.groupby("precision"):
        # FP64 has few cases.
        goal = 0.05 if precision == "float64" else 0.03
        mean = geometric(own["regret"])
        assert mean < goal, f"{precision}: the geometric mean of the regret over {len(own)} cases is {mean:.3f}"
        assert geometric(own["tried_regret"]) <= mean
    assert (seen["regret"] < 0.2).mean() > 0.95


def test_whole_kinds_held_out_cost_more_but_no_class_is_lost(recorded, rows):
    unseen = pd.DataFrame(choices(held_out(rows, recorded[3]["h200"], "kind")))
    for precision, own in unseen.groupby("precision"):
        mean = geometric(own["regret"])
        assert mean < 0.2, f"{precision}: {mean:.3f} over {len(own)} cases"


def test_four_of_five_held_out_times_lie_in_their_interval(judged, stored):
    known = judged[judged["predicted"].notna()]
    for precision, own in known.groupby("precision"):
        off = (own["log_ms"] - own["predicted"]).abs() / own["spread"]
        assert (off <= stored.intervals[precision]).mean() == pytest.approx(0.8, abs=0.02), REMEDY


def test_a_structure_of_several_suites_stands_once(rows, seen):
    assert not rows.duplicated(["kernel", "matrix_sha256", "n", "l2"]).any()
    assert not seen.duplicated(["precision", "matrix", "n", "l2"]).any()
    assert (rows["kernel"].str.startswith("cusparse_best")).sum() == 0


def test_the_stored_model_is_what_the_command_trains(trained, stored):
    now, old = (json.loads(path.read_text())["devices"]["h200"] for path in (trained, MODEL))
    assert list(now["kernels"]) == list(old["kernels"]), f"resources/selector.json has other kernels: {REMEDY}"
    for part in ("rates", "features", "matrices", "cases"):
        assert now[part] == old[part], f"resources/selector.json has other {part}: {REMEDY}"
    fresh = document.read({"devices": {"h200": now}}, "h200")
    assert fresh.intervals == pytest.approx(stored.intervals, rel=0.01), REMEDY
    for name, kernel in fresh.kernels.items():
        for key in ("study", "format", "dtype", "layout", "requires", "kinds", "strip_columns", "cases"):
            same = now["kernels"][name][key] == old["kernels"][name][key]
            assert same, f"{name} has another {key} in resources/selector.json: {REMEDY}"
        assert kernel.own_memory == stored.kernels[name].own_memory, REMEDY
        for case in _probes():
            # Digits beyond the fourth depend on the linear algebra library.
            predicted, expected = fresh.predict(kernel, case)[0], stored.predict(stored.kernels[name], case)[0]
            assert predicted == pytest.approx(expected, rel=0.01), f"{name} predicts other times: {REMEDY}"


def _probes():
    """Cases between and beyond the measured ones."""
    row = synthetic.matrix_row("cfd1")
    yield {name: row[name] for name in FEATURES} | {"n": 100, "warm": False}
    yield {name: row[name] for name in FEATURES} | {"n": 8, "warm": True}


# --- the arithmetic ---------------------------------------------------------------------------------------------------


def test_held_out_is_training_without_the_rows_and_predicting_them(recorded, rows):
    _, _, plain, rates = recorded
    own = rows[(rows["kernel"] == "cutespmm") & rows["kind"].isin(["graph", "mesh", "structural"])].reset_index(
        drop=True
    )
    judged = held_out(own, rates["h200"], "kind")
    out = own["kind"] == "mesh"
    kernel = train(own[~out], plain, rates["h200"])["cutespmm"]
    floor_ms = float(np.exp(own["log_ms"].min()))
    case = own[out]
    times_ms = terms(case, kernel.work, rates["h200"])
    log_ms, spread = kernel.predict(times_ms, coordinates(case, rates["h200"]), floor_ms, rates["h200"])
    assert judged.loc[out, "predicted"].to_numpy() == pytest.approx(log_ms, abs=0.01)
    assert judged.loc[out, "spread"].to_numpy() == pytest.approx(spread, rel=0.01)


def test_terms_are_sums_of_what_grows_with_the_work(stored):
    row = synthetic.matrix_row("cfd1")
    case = {name: row[name] for name in FEATURES}
    for kernel in stored.kernels.values():
        assert (kernel.coefficients >= 0).all() and (kernel.work.bytes >= 0).all()
        few, many = (terms(case | {"n": n, "warm": False}, kernel.work, stored.rates) for n in (64, 96))
        assert (many >= few).all() and (few >= 0).all()


@pytest.mark.parametrize(("kernel", "columns"), [("window_f16", 32), ("split_f16_medium", 64), ("staged_f16", 128)])
def test_the_width_of_a_column_slab_is_learnt_from_the_rows(stored, kernel, columns):
    assert stored.kernels[kernel].work.strip_columns == columns


@pytest.mark.parametrize(
    ("kernel", "count", "multiple"),
    [
        ("cusparse_csr_alg2", "non-zeros", 8.0),
        ("mma_bt", "slots of 16x16 tiles", 2.0),
        ("cublas_gemm", "slots of A", 4.0),
        ("cusparse_coo_alg4", "non-zeros", 12.0),
    ],
)
def test_bytes_of_a_format_are_learnt_from_the_rows(stored, kernel, count, multiple):
    found = dict(zip(COUNTS, stored.kernels[kernel].work.bytes, strict=True))
    assert found[count] == pytest.approx(multiple, rel=0.02)


def test_no_call_is_faster_than_moving_a_b_and_c(stored):
    huge = {name: synthetic.matrix_row("cfd1")[name] for name in FEATURES}
    huge |= {"m": 10**6, "k": 10**6, "nonempty_columns": 10**6, "n": 512, "warm": False}
    for kernel in stored.kernels.values():
        size = VALUE_BYTES[kernel.dtype["a"]]
        least = (2 * 10**6 * 512 * size - stored.rates.l2_bytes) / stored.rates.dram_gb_per_s * 1e-6
        times_ms = terms(huge, kernel.work, stored.rates)
        kernel_ms = np.exp(log_sum(times_ms, kernel.coefficients, 0.0, stored.rates))
        assert kernel_ms[0] >= 0.999 * least


def test_a_kernel_that_is_new_is_learnt_like_the_others(recorded, rows):
    _, _, plain, rates = recorded
    twin = rows[rows["kernel"] == "cutespmm"]
    faster = twin.assign(kernel="brand_new", log_ms=twin["log_ms"] - 0.5)
    known = train(pd.concat([twin, faster]), plain | {"brand_new": plain["cutespmm"]}, rates["h200"])
    case = {name: synthetic.matrix_row("cfd1")[name] for name in FEATURES} | {"n": 128, "warm": False}
    model = Model("h200", rates["h200"], 0.003, {}, known)
    old, new = (model.predict(known[name], case)[0][0] for name in ("cutespmm", "brand_new"))
    assert new == pytest.approx(old * np.exp(-0.5), rel=0.02)


# --- a small world ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """The tables of a small world."""
    folder = tmp_path_factory.mktemp("world")
    recorded = synthetic.write_recorded(folder / "h200", ceilings=synthetic.ceiling_rows())
    return synthetic.analyse(folder / "analysis", recorded=[recorded])


def test_the_table_of_a_small_world(analysed):
    table = contracts.read(analysed / "selector.csv", "analysis_selector")
    assert set(table["held_out"]) == {"matrix", "kind"}
    assert (table["tried_regret"] <= table["regret"]).all()
    assert (table["time_ms"] >= table["fastest_ms"]).all()
    # mma_obts refused one of six matrices: without another one there are too few left.
    one = table[(table["held_out"] == "matrix") & (table["matrix"] == "cfd1") & (table["precision"] == "float16")]
    assert (one["unseen"] == 1).all() and (one["candidates"] == 4).all()


def test_without_the_rate_of_l2_there_is_nothing_to_predict_with(tmp_path):
    folder = synthetic.write_recorded(tmp_path / "h200")
    out = synthetic.analyse(tmp_path / "analysis", recorded=[folder])
    assert contracts.read(out / "selector.csv", "analysis_selector").empty


def test_the_model_is_trained_on_the_tables(analysed, tmp_path):
    out = tmp_path / "selector.json"
    paths = {name: analysed / f"{name}.csv" for name in ("cases", "matrices", "ceilings", "devices")}
    train_on_tables(**paths, heads=synthetic.HEADS, out=out, datasheets=DEVICES.glob("*.yaml"))
    content = contracts.document(out, "selector")
    model = document.read(content, "h200")
    assert "row_split" in model.kernels and model.kernels["row_split"].widths == synthetic.WIDTHS
    assert document.text(content) == out.read_text()


def test_a_folder_without_datasheets_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--recorded", str(RECORDED), "--devices", str(tmp_path), "--out", str(tmp_path / "model.json")])
    assert f"{tmp_path} holds no datasheet" in capsys.readouterr().err
