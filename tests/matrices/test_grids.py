"""A grid operator is the same matrix as the entries that the generator `stencil` makes, and knows it by counting."""

import json

import numpy as np
import pytest

from spmm_roofline import contracts, matrices
from spmm_roofline.formats import FORMATS
from spmm_roofline.matrices import grids
from spmm_roofline.matrices.canonical import MatrixError, canonical
from spmm_roofline.matrices.features import features
from spmm_roofline.matrices.generated import fetch
from spmm_roofline.matrices.grids import GridOperator
from spmm_roofline.matrices.stencils import STENCILS

#: Grids of one point, thin ones, rows of whole tiles of 32, and rows that are longer than what is counted.
EXTENTS = [(1, 1, 1), (2, 3, 4), (5, 4, 3), (7, 70, 2), (96, 1, 1), (32, 5, 3), (64, 2, 9), (160, 7, 1), (224, 3, 4)]


def specs(**matrix):
    return matrices.expand({"name": "s", "matrices": matrix}, {})


def both(points, nx, ny, nz, seed=0):
    """The grid operator and the canonical CSR of one stencil."""
    grid = {"points": points, "nx": nx, "ny": ny, "nz": nz, "seed": seed}
    (described,), (listed,) = specs(grids=[grid]), specs(generated=[{"generator": "stencil", **grid}])
    return grids.fetch(described, {})[0], canonical(fetch(listed, {})[0], "a").csr


def cases():
    return [(points, *extents) for points in STENCILS for extents in EXTENTS if extents[2] == 1 or points[0] == "3"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(map(str, case)))
def test_a_description_is_the_matrix_with_entries(case):
    operator, csr = both(*case, seed=3)
    packed = FORMATS["stencil"].from_grid(operator)
    back = packed.to_csr()
    assert operator.shape == csr.shape and operator.nnz == csr.nnz
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(back, name), getattr(csr, name))
    assert packed.to_grid().equals(operator)


@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(map(str, case)))
def test_features_are_those_of_the_entries(case):
    operator, csr = both(*case)
    known, counted = grids.features(operator), features(csr)
    assert set(counted) >= set(known)
    # Counts are exact; what is left open is left open for a reason.
    left_open = {name for name, value in known.items() if value is None}
    assert left_open == (set(grids.TILES) if operator.nx % 32 else set())
    for name in set(known) - left_open:
        if isinstance(counted[name], int):
            assert known[name] == counted[name], name
        else:
            assert known[name] == pytest.approx(counted[name], rel=1e-13), name


def test_the_grids_of_the_study_are_described_at_once():
    operator = GridOperator("3d27pt", 1024, 1024, 1024, np.ones(27))
    assert operator.nnz == (3 * 1024 - 2) ** 3 and operator.shape == (2**30, 2**30)
    row = grids.features(operator)
    assert (row["row_length_min"], row["row_length_median"], row["row_length_max"]) == (8, 27, 27)
    assert row["bandwidth"] == 1024**2 + 1024 + 1


@pytest.mark.parametrize("nx", [1024, 90])
def test_a_grid_goes_through_both_stages(tmp_path, nx):
    (spec,) = specs(grids=[{"points": "2d49pt", "nx": nx, "ny": 10_000}])
    assert spec["matrix"] == f"2d49pt-{nx}x10000"
    files = tmp_path / "a.npz", tmp_path / "a.json"
    matrices.build(spec, {}, *map(str, files), str(tmp_path / "a.log"))
    assert files[0].stat().st_size < 3000
    loaded = matrices.load(files[0])
    assert loaded.equals(grids.fetch(spec, {})[0])
    (row,) = contracts.read_rows([files[1]], "matrices").to_dict("records")
    assert row["matrix_sha256"] == loaded.sha256 and row["source"] == "grids" and row["kind"] == "grid"
    assert row["nnz"] == row["stored_entries"] == loaded.nnz
    assert (row["alpha_fraction"] == row["alpha_fraction"]) == (nx == 1024)
    assert row["origin"] == f"grid(points=2d49pt, nx={nx}, ny=10000, nz=1, seed=0)"
    first = files[0].read_bytes()
    matrices.build(spec, {}, *map(str, files))
    assert files[0].read_bytes() == first


def test_the_hash_is_that_of_the_structure():
    one, other = (both("2d5pt", 8, 9, 1, seed)[0] for seed in (0, 1))
    assert one.sha256 == other.sha256 and not one.equals(other)
    assert len({GridOperator("2d5pt", *extents, one.coefficients).sha256 for extents in [(8, 9, 1), (9, 8, 1)]}) == 2
    assert GridOperator("2d9pt", 8, 9, 1, np.ones(9)).sha256 != one.sha256


def test_a_damaged_description_is_damaged(tmp_path):
    (spec,) = specs(grids=[{"points": "2d5pt", "nx": 8, "ny": 8}])
    npz = tmp_path / "a.npz"
    matrices.build(spec, {}, str(npz), str(tmp_path / "a.json"))
    npz.write_bytes(npz.read_bytes()[:300])
    with pytest.raises(contracts.Damaged):
        matrices.load(npz)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"points": "2d25pt", "nx": 4, "ny": 4}, "there is no '2d25pt'; points is one of 2d5pt"),
        ({"points": "2d5pt", "nx": 4, "ny": 4, "nz": 4}, "2d5pt lies in a plane, so nz is 1, not 4"),
        ({"points": "2d5pt", "nx": 2**16, "ny": 2**16}, "more than 32-bit indices count"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_at_planning(grid, message):
    with pytest.raises(MatrixError, match=message):
        specs(grids=[grid])


def test_the_suite_document_takes_grids(tmp_path):
    suite = {"name": "x", "title": "x", "n": [1], "kernels": ["a"], "protocol": {"l2": "warm"}}
    grid = {"points": "2d5pt", "nx": 4, "ny": 4}
    contracts.validate(json.loads(json.dumps(suite | {"matrices": {"grids": [grid]}})), "suite")
    for wrong in ({"points": "2d5pt", "nx": 4}, grid | {"ny": 0}, grid | {"depth": 3}):
        with pytest.raises(contracts.ContractError):
            contracts.validate(suite | {"matrices": {"grids": [wrong]}}, "suite")
