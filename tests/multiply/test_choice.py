"""The general kernel that is chosen, its regret on recorded rows and generated matrices, and the costs behind it."""

import importlib
import json
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import regret
from spmm_roofline import contracts
from spmm_roofline.formats.base import FormatError, Survey
from spmm_roofline.kernels import choose as module
from spmm_roofline.kernels import costs
from spmm_roofline.kernels.choose import (
    DENSE,
    GENERAL,
    SAMPLED,
    Product,
    choose,
    columns_of_copy,
    costed,
    for_width,
    takes,
    without_copy,
)
from spmm_roofline.kernels.expressions import evaluate, namespace, split
from spmm_roofline.kernels.launch import GRID_LIMIT
from spmm_roofline.kernels.registry import of_study
from spmm_roofline.multiply.copies import WHOLE_SLABS
from spmm_roofline.multiply.plan import WIDEST
from spmm_roofline.paths import COSTS, KERNELS

#: Its fixtures are made once, not once in each process.
pytestmark = pytest.mark.xdist_group("choice")

ROOT = Path(__file__).resolve().parents[2]
MULTIPROCESSORS = 132
DEVICES = ("h100", "h200")
DTYPES = ("float16", "bfloat16", "tf32", "float32", "float64")


@cache
def general(dtype):
    """The general kernels of a dtype by name."""
    return {name: head for name, head in of_study(GENERAL, KERNELS).items() if head.dtype["a"] == dtype}


def product(n, m, nnz, longest, blocks, k=10_000, tiles=None):
    """A product of which the survey is known; without ``tiles`` those of panels are guessed."""
    panels = None if tiles is None else lambda: Survey(tiles, longest)
    return Product(m, n, nnz, MULTIPROCESSORS, lambda: Survey(blocks, longest), k, look_at_panels=panels)


@pytest.fixture(scope="module")
def kernels():
    return regret.known()


@pytest.fixture(scope="module")
def described():
    return {device: contracts.document(ROOT / f"config/devices/{device}.yaml", "device") for device in DEVICES}


# --- regret -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(kernels):
    """Recorded rows of both devices, of all kernels that multiply any matrix."""
    return pd.concat(regret.rows_of(ROOT / "resources/recorded", name, regret.SUITES, kernels) for name in DEVICES)


@pytest.mark.parametrize(("dtype", "mean", "worst"), [
    ("float16", 0.01, 0.25), ("bfloat16", 0.01, 0.25), ("tf32", 0.015, 0.45), ("float32", 0.012, 0.45),
])  # fmt: skip
def test_the_chosen_kernel_is_near_the_best_one_known(recorded, kernels, described, dtype, mean, worst):
    found = regret.summary(regret.judged(recorded, kernels, dtype, described))
    assert found["cases"].min() > 300
    assert found["geometric"].max() < mean and found["worst"].max() < worst
    assert found["p90"].max() < 0.05 and (found["over_10"] / found["cases"]).max() < 0.04
    # Against the best of the re-creations, cuSPARSE's algorithms and the dense product.
    assert found["spmm"].min() > (1.7 if "16" in dtype else 1.15)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "mean", "own"), [
    ("float16", 0.012, 0.011), ("tf32", 0.016, 0.014), ("float32", 0.017, 0.011), ("float64", 0.016, 0.016),
])  # fmt: skip
def test_so_it_is_on_matrices_to_which_nothing_was_fitted(kernels, described, device, dtype, mean, own):
    rows = regret.rows_of_table(regret.CHOICES / f"judged-{device}.csv.gz", device, kernels)
    every = regret.judged(rows, kernels, dtype, described)
    assert len(every) == 217
    assert np.expm1(np.log1p(every["regret"]).mean()) < mean
    assert every["regret"].quantile(0.9) < 0.07
    mine = {name: head for name, head in kernels.items() if head.study == GENERAL or name in DENSE.values()}
    every = regret.judged(rows[rows["kernel"].isin(list(mine))], mine, dtype, described)
    assert np.expm1(np.log1p(every["regret"]).mean()) < own, "against the best general kernel alone"


def test_the_table_of_regrets_follows_from_these_costs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    judge = importlib.import_module("judge")
    rows = pd.read_csv(judge.TABLE)
    assert set(rows["made_from"]) == {judge.made_from()}, "`python benchmarks/judge.py` makes it anew"
    assert set(zip(rows["matrices"], rows["device"], strict=True)) == set(judge.timed())


@pytest.mark.parametrize(("dtype", "mean"), [("float16", 0.005), ("tf32", 0.008), ("float32", 0.005)])
def test_so_it_is_of_sampled_products(described, dtype, mean):
    rows = regret.rows_of_table(regret.CHOICES / "judged-h100-sampled.csv.gz", "h100", regret.sampling())
    every = regret.judged_samples(rows, dtype, described["h100"])
    assert len(every) == 1519 and set(every["best"]) == set(every["chosen"]) == set(SAMPLED[dtype])
    assert np.expm1(np.log1p(every["regret"]).mean()) < mean
    assert every["regret"].quantile(0.97) < 0.08 and every["regret"].max() < 0.5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "mean", "least"), [
    ("float16", 0.012, 0.87), ("tf32", 0.02, 0.84), ("float32", 0.02, 0.84), ("float64", 0.01, 0.95),
])  # fmt: skip
def test_so_it_is_on_small_real_matrices_to_which_nothing_was_fitted(kernels, described, device, dtype, mean, least):
    rows = regret.rows_of_table(regret.CHOICES / f"judged-{device}-files.csv.gz", device, kernels)
    every = regret.judged(rows, kernels, dtype, described)
    assert len(every) == 45 * 7
    assert np.expm1(np.log1p(every["regret"]).mean()) < mean and every["regret"].max() < 0.4
    assert every["spmm"].min() > least and (every["spmm"] < 0.95).mean() < 0.12


def test_no_matrix_is_judged_and_fitted_to(recorded):
    tables = {path.name: set(pd.read_csv(path)["matrix"]) for path in regret.CHOICES.glob("*.csv.gz")}
    for sampled in (True, False):
        fitted, judged = (
            set().union(
                *(own for name, own in tables.items() if name.startswith(use) and ("sampled" in name) is sampled)
            )
            for use in ("fitted", "judged")
        )
        fitted |= set() if sampled else set(recorded["matrix"])
        assert len(fitted) > 250 and len(judged) > 30 and not fitted & judged


def test_a_matrix_of_the_fit_is_not_judged_by_another_name():
    about = {"k": 8, "nnz": 20, "row_length_max": 5, "blocks": 2}
    cases = pd.DataFrame({"matrix": ["fem3d-4-21", "fem3d-4-22", "fem3d-4-21"], "m": [8, 9, 8], **about})
    fitted = pd.DataFrame({"matrix": ["fem3d-7-93", "fem3d-7-93"], "m": 8, **about})
    assert list(regret.unseen(cases, fitted)["matrix"]) == ["fem3d-4-22"]
    assert regret.unseen(cases, fitted.iloc[:0]).equals(cases)


def test_judged_matrices_that_sizes_alone_decide_are_among_the_fitted_ones(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    judge = importlib.import_module("judge")
    kernels = regret.known() | regret.sampling()
    for sampled, table, number in ((True, "judged-h100-sampled", 21), (False, "judged-h100", 1)):
        rows = regret.rows_of_table(regret.CHOICES / f"{table}.csv.gz", "h100", kernels)
        kept = set(regret.unseen(rows, judge.fitted(sampled))["matrix"])
        dropped = set(rows["matrix"]) - kept
        assert len(dropped) == number and {name.split("-")[0] for name in dropped} <= {"fem3d", "mesh2d"}


def test_relatives_are_in_one_half():
    for relative in ("cfd1-lower", "cfd1sc", "cfd1sc-lower"):
        assert regret.half_of(relative) == regret.half_of("cfd1")
    assert regret.half_of("jan99jac060sc") == regret.half_of("jan99jac060")
    assert {regret.half_of(f"m{number}") for number in range(9)} == {"fitted", "judged"}


def test_the_seed_draws_the_matrices_of_the_tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    choices = importlib.import_module("choices")
    table = pd.concat(map(pd.read_csv, sorted(regret.CHOICES.glob("*.csv.gz"))))
    table = table[table["group"] != "files"].drop_duplicates("matrix")
    known = table.set_index("matrix")[["m", "k", "nnz"]]
    more = ["long", "mesh2d", "uniform", "long", "powerlaw", "banded"]
    families = {seed: choices.FAMILIES.split(",") for seed in (1, 2, 4, 6, 7)} | {3: more}
    of_samples = ["uniform", "rmat", "powerlaw", "mesh2d", "fem3d", "banded", "pruned", "long"]
    families |= {21: of_samples, 22: of_samples}
    families[5] = ["pruned", "long", "uniform", "long"]
    seen = (1, 4), (1, 47), (1, 96), (1, 29), (2, 3), (3, 0), (3, 7), (3, 17), (4, 3), (4, 14), (5, 0), (6, 7), (7, 13)
    seen += (21, 7), (22, 3)
    for seed, number in seen:
        family, name, a, widths = choices.drawn(seed, number, families[seed][number % len(families[seed])])
        assert name == f"{family}-{seed}-{number}" and widths == sorted(set(widths))
        assert (*a.shape, a.nnz) == tuple(known.loc[name])


def test_times_of_a_new_kernel_join_a_table(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    choices = importlib.import_module("choices")
    table = pd.read_csv(regret.CHOICES / "judged-h100.csv.gz")
    new = table["kernel"] == "dealt_rows_fma"
    assert 0 < new.sum() < len(table)
    again = choices.merged(table[~new], table[new].assign(time_us=1.0))
    by_key = [rows.set_index(choices.KEY)["time_us"] for rows in (table, again)]
    assert set(by_key[0].index) == set(by_key[1].index) and len(again) == len(table)
    assert (by_key[1] == by_key[0].where(~new.to_numpy(), 1.0).reindex(by_key[1].index)).all()
    assert list(again["matrix"].unique()) == list(table["matrix"].unique())
    # A time that is measured again takes the place of the old one, and equal rows are equal bytes.
    path, contents = tmp_path / "times.csv.gz", []
    for old in (again, choices.merged(again.iloc[:0], again)):
        choices.write(choices.merged(old, table[new]), path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert choices.merged(table[:0], table[:0]).empty, "no matrix so far had a product for the kernels"
    restored = pd.read_csv(path).set_index(choices.KEY)["time_us"]
    assert (restored.reindex(by_key[0].index) == by_key[0]).all()


# --- costs ------------------------------------------------------------------------------------------------------------


def test_every_general_kernel_and_dense_product_has_a_cost(kernels):
    names = {costed(name) for dtype in DTYPES for name in general(dtype)} | set(map(costed, DENSE.values()))
    assert names == {head.name for head in regret.costed(kernels)}
    sampling = {costed(name) for kernels in SAMPLED.values() if kernels.windows for name in kernels}
    assert sampling == {head.name for head in regret.costed(regret.sampling())}
    assert set(costs.known()) == names | sampling


def test_terms_of_a_cost_take_time():
    for name, cost in costs.known().items():
        assert (cost.coefficients >= 0).all(), name
        assert cost.coefficients[list(costs.TERMS).index("fixed")] > 1, f"{name}: no launch takes less than a µs"


def test_a_cost_is_written_as_it_is_read():
    document = json.loads(COSTS.read_text())
    for name, cost in costs.known().items():
        assert cost.document() == document["kernels"][name]


def test_costs_of_other_traits_are_refused(tmp_path, monkeypatch):
    costs.known.cache_clear()
    monkeypatch.setattr(costs, "COSTS", tmp_path / "costs.json")
    (tmp_path / "costs.json").write_text('{"traits": ["log_m"], "kernels": {}}')
    with pytest.raises(ValueError, match=r"asks for other traits: `python benchmarks/costs.py` fits it anew"):
        costs.known()
    monkeypatch.undo()
    costs.known.cache_clear()


@given(
    st.integers(5_000, 10**6), st.integers(5_000, 10**6), st.sampled_from([8, 41, 128, 1024]), st.floats(2, 300),
    st.floats(1, 10), st.floats(1, 100),
)  # fmt: skip
def test_more_work_takes_longer(m, k, n, mean, uneven, fill):
    """Sixteen times as many rows, and columns of B, take longer with any kernel."""
    nnz = int(m * min(mean, k))
    survey = {"longest": int(min(k, uneven * nnz / m + 1)), "blocks": int(nnz / fill) + 1}
    one, more = (
        costs.log_us(
            sorted(costs.known()),
            costs.Sizes(
                a * m, k, a * n, a * nnz, survey["longest"], a * survey["blocks"], a * survey["blocks"], 132, 50 << 20
            ),
        )
        for a in (1, 16)
    )
    assert np.isfinite(one).all() and np.isfinite(more).all()
    assert (more > one).all()


@pytest.fixture
def fitting(monkeypatch):
    """The module of the benchmark that fits costs."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("costs")


def test_a_fit_finds_the_terms_that_times_are_made_of(kernels, fitting):
    rng, head = np.random.default_rng(0), kernels["split_fma"]
    rows = pd.DataFrame({
        "m": rng.integers(1_000, 100_000, 300), "k": rng.integers(1_000, 100_000, 300),
        "n": rng.choice([8, 32, 128, 512], 300), "nnz": rng.integers(200_000, 4_000_000, 300),
        "row_length_max": rng.integers(100, 2_000, 300), "blocks": rng.integers(20_000, 200_000, 300),
        "panel_tiles": np.nan, "multiprocessors": 132, "l2_bytes": 50 << 20, "weight": 1.0,
    })  # fmt: skip
    rows["time_us"] = 4 + 0.02 * rows["nnz"] * rows["n"] / 132 / 1e3 + 50 * rows["row_length_max"] / 1e3
    fit, left = fitting.begun(head, rows)
    known = dict(zip(costs.TERMS, fit.coefficients, strict=True))
    assert known["fixed"] == pytest.approx(4, rel=0.3) and known["longest_row"] == pytest.approx(0.05, rel=0.05)
    assert np.abs(left).max() < 0.02


def begun(fitting, traits, first=0):
    """A fit of traits float64[products, traits], whose terms explain nothing yet."""
    limits = [fitting.thresholds(x) for x in traits.T]
    codes = [np.searchsorted(of_trait, x) for of_trait, x in zip(limits, traits.T, strict=True)]
    rows, slabs = first + np.arange(len(traits)), costs.Slabs(32, False, 2)
    return fitting.Fit(rows, slabs, np.ones(len(costs.TERMS)), np.ones(len(traits)), limits, codes, [])


def predicted(trees, traits):
    bits = 1 << np.arange(trees.traits.shape[1])[::-1]
    leaf = ((traits[:, trees.traits] > trees.thresholds) * bits).sum(axis=-1)
    return trees.leaves[np.arange(len(trees.leaves)), leaf].sum(axis=-1)


def test_trees_learn_what_terms_leave_out_and_nothing_that_all_kernels_have_in_common(fitting):
    rng = np.random.default_rng(0)
    traits = rng.random((2_000, len(costs.TRAITS)))
    apart = np.where(traits[:, 3] > 0.5, 0.4, -0.2) + np.where((traits[:, 0] > 0.25) & (traits[:, 7] < 0.6), 0.3, 0.0)
    fits = [begun(fitting, traits), begun(fitting, traits, 2_000)]
    # What both have in common is noise, which sizes do not tell.
    common = rng.normal(0, 1, 2_000)
    left = np.concatenate([common + apart, common])
    fitting.boost(fits, left, np.ones(4_000), np.tile(np.arange(2_000), 2))
    one, other = (fit.cost().trees for fit in fits)
    assert np.abs(predicted(one, traits) - predicted(other, traits) - apart).mean() < 0.02
    assert {0, 3, 7} <= set(one.traits.ravel().tolist())


def test_a_time_that_does_not_count_moves_no_tree(fitting):
    rng = np.random.default_rng(0)
    traits = rng.random((500, len(costs.TRAITS)))
    left, case = rng.normal(0, 1, 1_000), np.tile(np.arange(500), 2)
    weight = np.repeat([1.0, 0.0], 500)
    fit = begun(fitting, traits)
    fitting.boost([fit], left.copy(), weight, case)
    assert not fit.cost().trees.leaves.any(), "a kernel alone has all in common with itself"


def test_a_written_cost_sends_every_product_to_the_leaf_that_it_was_fitted_in(fitting):
    """A document has five digits of a threshold: one that is a product's own trait may fall below it."""
    rng = np.random.default_rng(0)
    traits = np.log(rng.choice([1.0, 2, 8, 24, 32, 41, 128, 384, 512, 1024], (2_000, len(costs.TRAITS))))
    fit = begun(fitting, traits)
    fitting.boost([fit], rng.normal(0, 0.3, 2_000), np.ones(2_000), np.zeros(2_000, dtype=np.int64))
    cost = fit.cost()
    asked = traits[:, cost.trees.traits]
    written = np.array(cost.document()["thresholds"])
    assert ((asked > cost.trees.thresholds) == (asked > written)).all()
    assert fitting.thresholds(np.log([1.0, 1.0, 8.0])) == pytest.approx([np.log(8) / 2], rel=1e-4)


def test_the_rounding_of_what_cancels_divides_no_products(fitting):
    blocks = np.random.default_rng(0).integers(1, 10**6, 1_000)
    for halves in (np.log(blocks) - np.log(blocks / 2), np.log(blocks) - np.log(3 * blocks) + np.log(3)):
        assert len(np.unique(halves)) > 1 and (halves < fitting.thresholds(halves)).all()


def test_products_and_samples_of_one_matrix_are_cases_of_their_own(fitting):
    rows = fitting.times(regret.known() | regret.sampling(), None)
    of_samples = rows["kernel"].isin(list(fitting.DTYPE_OF_SAMPLES))
    assert of_samples.any() and (of_samples.groupby(rows["case"]).nunique() == 1).all()


def test_costs_are_fitted_to_no_fewer_rows_than_means_are_taken_over(fitting):
    assert fitting.times(regret.known() | regret.sampling(), None)["m"].min() == costs.LEAST_ROWS


@given(st.integers(1, costs.LEAST_ROWS - 1), st.integers(1, 100_000), st.sampled_from([1, 32, 128, 1024]))
def test_empty_rows_make_no_product_faster(m, longest, n):
    """All entries are in one row, so that its windows are all that there are."""
    few, more = (
        costs.log_us(
            sorted(costs.known()), costs.Sizes(rows, 100_000, n, longest, longest, -(-longest // 16), 10, 132, 50 << 20)
        )
        for rows in (m, costs.LEAST_ROWS)
    )
    assert (few <= more + 1e-9).all()


# --- choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_cost_decides(dtype, monkeypatch):
    able, of = general(dtype), product(64, 10_000, 300_000, 60, 10_000)
    names = sorted({costed(name) for name, head in able.items() if takes(head, of)})
    for wanted in names:

        def log_us(asked, sizes, wanted=wanted):
            return np.array([name != wanted for name in asked], dtype=float)

        monkeypatch.setattr(costs, "log_us", log_us)
        assert costed(choose(able, dtype, of).name) == wanted


@pytest.mark.parametrize(
    ("dtype", "size", "mean", "n", "dense"),
    [
        ("float16", 512, 250, 128, True),
        ("bfloat16", 512, 250, 128, True),
        ("float16", 4096, 20, 128, False),
        ("tf32", 512, 250, 512, True),
        ("tf32", 4096, 20, 512, False),
        ("float32", 1024, 1000, 1024, True),
        ("float32", 1024, 50, 128, False),
    ],
)
def test_a_full_matrix_is_multiplied_as_a_dense_one(kernels, dtype, size, mean, n, dense):
    able = general(dtype) | {DENSE[dtype]: kernels[DENSE[dtype]]}
    # Of a window's columns, those that none of its eight rows has an entry in are left out.
    blocks = int(size / 8 * size / 16 * (1 - (1 - mean / size) ** 8)) + size // 8
    case = product(n, size, size * mean, min(2 * mean, size), blocks, size)
    assert (choose(able, dtype, case).name == DENSE[dtype]) == dense
    assert choose(general(dtype), dtype, case).format != "dense", "there is a kernel for it without the library as well"


@pytest.mark.parametrize(
    ("dtype", "m", "mean", "longest", "n", "blocks", "beginning"),
    [
        ("float32", 400_000, 4, 17, 41, 100_000, "short_rows_fma"),
        ("float32", 14_000, 132, 177, 32, 112_570, "even_rows_fma"),
        ("float32", 14_000, 132, 177, 512, 112_570, "even_rows_fma_narrow"),
        ("tf32", 1_024, 102, 130, 32, 6_700, "spread_rows_fma_tf32"),
        ("float16", 1_024, 102, 130, 32, 6_700, "spread_rows_fma_f16"),
        ("float32", 3_072, 102, 431, 512, 39_000, "spread_rows_fma_deep"),
        ("float64", 2_093, 442, 492, 300, 58_000, "spread_rows_fma_f64"),
        ("float64", 14_000, 132, 177, 512, 112_570, "even_rows_fma_f64"),
        ("float16", 40_000, 50, 60, 512, 25_000, "staged_f16"),
        ("float16", 90_000, 6, 6, 512, 33_700, "split_f16"),
        ("float16", 10_000, 30, 45, 256, 18_700, "even_rows_fma_f16"),
        ("float16", 9_000, 300, 340, 512, 164_000, "strips_f16"),
        ("tf32", 30_000, 60, 70, 512, 20_000, "window_tf32_tall"),
    ],
)
def test_kinds_of_matrices_have_kernels_of_their_own(dtype, m, mean, longest, n, blocks, beginning):
    def used(rows):
        """Columns that these many rows use together if their entries lie anywhere."""
        return m * (1 - (1 - mean / m) ** rows)

    tiles = m // 64 * ceil(used(64) / 32) if blocks > 0.95 * m / 8 * used(8) / 16 else None
    of = product(n, m, mean * m, longest, blocks, m, tiles)
    assert choose(general(dtype), dtype, of).name.startswith(beginning)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_full_row_is_no_dense_product(kernels, dtype):
    able = general(dtype) | {name: kernels[name] for name in [DENSE.get(dtype)] if name}
    chosen = choose(able, dtype, product(1, 1, 100_000, 100_000, 6_250, 100_000, 3_125))
    assert chosen.name.startswith("narrow_fma") and chosen.name.endswith("_single")


def test_no_kernel_needs_more_strips_than_a_grid_has():
    of = {"n": WIDEST, "m": 1, "k": 1}
    wide = [head for head in of_study(GENERAL, KERNELS).values() if not module.is_wider(head, WIDEST)]
    strips = {
        head.name: evaluate(expression, of | {"tile": namespace(**head.tile)})
        for head in wide
        for launch in head.launches
        for expression in split(launch.grid)[1:]
    }
    assert max(strips.values()) <= [GRID_LIMIT], "strips of a wide product may be narrower than plan.py says"
    assert {"even_rows_fma_f64", "split_fma_f64", "window_f16", "spread_rows_fma"} <= strips.keys()


def test_a_width_may_be_a_number_of_numpy():
    of = product(np.int64(128), 10_000, 300_000, 60, 10_000)
    assert choose(general("float32"), "float32", of) == choose(general("float32"), "float32", replace(of, n=128))


def test_panels_are_taken_where_windows_have_columns_in_common():
    able, of = general("float16"), product(512, 60_000, 3_000_000, 60, 40_000, 60_000, tiles=3_000)
    assert choose(able, "float16", of).format == module.PANELS
    apart = product(512, 60_000, 3_000_000, 60, 40_000, 60_000, tiles=60_000)
    assert choose(able, "float16", apart).format != module.PANELS


@pytest.mark.parametrize(
    ("name", "m", "nnz", "longest", "n", "blocks", "k", "taken"),
    [
        ("window_tf32_tall", 10_000, 250_000, 30, 32, 10_000, 10_000, True),
        ("window_tf32_tall", 10_000, 249_000, 30, 32, 10_000, 10_000, False),
        ("strips_f16", 14_000, 14_000 * 132, 180, 512, 110_000, 14_000, True),
        ("strips_f16", 14_000, 14_000 * 132, 330, 512, 110_000, 14_000, False),
        ("strips_f16", 14_000, 14_000 * 132, 180, 512, 110_000, 15_000, False),
        ("narrow_fma", 10_000, 250_000, 30, 4, 10_000, 10_000, True),
        ("narrow_fma", 10_000, 250_000, 30, 5, 10_000, 10_000, False),
        ("narrow_fma_f16", 10_000, 250_000, 30, 8, 10_000, 10_000, True),
        ("narrow_fma_f16", 10_000, 250_000, 30, 1, 10_000, 10_000, False),
        ("narrow_fma_f16_single", 10_000, 250_000, 30, 1, 10_000, 10_000, True),
    ],
)
def test_a_format_must_not_take_too_much_memory(name, m, nnz, longest, n, blocks, k, taken):
    head = of_study(GENERAL, KERNELS)[name]
    assert takes(head, product(n, m, nnz, longest, blocks, k)) == taken


@pytest.mark.parametrize(("m", "k", "n", "nnz"), [(0, 8, 8, 0), (8, 0, 8, 0), (8, 8, 0, 9), (8, 8, 8, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_without_work_is_not_surveyed(dtype, m, k, n, nnz):
    of = Product(m, n, nnz, MULTIPROCESSORS, pytest.fail, k)
    assert choose(general(dtype), dtype, of).dtype["a"] == dtype


def test_a_kernel_without_a_cost_multiplies_if_there_is_no_other():
    head = replace(general("float32")["rows_fma"], name="mine")
    of = product(64, 10_000, 300_000, 60, 10_000)
    assert choose({"mine": head}, "float32", of) is head
    assert choose({"mine": head, **general("float32")}, "float32", of) is not head


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float64"])
def test_slabs_of_the_usual_format_decide_without_costs(dtype):
    assert for_width(general(dtype), 128).format == module.USUAL


def test_a_width_of_whole_slabs_is_one_for_every_general_kernel():
    """Kernels write whole slabs: beside a narrower view they would write what is not theirs."""
    for dtype in DTYPES:
        for name, head in general(dtype).items():
            assert WHOLE_SLABS % head.tile.get("slab", 1) == 0, name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_read_any_element_with_few_columns_alone(dtype):
    able = general(dtype)
    few = next(head for head in able.values() if head.name.startswith(module.FEW) and head.tile["slab"] > 1)
    for n in (1, 7, 8, 9, 63):
        of = product(n, 10_000, 160_000, 40, 12_000)
        head = without_copy(able, dtype, of, few, 1)
        assert (head is not None and head.name.startswith((module.FEW, module.DEALT))) == (n <= 8)


@pytest.mark.parametrize(
    ("dtype", "nnz", "n", "aligned", "copied"),
    [
        ("float32", 100_000, 41, "split_fma", False),
        ("float32", 1_000_000, 41, "split_fma", True),
        ("float32", 100_000, 131, "window_fma", False),
        ("tf32", 100_000, 131, "window_tf32", False),
        ("tf32", 300_000, 131, "window_tf32", True),
        ("float64", 100_000, 63, "split_fma_f64", False),
        ("float16", 1_000, 63, "split_f16", True),
    ],
)
def test_unaligned_rows_are_copied_where_that_pays(dtype, nnz, n, aligned, copied):
    able, of = general(dtype), product(n, 10_000, nnz, 30, 10_000)
    head = without_copy(able, dtype, of, able[aligned], 10_000 * n)
    assert (head is None) == copied
    if head:
        assert head.takes_unaligned
        assert without_copy({head.name: head}, dtype, of, head, 10_000 * n) is head


@pytest.mark.parametrize(
    ("name", "padded", "columns"),
    [
        ("split_f16_medium", 48, 48),
        ("split_f16_medium", 72, 72),  # whole lines would be 128 columns
        ("split_f16_medium", 104, 128),
        ("panel_f16_medium", 128, 128),
        ("panel_f16_medium", 304, 320),
        ("rows_fma", 28, 28),
        ("rows_fma", 44, 44),
        ("rows_fma", 60, 64),
        ("cublaslt_gemm_f16", 104, 104),
    ],
)
def test_a_copy_of_b_has_rows_of_whole_lines_if_they_are_little_longer(kernels, name, padded, columns):
    of = product(padded, 10_000, 160_000, 40, 12_000)
    assert columns_of_copy(kernels[name], of, padded) == columns


def test_a_is_surveyed_once():
    def survey():
        surveys.append(1)
        return Survey(1_000, 30)

    surveys = []
    of = Product(10_000, 128, 20_000, MULTIPROCESSORS, survey, 10_000)
    for _ in range(2):
        choose(general("float32"), "float32", of)
    assert len(surveys) == 1, "A was surveyed more than once"


def test_what_the_survey_raises_is_passed_on():
    def survey():
        raise FormatError("too large")

    with pytest.raises(FormatError, match="too large"):
        choose(general("float32"), "float32", Product(10_000, 128, 20_000, MULTIPROCESSORS, survey, 10_000))
