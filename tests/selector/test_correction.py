"""The Gaussian process: exact where it was measured, silent far away, and honest about what was held out."""

import numpy as np
import pytest

from spmm_roofline.selector import correction as module
from spmm_roofline.selector.correction import Correction, Covariances, HeldOut, coordinates
from tests.selector.test_terms import DENSE, RATES

RANDOM = np.random.default_rng(7)
AT = RANDOM.normal(size=(40, 12))
RESIDUALS = RANDOM.normal(scale=0.3, size=40)


def test_measured_cases_are_nearly_reproduced():
    mean, spread = Correction(AT, RESIDUALS).at(AT)
    assert mean == pytest.approx(RESIDUALS, abs=0.05)
    assert (spread < 0.08).all()


def test_far_away_only_the_common_error_is_left():
    mean, spread = Correction(AT, RESIDUALS).at(AT[:1] + 1000)
    assert abs(mean[0]) < abs(RESIDUALS).max()
    assert spread[0] > 0.3
    near = Correction(AT[:1], np.array([0.3])).at(AT[:1] + 1000)[0][0]
    assert near == pytest.approx(0.3 * 0.02 / (0.02 + 0.1 + 0.002), rel=1e-6)


def test_uncertainty_grows_with_the_distance():
    _, spread = Correction(AT[:1], RESIDUALS[:1]).at(AT[:1] + np.arange(5)[:, None])
    assert (np.diff(spread) > 0).all()


def test_what_is_held_out_is_predicted_as_by_a_training_without_it():
    group = np.arange(40) % 4 == 0
    mean, spread = HeldOut(AT).without(group, RESIDUALS)
    expected = Correction(AT[~group], RESIDUALS[~group]).at(AT[group])
    assert mean == pytest.approx(expected[0], abs=1e-9)
    assert spread == pytest.approx(expected[1], abs=1e-9)


def test_the_residuals_of_the_held_out_group_do_not_matter():
    group = np.arange(40) < 5
    mean, _ = HeldOut(AT).without(group, RESIDUALS)
    assert HeldOut(AT).without(group, RESIDUALS + 3.0 * group)[0] == pytest.approx(mean)


def test_coordinates_are_finite_for_an_empty_matrix():
    empty = DENSE | dict.fromkeys(("nnz", "nonempty_columns", "row_length_mean", "row_length_max"), 0)
    found = coordinates(empty | {"alpha_fraction": 0.0, "tile_fill_16x16_fraction": 0.0}, RATES)
    assert found.shape == (1, 12) and np.isfinite(found).all()


def test_covariances_that_kernels_share_give_the_corrections_of_each_alone():
    shared = Covariances()
    for correction in (Correction(AT, RESIDUALS), Correction(AT, -RESIDUALS), Correction(AT[:9], RESIDUALS[:9])):
        for at in (AT[:5] + 0.1, AT[5:9]):
            assert (shared.mean(correction, at) == correction.at(at)[0]).all()


def test_kernels_with_the_same_cases_share_one_factor(monkeypatch):
    measured, factored, shared = module._measured, [], Covariances()
    monkeypatch.setattr(module, "_measured", lambda at: factored.append(1) or measured(at))
    for residuals in (RESIDUALS, -RESIDUALS):
        mean, spread = Correction(AT, residuals, shared).at(AT[:5])
        alone = Correction(AT, residuals).at(AT[:5])
        assert (mean == alone[0]).all() and (spread == alone[1]).all()
    assert len(factored) == 3  # one for both that share, one for each that does not
