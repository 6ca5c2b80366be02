"""Every generator: shape, non-zeros, determinism, and the property that it exists for."""

import inspect

import numpy as np
import pytest

from spmm_roofline.matrices import expand
from spmm_roofline.matrices.canonical import MatrixError, canonical
from spmm_roofline.matrices.features import features
from spmm_roofline.matrices.generated import GENERATORS, fetch
from spmm_roofline.matrices.stencils import STENCILS

SMALL = {
    "tiles": {"size": 256, "dense": 2, "sparse24": 3},
    "pruned": {"rows": 64, "columns": 48, "sparsity": 0.8},
    "wilson_dirac": {"extent": 3},
    "fem3d": {"nodes": 4, "dofs": 2},
    "mesh2d": {"nodes": 9, "shuffled": True},
    "banded": {"rows": 50, "half_width": 3},
    "identity": {"size": 40},
    "pruned24": {"rows": 20, "columns": 48},
    "stencil": {"points": "3d27pt", "nx": 5, "ny": 4, "nz": 3},
    "rmat": {"scale": 8, "edge_factor": 4},
    "uniform": {"rows": 60, "columns": 90, "nnz_per_row": 2.5},
    "powerlaw": {"rows": 70, "columns": 50, "nnz_per_row": 3.0, "dense_rows": 1, "dense_columns": 2},
}


def specs(*entries):
    return expand({"name": "test", "matrices": {"generated": list(entries)}}, {})


def make(generator, **parameters):
    (spec,) = specs({"generator": generator, **parameters})
    return canonical(fetch(spec, {})[0], spec["matrix"])


def test_every_generator_has_an_example_here_and_a_paper():
    assert set(SMALL) == set(GENERATORS)
    for name, generator in GENERATORS.items():
        text = inspect.getdoc(generator.make)
        assert any(f"{year}" in text for year in range(1950, 2030)), f"the docstring of {name} names no paper and year"


@pytest.mark.parametrize("name", SMALL)
def test_one_call_gives_one_matrix(name):
    first, second = make(name, **SMALL[name]), make(name, **SMALL[name])
    assert first.sha256 == second.sha256
    assert np.array_equal(first.csr.data, second.csr.data)
    assert first.csr.nnz > 0
    assert np.isfinite(first.csr.data).all()
    assert np.abs(first.csr.data).max() < 100
    if name not in ("wilson_dirac", "fem3d", "banded", "identity", "stencil"):  # their structure is not random
        assert make(name, **SMALL[name], seed=1).sha256 != first.sha256


# Hashes of the structure: a generator that changes, or differs between platforms, is noticed.
@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("tiles", "1233e598f05f464a"),
        ("pruned", "4d1074fa25a01dba"),
        ("wilson_dirac", "b0b220b4ea023766"),
        ("fem3d", "b040850ebff945db"),
        ("mesh2d", "7f6df60554841e45"),
        ("banded", "2a298fb1e60c57a0"),
        ("identity", "a14064a96aa07e74"),
        ("pruned24", "a3ba73d53a1ff941"),
        ("stencil", "9767c01c3543e23c"),
        ("rmat", "01bed1b3d0251ace"),
        ("uniform", "0eb4470083491116"),
        ("powerlaw", "d8a5206aae01c513"),
    ],
)
def test_structure_is_the_same_everywhere(name, sha256):
    assert make(name, **SMALL[name]).sha256[:16] == sha256


@pytest.mark.parametrize(("dense", "sparse24"), [(2, 3), (0, 8), (8, 0), (0, 0)])
def test_tiles_are_dense_2to4_or_zero(dense, sparse24):
    csr = make("tiles", size=256, dense=dense, sparse24=sparse24).csr
    tiles = (csr.toarray() != 0).reshape(16, 16, 8, 32).transpose(0, 2, 1, 3)
    for block_row in tiles:
        filled = block_row.sum(axis=(1, 2))
        groups = block_row.reshape(8, 16, 8, 4).sum(axis=3)
        assert (filled == 16 * 32).sum() == dense
        assert (groups == 2).all(axis=(1, 2)).sum() == sparse24
        assert (filled == 0).sum() == 8 - dense - sparse24
    if dense + sparse24:
        assert features(csr)["tile_24_16x32_fraction"] == pytest.approx(sparse24 / (dense + sparse24))
    else:
        assert csr.nnz == 0


@pytest.mark.parametrize(("size", "dense", "sparse24"), [(256, 10, 5), (512, 1, 1), (256, 0, 100), (256, 60, 40)])
def test_percentages_count_all_tiles(size, dense, sparse24):
    """The thesis' reading: of 16 · 8 tiles, 10 % dense are 13 and 5 % 2:4 are 6, wherever they lie."""
    csr = make("tiles", size=size, dense=dense, sparse24=sparse24, percent=True).csr
    tiles = (csr.toarray() != 0).reshape(size // 16, 16, size // 32, 32).transpose(0, 2, 1, 3)
    filled, groups = tiles.sum(axis=(2, 3)), tiles.reshape(size // 16, size // 32, 16, 8, 4).sum(axis=4)
    total = size // 16 * size // 32
    assert (filled == 512).sum() == round(total * dense / 100)
    assert (groups == 2).all(axis=(2, 3)).sum() == round(total * sparse24 / 100)
    assert (filled == 0).sum() == total - round(total * dense / 100) - round(total * sparse24 / 100)
    if dense + sparse24 < 50:
        assert len(set((filled > 0).sum(axis=1).tolist())) > 1, "block rows have different numbers of tiles"


def test_tiles_lie_elsewhere_in_each_block_row():
    csr = make("tiles", size=1024, dense=2, sparse24=2).csr
    columns = {tuple(np.unique(csr.indices[csr.indptr[r] : csr.indptr[r + 1]] // 32)) for r in range(0, 1024, 16)}
    assert len(columns) > 30


def test_wilson_dirac_has_the_structure_of_conf5_4_8x8():
    csr = make("wilson_dirac", extent=8).csr
    assert csr.shape == (49_152, 49_152)
    assert csr.nnz == 1_916_928
    assert (np.diff(csr.indptr) == 39).all()
    # Hops in space go both ways between the same spins; ahead in time goes one pair of spins, back the other.
    assert ((csr != 0) != (csr != 0).T).nnz == 2 * 3 * 49_152
    assert csr.diagonal().max() == 0
    assert np.abs(csr.data).max() <= 2


@pytest.mark.parametrize(("extent", "per_row"), [(3, 39), (4, 39)])
def test_wilson_dirac_on_small_lattices(extent, per_row):
    csr = make("wilson_dirac", extent=extent).csr
    assert csr.shape[0] == 12 * extent**4
    assert (np.diff(csr.indptr) == per_row).all()


@pytest.mark.parametrize(("points", "dofs"), [(7, 1), (27, 3)])
def test_fem3d_is_a_symmetric_block_stencil(points, dofs):
    csr = make("fem3d", nodes=5, dofs=dofs, points=points).csr
    assert csr.shape == (125 * dofs, 125 * dofs)
    lengths = np.diff(csr.indptr)
    assert lengths.max() == points * dofs
    assert lengths.min() == (8 if points == 27 else 4) * dofs
    edges = (3 * 5 - 2) ** 3 if points == 27 else 125 + 6 * 4 * 25
    assert csr.nnz == edges * dofs**2
    assert ((csr != 0) != (csr != 0).T).nnz == 0


def test_mesh2d_is_a_triangulation_and_shuffling_only_renames():
    csr, shuffled = (make("mesh2d", nodes=20, shuffled=each).csr for each in (False, True))
    for mesh in (csr, shuffled):
        assert mesh.nnz == 2 * (2 * 19 * 20 + 19 * 19)
        assert mesh.diagonal().max() == 0
        assert ((mesh != 0) != (mesh != 0).T).nnz == 0
    assert np.array_equal(np.sort(np.diff(csr.indptr)), np.sort(np.diff(shuffled.indptr)))
    assert features(csr)["bandwidth"] == 21
    assert features(shuffled)["bandwidth"] > 200


def test_banded_fills_its_diagonals():
    dense = make("banded", rows=40, half_width=2).csr.toarray()
    row, column = np.indices(dense.shape)
    assert np.array_equal(dense != 0, np.abs(row - column) <= 2)


def test_identity_is_one_on_its_diagonal():
    assert np.array_equal(make("identity", size=30).csr.toarray(), np.eye(30))


def test_rmat_is_skewed_as_its_probabilities_say():
    csr = make("rmat", scale=12, edge_factor=16).csr
    assert csr.shape == (4096, 4096)
    assert 0.8 * 16 * 4096 * 0.5 < csr.nnz <= 16 * 4096
    assert np.diff(csr.indptr).max() > 20 * csr.nnz / 4096
    upper_left = csr[:2048, :2048].nnz / csr.nnz
    assert 0.45 < upper_left < 0.6
    even = make("rmat", scale=12, edge_factor=16, a=0.25, b=0.25, c=0.25).csr
    assert abs(even[:2048, :2048].nnz / even.nnz - 0.25) < 0.01
    corner = make("rmat", scale=6, edge_factor=4, a=0, b=1.0, c=0).csr
    assert (corner.nnz, corner.indices[0]) == (1, 63)
    assert corner.indptr[1] == 1


def test_uniform_draws_distinct_entries():
    csr = make("uniform", rows=100, columns=300, nnz_per_row=7.5).csr
    assert csr.shape == (100, 300)
    assert csr.nnz == 750
    assert make("uniform", rows=10, columns=10, nnz_per_row=10).csr.nnz == 100


def test_powerlaw_has_long_rows_as_its_exponent_says_and_full_ones():
    csr = make("powerlaw", rows=20_000, columns=30_000, nnz_per_row=10.0, exponent=2.5).csr
    lengths = np.sort(np.diff(csr.indptr))[::-1]
    assert csr.shape == (20_000, 30_000) and abs(csr.nnz / 200_000 - 1) < 0.05
    # Newman 2005: the length of rank r falls as r^(-1/1.5).
    slope = np.polyfit(np.log(np.arange(20, 2000)), np.log(lengths[19:1999]), 1)[0]
    assert slope == pytest.approx(-1 / 1.5, abs=0.03)
    assert np.abs(np.corrcoef(np.arange(20_000), np.diff(csr.indptr))[0, 1]) < 0.05
    full = make("powerlaw", rows=300, columns=200, nnz_per_row=2.0, dense_rows=2, dense_columns=3).csr
    lengths, uses = np.diff(full.indptr), np.bincount(full.indices, minlength=200)
    assert (
        (lengths[:2] == 200).all() and (uses[:3] == 300).all() and (lengths[2:] < 200).all() and (uses[3:] < 300).all()
    )


@pytest.mark.parametrize("sparsity", [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])
def test_pruned_keeps_the_share_and_varies_by_row(sparsity):
    csr = make("pruned", rows=512, columns=256, sparsity=sparsity).csr
    assert csr.shape == (512, 256)
    assert csr.nnz == round(512 * 256 * (1 - sparsity))
    lengths = np.diff(csr.indptr)
    assert lengths.std() > 2 * np.sqrt(256 * sparsity * (1 - sparsity))  # a fair coin's would be half of that
    assert (csr.data > 0).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"generator": "wilson"}, "no generator is called 'wilson'; did you mean 'wilson_dirac'"),
        ({"generator": "banded", "half_widht": 3}, "banded has no parameter 'half_widht'; did you mean 'half_width'"),
        ({"generator": "banded", "rows": "many"}, "banded: rows is 'many', but a value like 65536 is needed"),
        ({"generator": "banded", "rows": 1.5}, "banded: rows is 1.5"),
        ({"generator": "banded", "rows": True}, "banded: rows is True"),
        ({"generator": "mesh2d", "shuffled": 1}, "mesh2d: shuffled is 1"),
        ({"generator": "banded", "name": "../escape"}, "'../escape' is no name for a file"),
    ],
)
def test_wrong_entries_are_refused_while_planning(entry, message):
    with pytest.raises(MatrixError, match=message):
        specs(entry)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tiles", {"size": 100}, "size is 100, but must be a positive multiple of 32"),
        ("tiles", {"size": 64, "dense": 2, "sparse24": 1}, "2 dense and 1 2:4 tiles do not fit the 2 tiles"),
        ("pruned", {"sparsity": 1.0}, r"sparsity is 1.0, but must lie in \[0, 1\)"),
        ("pruned", {"rows": 0}, "the layer is 0 x 512"),
        ("wilson_dirac", {"extent": 2}, "extent is 2"),
        ("fem3d", {"points": 9}, "points is 9"),
        ("fem3d", {"nodes": 0}, "0 nodes an edge"),
        ("mesh2d", {"nodes": 1}, "nodes is 1"),
        ("banded", {"half_width": -1}, "half width -1"),
        ("identity", {"size": 0}, "size is 0"),
        ("rmat", {"a": 0.9}, "no probabilities that sum to 1"),
        ("rmat", {"scale": 0}, "scale 0"),
        ("uniform", {"rows": 3, "columns": 3, "nnz_per_row": 4}, "12 non-zeros do not fit a matrix of 3 x 3"),
        ("powerlaw", {"exponent": 1.0}, "the exponent 1.0 make no matrix"),
        ("powerlaw", {"rows": 3, "dense_rows": 4}, "4 full rows and 0 full columns do not fit a matrix of 3 x 16384"),
    ],
)
def test_values_out_of_range_are_refused(name, parameters, message):
    with pytest.raises(MatrixError, match=message):
        make(name, **parameters)


@pytest.mark.parametrize("points", STENCILS)
def test_a_stencil_is_a_sum_of_shifted_grids(points):
    nx, ny, nz = (9, 8, 7) if STENCILS[points].dimensions == 3 else (9, 8, 1)
    csr = make("stencil", points=points, nx=nx, ny=ny, nz=nz).csr
    offsets = STENCILS[points].offsets
    assert len(offsets) == int(points[2:-2]) == np.diff(csr.indptr).max()
    # The point in the middle has all neighbours.
    middle = ((nz // 2) * ny + ny // 2) * nx + nx // 2
    coefficients = csr.data[csr.indptr[middle] : csr.indptr[middle + 1]]
    grid = np.random.default_rng().random((nz, ny, nx))
    padded = np.pad(grid, 3)
    expected = sum(
        weight * padded[3 + dz : 3 + dz + nz, 3 + dy : 3 + dy + ny, 3 + dx : 3 + dx + nx]
        for weight, (dz, dy, dx) in zip(coefficients, offsets, strict=True)
    )
    assert np.allclose(csr @ grid.ravel(), expected.ravel(), rtol=1e-13)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"points": "2d25pt"}, "there is no '2d25pt'; points is one of 2d5pt, 2d9pt"),
        ({"nx": 0}, "a grid of 0 x 64 x 1 has no points"),
        ({"nz": 2}, "2d5pt lies in a plane, so nz is 1, not 2"),
        ({"nx": 2**16, "ny": 2**16}, "more than 32-bit indices count"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(parameters, message):
    with pytest.raises(MatrixError, match=message):
        make("stencil", **parameters)
