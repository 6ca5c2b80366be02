"""What is drawn of the fill of tiles and of bricks."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from spmm_roofline.figures import bricks, rivals, stored_zeros
from spmm_roofline.matrices.features import features
from tests.figures.test_studies import drawn_and_said


def world(study, **dense):
    """Tables of a study whose kernel ran on these matrices."""
    known = [
        {"matrix": name, "source": "generated", "kind": "mesh", **features(csr_array(array))}
        for name, array in dense.items()
    ]
    cases = pd.DataFrame({"suite": "sample", "study": study, "kernel": "tiles", "matrix": list(dense)})
    return {"cases": cases, "matrices": pd.DataFrame(known)}


def test_zeros_are_drawn_over_the_size_of_the_tile():
    lone, full = np.zeros((128, 128)), np.ones((128, 128))
    lone[0, 0] = 1
    tables = world("sptc", lone=lone, full=full)
    tables["matrices"]["kind"] = ["mesh", "synthetic"]
    shown, _ = drawn_and_said(stored_zeros, tables)
    for word in ("32", "128", "mixtures of tiles", "other matrices", "stored values that are not zero (%)"):
        assert word in shown, f"{word} is not in the figure"
    drawn = stored_zeros._shown(tables).set_index(["matrix", "side"])
    assert drawn.loc["lone", "tiles"].tolist() == [1, 1 / 4, 1 / 16, 1 / 64]
    assert drawn.loc["lone", "values"].tolist() == [4.0**-exponent for exponent in (4, 5, 6, 7)]
    assert (drawn.loc["full"][["tiles", "values"]] == 1).all(axis=None)


def test_matrices_of_other_suites_are_not_drawn():
    tables = world("sptc", own=np.eye(64), other=np.eye(64))
    tables["cases"]["suite"] = ["thesis", "sample"]
    others = pd.DataFrame([{"suite": "sample", "study": "cutespmm", "kernel": "bricks", "matrix": "other"}])
    tables["cases"] = pd.concat([tables["cases"], others], ignore_index=True)
    assert set(stored_zeros._shown(tables)["matrix"]) == {"own"}


def test_bricks_of_the_emptiest_the_median_and_the_fullest_matrix_are_drawn(monkeypatch):
    monkeypatch.setattr(rivals, "LEAST_MATRICES", 3)
    filled = {f"every-{step}": np.zeros((64, 64)) for step in (1, 2, 4, 8, 16)}
    for step, array in zip((1, 2, 4, 8, 16), filled.values(), strict=True):
        array[::step] = 1
    tables = world("cutespmm", **filled)
    shown, said = drawn_and_said(bricks, tables)
    for word in ("every-16, mean 6.2 %", "every-4, mean 25 %", "every-1, mean 100 %", "33–64", "high", "low"):
        assert word in shown, f"{word} is not in the figure"
    assert "every-2," not in shown and "every-8," not in shown
    assert "5 generated matrices" in said
    counted = bricks._histogram(bricks._shown(tables)).query("bricks > 0").set_index("matrix")["occupied"]
    assert counted.to_dict() == {"every-16": "3–4", "every-4": "9–16", "every-1": "33–64"}
    few = tables | {"cases": tables["cases"].head(2)}
    assert bricks.draw(few, {}) is None, "two matrices are no population"
