"""The selector on the recorded rows: its arithmetic, its regret, and the stored model.

`python -m tests.analysis.test_selector --fix` trains resources/selector.json anew on the recorded rows.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis import selector as chosen
from spmm_roofline.analysis.cases import cases
from spmm_roofline.analysis.ceilings import bandwidths, ceilings, peaks
from spmm_roofline.analysis.devices import devices as describe
from spmm_roofline.kernels.registry import heads
from tests.analysis import synthetic

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "resources" / "selector.json"
FIX = "`PYTHONPATH=workflow python -m tests.analysis.test_selector --fix` trains it anew on the recorded rows"


def geometric(regrets):
    """Geometric mean of chosen time over best time, minus 1."""
    return float(np.expm1(np.log1p(regrets).mean()))


def read_recorded():
    """Cases, matrices, ceilings and heads as the analysis of the recorded rows alone has them."""
    folders = sorted(path.parent for path in (ROOT / "resources/recorded").glob("*/device.json"))
    table = {
        name: contracts.read_all([folder / f"{name}.csv" for folder in folders], name)
        for name in ("matrices", "kernels")
    }
    top = contracts.read_all([path for folder in folders for path in folder.glob("ceilings.csv")], "measure_ceilings")
    rows = contracts.read_all([path for folder in folders for path in sorted(folder.glob("*/*.csv"))], "measure")
    records = {folder.name: contracts.document(folder / "device.json", "measured_device") for folder in folders}
    found = heads(str(ROOT / "kernels"))
    plain, prints = (
        {name: make(head) for name, head in found.items()} for make in (lambda h: h.as_dict(), lambda h: h.sha256())
    )
    sheets = {name: contracts.document(ROOT / f"config/devices/{name}.yaml", "device") for name in records}
    limits = ceilings(sheets, records, top, table["kernels"], plain, prints)
    nothing = contracts.frame([], "measure")
    datasheet = {name: sheet["peak_gflops"] for name, sheet in sheets.items()}
    dram = bandwidths(limits, "dram")
    cache, known = bandwidths(limits, "l2"), sheets | records
    code = (table["kernels"], plain, prints)
    measured = cases(nothing, rows, table["matrices"], *code, datasheet, dram, peaks(limits), cache, known)
    counted = contracts.frame([], "profile")
    described = describe(measured, sheets, records, counted, counted)
    return measured, table["matrices"], plain, chosen.known_rates(limits, described)


@pytest.fixture(scope="module")
def recorded():
    return read_recorded()


@pytest.fixture(scope="module")
def rows(recorded):
    measured, matrices, _, _ = recorded
    return chosen.gather(measured, matrices, "h200")


@pytest.fixture(scope="module")
def judged(recorded, rows):
    return chosen.held_out(rows, recorded[3]["h200"], "matrix_sha256")


@pytest.fixture(scope="module")
def seen(judged):
    return pd.DataFrame(chosen._choices(judged))


@pytest.fixture(scope="module")
def stored():
    return chosen.read_model(json.loads(STORED.read_text()), "h200")


# --- the recorded rows ------------------------------------------------------------------------------------------------


def test_the_regret_on_matrices_held_out_meets_its_goal(seen):
    for precision, own in seen.groupby("precision"):
        # Of FP64 there are 22 cases, and all of one width.
        goal = 0.05 if precision == "float64" else 0.03
        mean = geometric(own["regret"])
        assert mean < goal, f"{precision}: the geometric mean of the regret over {len(own)} cases is {mean:.3f}"
        assert geometric(own["tried_regret"]) <= mean
    assert (seen["regret"] < 0.2).mean() > 0.95


def test_whole_kinds_held_out_cost_more_but_no_class_is_lost(recorded, rows):
    unseen = pd.DataFrame(chosen._choices(chosen.held_out(rows, recorded[3]["h200"], "kind")))
    for precision, own in unseen.groupby("precision"):
        mean = geometric(own["regret"])
        assert mean < 0.2, f"{precision}: {mean:.3f} over {len(own)} cases"


def test_four_of_five_held_out_times_lie_in_their_interval(judged, stored):
    known = judged[judged["predicted"].notna()]
    for precision, own in known.groupby("precision"):
        off = (own["log_ms"] - own["predicted"]).abs() / own["spread"]
        assert (off <= stored.intervals[precision]).mean() == pytest.approx(0.8, abs=0.02), FIX


def test_a_structure_of_several_suites_stands_once(rows, seen):
    assert not rows.duplicated(["kernel", "matrix_sha256", "n", "l2"]).any()
    assert not seen.duplicated(["precision", "matrix", "n", "l2"]).any()
    assert (rows["kernel"].str.startswith("cusparse_best")).sum() == 0


def test_the_stored_model_is_what_the_recorded_rows_teach(recorded, rows, stored):
    _, _, plain, rates = recorded
    contracts.document(STORED, "selector")
    fresh = chosen.train(rows, plain, rates["h200"])
    assert list(fresh) == list(stored.kernels), f"resources/selector.json has other kernels: {FIX}"
    assert rates["h200"] == stored.rates, f"resources/selector.json has other ceilings: {FIX}"
    for name, kernel in fresh.items():
        old = stored.kernels[name]
        # Features are stored with seven digits.
        assert kernel.places.shape == old.places.shape, f"{name} was trained on other cases: {FIX}"
        assert kernel.places == pytest.approx(old.places, abs=1e-5), f"{name} was trained on other cases: {FIX}"
        for case in _probes():
            parts, where = chosen.terms(case, kernel.work, stored.rates), chosen.place(case, stored.rates)
            now = np.exp(kernel.predict(parts, where, stored.floor_ms)[0])
            assert now == pytest.approx(stored.predict(old, case)[0], rel=0.01), f"{name} predicts other times: {FIX}"


def _probes():
    """Cases between and beyond the measured ones."""
    row = synthetic.matrix_row("cfd1")
    yield {name: row[name] for name in chosen.FEATURES} | {"n": 100, "warm": False}
    yield {name: row[name] for name in chosen.FEATURES} | {"n": 8, "warm": True}


# --- the arithmetic ---------------------------------------------------------------------------------------------------


def test_held_out_is_training_without_the_rows_and_predicting_them(recorded, rows):
    _, _, plain, rates = recorded
    own = rows[(rows["kernel"] == "cutespmm") & rows["kind"].isin(["graph", "mesh", "structural"])].reset_index(
        drop=True
    )
    judged = chosen.held_out(own, rates["h200"], "kind")
    out = own["kind"] == "mesh"
    kernel = chosen.train(own[~out], plain, rates["h200"])["cutespmm"]
    floor = float(np.exp(own["log_ms"].min()))
    case = own[out]
    parts = chosen.terms(case, kernel.work, rates["h200"])
    log_ms, spread = kernel.predict(parts, chosen.place(case, rates["h200"]), floor)
    assert judged.loc[out, "predicted"].to_numpy() == pytest.approx(log_ms, abs=0.01)
    assert judged.loc[out, "spread"].to_numpy() == pytest.approx(spread, rel=0.01)


def test_what_is_held_out_teaches_nothing(recorded, rows):
    rates = recorded[3]["h200"]
    own = rows[(rows["kernel"] == "rode") & rows["kind"].isin(["graph", "mesh", "structural"])].reset_index(drop=True)
    out = own["kind"] == "mesh"
    slower = own.assign(log_ms=own["log_ms"] + 2.0 * out)
    once, again = (chosen.held_out(table, rates, "kind")["predicted"][out] for table in (own, slower))
    assert np.allclose(once, again, atol=1e-6)


def test_terms_are_sums_of_what_grows_with_the_work(stored):
    row = synthetic.matrix_row("cfd1")
    case = {name: row[name] for name in chosen.FEATURES}
    for kernel in stored.kernels.values():
        assert (kernel.coefficients >= 0).all() and (kernel.work.bytes >= 0).all()
        few, many = (chosen.terms(case | {"n": n, "warm": False}, kernel.work, stored.rates) for n in (64, 96))
        assert (many >= few).all() and (few >= 0).all()


@pytest.mark.parametrize(("kernel", "strip"), [("window_f16", 32), ("split_f16_medium", 64), ("staged_f16", 128)])
def test_a_strip_costs_the_same_where_c_has_fewer_columns(stored, kernel, strip):
    known, names = stored.kernels[kernel], list(chosen.GROUPS)
    assert known.work.strip_columns == strip
    case = {name: synthetic.matrix_row("cfd1")[name] for name in chosen.FEATURES} | {"warm": False}
    one, half, two = (
        dict(zip(names, chosen.terms(case | {"n": n}, known.work, stored.rates)[0], strict=True))
        for n in (strip, strip // 2, 2 * strip)
    )
    for name in ("gather", "condensed", "flops", "nonzeros", "rows"):
        assert half[name] == one[name] and two[name] == pytest.approx(2 * one[name])
    assert half["write_c"] < one["write_c"]


def test_times_of_a_known_sum_are_found_again():
    random = np.random.default_rng(3)
    parts = random.lognormal(sigma=1.5, size=(200, len(chosen.GROUPS)))
    wanted = np.where(np.arange(len(chosen.GROUPS)) % 3 == 0, 2.0, 0.0)
    found = chosen.fit(parts, parts @ wanted)
    assert parts @ found == pytest.approx(parts @ wanted, rel=0.03)


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
    found = dict(zip(chosen.COUNTS, stored.kernels[kernel].work.bytes, strict=True))
    assert found[count] == pytest.approx(multiple, rel=0.02)


def test_no_call_is_faster_than_reading_a_and_b(stored):
    huge = {name: synthetic.matrix_row("cfd1")[name] for name in chosen.FEATURES}
    huge |= {"m": 10**6, "k": 10**6, "nonempty_columns": 10**6, "n": 512, "warm": False}
    for kernel in stored.kernels.values():
        least = 10**6 * 512 * chosen.VALUE_BYTES[kernel.dtype["a"]] / stored.rates.dram_gb_per_s * 1e-6
        kernel_ms = np.exp(chosen._base(chosen.terms(huge, kernel.work, stored.rates), kernel.coefficients, 0.0))
        assert kernel_ms[0] >= 0.999 * least


def test_a_kernel_that_is_new_is_learnt_like_the_others(recorded, rows):
    _, _, plain, rates = recorded
    twin = rows[rows["kernel"] == "cutespmm"]
    faster = twin.assign(kernel="brand_new", log_ms=twin["log_ms"] - 0.5)
    known = chosen.train(pd.concat([twin, faster]), plain | {"brand_new": plain["cutespmm"]}, rates["h200"])
    case = {name: synthetic.matrix_row("cfd1")[name] for name in chosen.FEATURES} | {"n": 128, "warm": False}
    model = chosen.Model("h200", rates["h200"], 0.003, {}, known)
    old, new = (model.predict(known[name], case)[0][0] for name in ("cutespmm", "brand_new"))
    assert new == pytest.approx(old * np.exp(-0.5), rel=0.02)


# --- a small world ----------------------------------------------------------------------------------------------------


def test_the_table_of_a_small_world(tmp_path):
    folder = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    out = synthetic.analyse(tmp_path / "analysis", recorded=[folder])
    table = contracts.read(out / "selector.csv", "analysis_selector")
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


def test_the_model_is_written_from_the_tables(tmp_path):
    folder = synthetic.write_recorded(tmp_path / "h200", ceilings=synthetic.ceiling_rows())
    out = synthetic.analyse(tmp_path / "analysis", recorded=[folder])
    paths = {name: out / f"{name}.csv" for name in ("cases", "matrices", "ceilings", "devices")}
    chosen.write_model(**paths, heads=synthetic.HEADS, out=out / "selector.json")
    document = contracts.document(out / "selector.json", "selector")
    model = chosen.read_model(document, "h200")
    assert "row_split" in model.kernels and model.kernels["row_split"].widths == synthetic.WIDTHS
    assert chosen.model_text(document) == (out / "selector.json").read_text()


if __name__ == "__main__":
    if sys.argv[1:] != ["--fix"]:
        sys.exit("usage: python -m tests.analysis.test_selector --fix")
    contracts.write_text(
        STORED, chosen.model_text(contracts.validate(chosen.model_document(*read_recorded()), "selector", STORED))
    )
