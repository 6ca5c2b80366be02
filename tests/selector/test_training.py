"""Training and validation on rows whose times are known sums of terms."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmm_roofline import contracts
from spmm_roofline.kernels import heads
from spmm_roofline.selector.correction import coordinates
from spmm_roofline.selector.document import make, read, text
from spmm_roofline.selector.limits import limits
from spmm_roofline.selector.model import Model
from spmm_roofline.selector.terms import COUNTS, TERMS, counts, terms
from spmm_roofline.selector.training import LEAST_MATRICES, Stored, fit, train
from spmm_roofline.selector.validation import elsewhere, held_out, intervals
from tests.selector.test_terms import CSR, RATES

ROOT = Path(__file__).resolve().parents[2]
HEAD = {
    "study": "scalar",
    "format": "csr",
    "dtype": {"a": "float32", "b": "float32", "accumulator": "float32", "c": "float32"},
    "layout": {"b": "row_major", "c": "row_major"},
    "requires": {},
}
#: The time of the kernel ``row_split`` of this world in multiples of its terms.
TRUE = np.array([4.0 if name in ("launch", "gather", "write_c") else 0.0 for name in TERMS])


def world(matrices=12, kernel="row_split", factor=1.0, seed=1):
    """Rows of one kernel on random structures, three widths each, whose times are ``factor`` · TRUE · terms."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(matrices):
        m, mean = int(random.integers(5_000, 500_000)), float(random.uniform(3, 60))
        nnz = int(m * mean)
        tiles = nnz // int(random.integers(3, 60))
        structure = {
            "matrix": f"m{number}",
            "matrix_sha256": f"{number:064d}",
            "kind": f"kind{number % 3}",
            **{"m": m, "k": m, "nnz": nnz, "nonempty_columns": m, "empty_rows": 0},
            **{"row_length_mean": mean, "row_length_max": int(3 * mean), "row_length_std": mean / 2},
            **{"tiles_16x16": tiles, "tile_fill_16x16_fraction": nnz / tiles / 256},
            **{"tiles_16x32": tiles, "tile_24_16x32_fraction": 0.5, "alpha_fraction": float(random.uniform(0.07, 0.5))},
        }
        for n in (32, 128, 512):
            case = structure | {"n": n, "warm": False}
            time_ms = factor * float((terms(case, CSR, RATES) @ TRUE)[0])
            own = {"kernel": kernel, "study": HEAD["study"], "format": HEAD["format"], "precision": "float32"}
            format_bytes = 8 * nnz + 4 * m
            work = {"strip_columns": 32, "compute_limit_gflops": 50_000.0, "format_bytes": format_bytes, "slots": nnz}
            rows.append(case | own | work | {"l2": "cold", "log_ms": np.log(time_ms)})
    return pd.DataFrame(rows)


ROWS = world()
KERNEL = train(ROWS, {"row_split": HEAD}, RATES)["row_split"]


def test_times_of_a_known_sum_are_found_again():
    random = np.random.default_rng(3)
    times_ms = random.lognormal(sigma=1.5, size=(200, len(TERMS)))
    wanted = np.where(np.arange(len(TERMS)) % 3 == 0, 2.0, 0.0)
    found = fit(times_ms, times_ms @ wanted)
    assert (found >= 0).all()
    assert times_ms @ found == pytest.approx(times_ms @ wanted, rel=0.03)


def test_the_work_of_a_kernel_is_learnt_from_its_rows():
    found = dict(zip(COUNTS, KERNEL.work.bytes, strict=True))
    assert found["non-zeros"] == pytest.approx(8, rel=0.05)
    slots = dict(zip(COUNTS, KERNEL.work.slots, strict=True))
    assert slots["non-zeros"] == pytest.approx(1, rel=0.05)
    assert (KERNEL.work.strip_columns, KERNEL.work.compute_limit_gflops) == (32, 50_000.0)


def test_cases_of_a_matrix_together_teach_what_they_teach_one_by_one():
    random = np.random.default_rng(4)
    counted, matrices = counts(ROWS), np.repeat(np.arange(12), 3)
    stored = counted @ random.uniform(0, 3, len(COUNTS)) * random.uniform(0.9, 1.1, len(ROWS))
    stored[:4] = 0  # not known: all cases of the first matrix and one of the second
    alone, together = Stored(counted, stored), Stored(counted, stored, matrices)
    assert together.multiples() == pytest.approx(alone.multiples(), rel=1e-3) and together.multiples().any()
    beside = ~np.isin(matrices, (1, 7))
    expected = Stored(counted[beside], stored[beside]).multiples()
    assert together.multiples(np.array([1, 7])) == pytest.approx(expected, rel=1e-3)
    assert not together.multiples(np.arange(12)).any(), "nothing is left to learn from"


def test_an_unseen_matrix_is_predicted():
    unseen = world(matrices=3, seed=5)
    model = Model("h200", RATES, 0.0, {"float32": 1.3}, {"row_split": KERNEL})
    for row in unseen.to_dict("records"):
        times, factors, spent = model.predict(KERNEL, row)
        assert times[0] == pytest.approx(np.exp(row["log_ms"]), rel=0.1)
        assert factors[0] > 1 and spent.shape == (1, len(TERMS)) and (spent >= 0).all()


def test_a_kernel_says_what_it_was_measured_on():
    assert KERNEL.widths == (32, 128, 512) and KERNEL.kinds == 3
    assert KERNEL.most == {"m": ROWS["m"].max(), "nnz": ROWS["nnz"].max()}


def test_too_few_matrices_teach_nothing():
    few = world(matrices=LEAST_MATRICES - 1)
    assert train(few, {"row_split": HEAD}, RATES) == {}
    assert list(train(world(LEAST_MATRICES), {"row_split": HEAD}, RATES)) == ["row_split"]


def test_a_kernel_without_a_head_is_left_out():
    assert train(ROWS, {}, RATES) == {}


@pytest.mark.parametrize(
    ("kernel", "most"),
    [
        ("mma_bt", {"m": 65_535 * 16}),
        ("mma_obts_large_tiled", {"m": 65_535 * 64}),
        ("wgmma_obt_tall", {"m": 65_535 * 128}),
        ("gespmm_par_row", {"n": 65_535 * 4}),
        ("xw_vectors", {"n": 65_535, "k": 65_535 * 512}),
        ("cusparse_csr_alg2", {}),
    ],
)
def test_the_grid_of_a_kernel_limits_its_sizes(kernel, most):
    assert limits(heads()[kernel]) == most


def test_the_limits_of_a_grid_are_stored():
    head = heads()["wgmma_obt_tall"].as_dict() | HEAD  # the rows are those of a kernel for CSR
    stored = read(make({"h200": ROWS}, {"row_split": head}, {"h200": RATES}), "h200").kernels["row_split"]
    assert stored.limits == {"m": 65_535 * 128} and KERNEL.limits == {}


def test_that_a_kernel_has_memory_of_its_own_is_stored():
    for name, own in (("scale_tc", True), ("cusparselt_search", True), ("split_fma", False)):
        head = heads()[name].as_dict() | HEAD
        stored = read(make({"h200": ROWS}, {"row_split": head}, {"h200": RATES}), "h200").kernels["row_split"]
        assert stored.own_memory == own and bool(heads()[name].refusal) == own


def test_no_rows_make_an_empty_document():
    assert make({"h200": ROWS.head(0)}, {"row_split": HEAD}, {"h200": RATES}) == {"devices": {}}


def test_alike_kernels_share_coefficients_and_differ_by_their_corrections():
    twin = world(kernel="row_split_twin", factor=0.8)
    both = train(pd.concat([ROWS, twin], ignore_index=True), {"row_split": HEAD, "row_split_twin": HEAD}, RATES)
    one, other = both["row_split"], both["row_split_twin"]
    assert np.array_equal(one.coefficients, other.coefficients)
    case = world(matrices=1, seed=9)
    times_ms, at = terms(case, one.work, RATES), coordinates(case, RATES)
    ratio = np.exp(other.predict(times_ms, at, 0.0, RATES)[0] - one.predict(times_ms, at, 0.0, RATES)[0])
    assert ratio == pytest.approx(0.8, rel=0.05)


def test_held_out_rows_are_predicted_from_the_other_rows_alone():
    out = ROWS["matrix"] == "m3"
    judged = held_out(ROWS, RATES, "matrix")
    assert judged["predicted"].notna().all() and (judged["spread"] > 0).all()
    slower = held_out(ROWS.assign(log_ms=ROWS["log_ms"] + 2.0 * out), RATES, "matrix")
    assert slower.loc[out, "predicted"].to_numpy() == pytest.approx(judged.loc[out, "predicted"].to_numpy(), abs=1e-6)


def test_a_group_that_leaves_too_few_matrices_is_not_predicted():
    judged = held_out(world(matrices=LEAST_MATRICES + 1), RATES, "kind")
    assert judged["predicted"].isna().all()


def test_the_interval_holds_four_of_five_held_out_times():
    judged = held_out(ROWS, RATES, "matrix")
    (width,) = intervals(judged).values()
    off = (judged["log_ms"] - judged["predicted"]).abs() / judged["spread"]
    assert (off <= width).mean() == pytest.approx(0.8, abs=0.03)


def test_a_stored_model_predicts_as_the_trained_one():
    document = make({"h200": ROWS}, {"row_split": HEAD}, {"h200": RATES})
    assert text(document).count("\n") > 20
    stored = read(document, "h200")
    case = world(matrices=2, seed=8)
    known = stored.kernels["row_split"]
    assert (known.widths, known.most, known.kinds) == (KERNEL.widths, KERNEL.most, KERNEL.kinds)
    times_ms, at = terms(case, KERNEL.work, RATES), coordinates(case, RATES)
    expected = KERNEL.predict(times_ms, at, stored.floor_ms, RATES)
    assert stored.predict(known, case)[0] == pytest.approx(np.exp(expected[0]), rel=1e-4)


def test_on_another_device_widths_beyond_the_measured_ones_are_not_judged():
    narrow = ROWS[ROWS["n"] <= 128]
    sheets = {name: contracts.document(ROOT / f"config/devices/{name}.yaml", "device") for name in ("h100", "h200")}
    rates = {"h100": RATES, "h200": RATES}
    rows = {"h100": narrow, "h200": world(matrices=4, seed=9)}
    judged = elsewhere(rows, rates, {"row_split": HEAD}, {"row_split": "cuda"}, sheets, "h100", "h200")
    assert len(judged) == len(rows["h200"])
    assert (judged["predicted"].notna() == (judged["n"] <= 128)).all()
