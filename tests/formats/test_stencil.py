"""A stencil's grid is recognised from the structure alone, and no other matrix passes for a stencil."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline import contracts, matrices
from spmm_roofline.formats import FORMATS, FormatError, pack
from spmm_roofline.formats.values import rounded, widened
from spmm_roofline.matrices.generated import GENERATORS
from spmm_roofline.matrices.grids import GridOperator
from spmm_roofline.matrices.stencils import STENCILS, drawn_coefficients

StencilGrid = FORMATS["stencil"]


def matrix(points, nx, ny, nz=1):
    entries = GENERATORS["stencil"].make(np.random.default_rng(), points=points, nx=nx, ny=ny, nz=nz)
    a = csr_array((entries.values, (entries.rows, entries.columns)), shape=entries.shape)
    a.sort_indices()
    return a


def same(a, b):
    return a.shape == b.shape and all(
        np.array_equal(getattr(a, x), getattr(b, x)) for x in ("indptr", "indices", "data")
    )


@st.composite
def grids(draw):
    points = draw(st.sampled_from(list(STENCILS)))
    extent = st.integers(1, 11)
    return points, draw(extent), draw(extent), draw(extent) if STENCILS[points].dimensions == 3 else 1


@settings(max_examples=150)
@given(grid=grids(), dtype=st.sampled_from(["float64", "float32", "float16", "bfloat16", "tf32"]))
def test_round_trip_on_every_grid(grid, dtype):
    points, nx, ny, nz = grid
    a = matrix(*grid)
    expected = a.copy()
    expected.data = widened(rounded(a.data, dtype), dtype)
    for asked in (points, None):
        packed = StencilGrid.from_csr(a, dtype, points=asked)
        assert same(packed.to_csr(), expected)
        assert (
            packed.nx * packed.ny * packed.nz
            == a.shape[0]
            == packed.counts()["layers"] * packed.counts()["layer_rows"] * packed.nx
        )
        assert packed.points == asked or asked is None
    if min(nx, ny) > 7 and (nz > 1 or points.startswith("2")):
        assert (packed.points, packed.nx, packed.ny, packed.nz) == grid


@settings(max_examples=50)
@given(grid=grids())
def test_random_values_are_a_stencil_again(grid):
    a = matrix(*grid)
    a.data = StencilGrid.random_values(a, np.random.default_rng())
    assert (np.abs(a.data) >= 0.5).all() and (np.abs(a.data) < 1.5).all()
    assert same(StencilGrid.from_csr(a, points=grid[0]).to_csr(), a)


def test_the_coefficients_of_a_box_are_in_the_order_of_its_offsets():
    a = matrix("2d9pt", 5, 4)
    packed = StencilGrid.from_csr(a)
    assert packed.data.tolist() == a.data[a.indptr[6] : a.indptr[7]].tolist()
    star = StencilGrid.from_csr(matrix("3d7pt", 5, 4, 3)).data.reshape(3, 3, 3)
    assert [tuple(each - 1) for each in np.argwhere(star)] == STENCILS["3d7pt"].offsets


def test_statistics_of_a_stencil():
    packed = StencilGrid.from_csr(matrix("2d13pt", 30, 20))
    assert packed.stats()["format_bytes"] == 49 * 8
    assert packed.stored_slots == 13 and packed.covered_slots == packed.nnz


@pytest.mark.parametrize("points", STENCILS)
def test_one_wrong_value_or_column_is_no_stencil(points):
    a = matrix(points, 9, 8, 7 if STENCILS[points].dimensions == 3 else 1)
    rng = np.random.default_rng()
    other = a.copy()
    other.data[rng.integers(a.nnz)] += 1e-9
    missing = a.copy()
    missing.data[rng.integers(a.nnz)] = 0
    missing.eliminate_zeros()
    moved = a.tolil()
    moved[12, 13], moved[12, 60] = 0, a[12, 13]
    moved = csr_array(moved.tocsr())
    for wrong in (other, missing, moved):
        for asked in (points, None):
            with pytest.raises(FormatError, match="with one coefficient per offset on any grid of"):
                StencilGrid.from_csr(wrong, points=asked)


def test_another_stencil_is_refused_by_name():
    with pytest.raises(
        FormatError, match="the matrix is not 2d9pt with one coefficient per offset on any grid of 72 points"
    ):
        StencilGrid.from_csr(matrix("2d5pt", 9, 8), points="2d9pt")
    with pytest.raises(FormatError, match="there is no stencil '2d7pt', only 2d5pt"):
        StencilGrid.from_csr(matrix("2d5pt", 9, 8), points="2d7pt")
    with pytest.raises(FormatError, match="gives a square matrix, and this one is 3 x 4"):
        StencilGrid.from_csr(csr_array((3, 4)))


@pytest.mark.parametrize(("points", "terms"), [("2d5pt", 2), ("2d9pt", 3), ("2d13pt", 2), ("2d49pt", 7)])
def test_outer_products_are_the_coefficients(points, terms):
    for _ in range(50):
        packed = StencilGrid.from_csr(matrix(points, 9, 8), low_rank=True)
        assert packed.data_left.shape == packed.data_right.shape and packed.counts()["terms"] == terms
        product = packed.data_left.T @ packed.data_right
        assert np.abs(product - packed.data.reshape(product.shape)).max() < 1e-14


def test_a_solid_stencil_is_no_sum_of_outer_products():
    with pytest.raises(FormatError, match="only the coefficients of a stencil in a plane are a matrix"):
        StencilGrid.from_csr(matrix("3d7pt", 5, 4, 3), low_rank=True)


@pytest.mark.parametrize("m", [0, 1, 5])
def test_no_non_zeros_are_a_stencil_of_zeros(m):
    packed = StencilGrid.from_csr(csr_array((m, m)))
    assert packed.to_csr().nnz == 0 and packed.to_csr().shape == (m, m)
    assert packed.stored_slots == 0 and packed.stats()["fill_fraction"] == 1.0


def test_a_generated_stencil_goes_through_the_stage(tmp_path):
    suite = {"name": "s", "matrices": {"generated": [{"generator": "stencil", "name": "a", "points": "2d49pt"}]}}
    (spec,) = matrices.expand(suite, {})
    files = str(tmp_path / "a.npz"), str(tmp_path / "a.json")
    matrices.build(spec, {}, *files)
    pack.describe("stencil", *files, tmp_path / "out.json")
    row = contracts.read_rows([tmp_path / "out.json"], "formats").iloc[0]
    assert row.status == "ok" and row.round_trip and row.format_bytes == 49 * 8


@pytest.mark.gpu
@pytest.mark.parametrize("points", STENCILS)
def test_both_array_modules_give_the_same(points):
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    a = matrix(points, 9, 8, 7 if STENCILS[points].dimensions == 3 else 1)
    a.data = StencilGrid.random_values(a, np.random.default_rng())
    on_device = csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), shape=a.shape)
    host, device = StencilGrid.from_csr(a), StencilGrid.from_csr(on_device)
    assert host.counts() == device.counts() and host.data.tobytes() == device.data.get().tobytes()
    assert same(device.to_csr().get(), a)
    fresh = StencilGrid.random_values(on_device, cupy.random.default_rng())
    on_device.data = fresh
    assert StencilGrid.from_csr(on_device).points == host.points


# --- grids without entries --------------------------------------------------------------------------------------------


def operator(points, nx, ny, nz=1):
    return GridOperator(points, nx, ny, nz, drawn_coefficients(np.random.default_rng(), len(STENCILS[points].offsets)))


@settings(max_examples=50)
@given(grid=grids(), dtype=st.sampled_from(["float64", "float32", "float16", "bfloat16", "tf32"]))
def test_a_description_packs_like_its_entries(grid, dtype):
    a = operator(*grid)
    packed = StencilGrid.from_grid(a, dtype, points=grid[0])
    listed = StencilGrid.from_csr(StencilGrid.from_grid(a).to_csr(), dtype, points=grid[0])
    assert packed.nnz == listed.nnz and packed.stored_slots == len(a.coefficients)
    pack.check_round_trip(a, packed)
    if min(grid[1:3]) > 7 and (grid[3] > 1 or grid[0].startswith("2")):
        assert packed.counts() == listed.counts() and packed.data.tobytes() == listed.data.tobytes()


def test_outer_products_of_a_description():
    packed = StencilGrid.from_grid(operator("2d49pt", 10240, 10240), low_rank=True)
    assert packed.counts()["terms"] == 7
    assert np.abs(packed.data_left.T @ packed.data_right - packed.data.reshape(7, 7)).max() < 1e-14


def test_another_description_does_not_come_back():
    a = operator("2d5pt", 8, 9)
    for other in (operator("2d5pt", 8, 9), replace(a, nx=9, ny=8), replace(a, coefficients=-a.coefficients)):
        with pytest.raises(AssertionError, match="format stencil: to_grid does not give back 2d5pt on a grid of"):
            pack.check_round_trip(other, StencilGrid.from_grid(a))


def test_another_description_is_refused_by_name():
    with pytest.raises(FormatError, match="the matrix is not 2d9pt but 2d5pt on a grid of 9 x 8 x 1 points"):
        StencilGrid.from_grid(operator("2d5pt", 9, 8), points="2d9pt")


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "stencil"])
def test_other_formats_do_not_hold_a_description(name, tmp_path):
    suite = {"name": "s", "matrices": {"grids": [{"points": "3d27pt", "nx": 1024, "ny": 1024, "nz": 1024}]}}
    (spec,) = matrices.expand(suite, {})
    files = str(tmp_path / "a.npz"), str(tmp_path / "a.json")
    matrices.build(spec, {}, *files)
    pack.describe(name, *files, tmp_path / "out.json")
    row = contracts.read_rows([tmp_path / "out.json"], "formats").iloc[0]
    assert row.status == "unsupported"
    assert row.message == (
        f"{name} is packed from entries, and 3d27pt on a grid of 1024 x 1024 x 1024 points is stored without them; "
        "the generator `stencil` makes grids with entries"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("points", STENCILS)
def test_a_description_packs_alike_on_a_device(points):
    import cupy

    a = operator(points, 9, 8, 7 if STENCILS[points].dimensions == 3 else 1)
    on_device = replace(a, coefficients=cupy.asarray(a.coefficients))
    options = {"low_rank": STENCILS[points].dimensions == 2}
    host, device = StencilGrid.from_grid(a, **options), StencilGrid.from_grid(on_device, **options)
    assert host.counts() == device.counts()
    for name, array in host.arrays().items():
        assert array.tobytes() == device.arrays()[name].get().tobytes()
    assert device.to_grid().equals(a)
