"""Every kernel of a stencil on a device: right on grids of any size, and a plain refusal of other stencils."""

import pytest

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.kernels import heads
from spmm_roofline.matrices import expand
from spmm_roofline.matrices.canonical import canonical
from spmm_roofline.matrices.generated import fetch
from spmm_roofline.matrices.stencils import STENCILS

pytestmark = pytest.mark.gpu

KERNELS = [name for name, head in heads().items() if head.format == "stencil"]
#: A point, lines along each axis, odd sizes, sizes below and beyond a tile.
PLANES = [(1, 1), (1, 77), (77, 1), (2, 3), (33, 5), (7, 70), (64, 64), (130, 35), (513, 201)]
SOLIDS = [(1, 1, 1), (1, 7, 50), (50, 1, 1), (1, 1, 90), (3, 2, 2), (33, 9, 5), (40, 20, 33), (131, 67, 70)]


def grid(points, nx, ny, nz=1):
    entry = {"generator": "stencil", "points": points, "nx": nx, "ny": ny, "nz": nz}
    (spec,) = expand({"name": "s", "matrices": {"generated": [entry]}}, {})
    return canonical(fetch(spec, {})[0], spec["matrix"]).csr


def multiply(head, a, n, spoil=False):
    """Pack, launch, verify; ``spoil`` changes one coefficient slightly, which verification must notice."""
    import cupy

    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.kernels.cubins import machine_code
    from spmm_roofline.kernels.launch import check_case, prepare
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.measure.verify import verify

    rng = cupy.random.default_rng()
    structure = Csr(
        a.shape, a.nnz, "float64", cupy.asarray(a.indptr, "int32"), cupy.asarray(a.indices, "int32"), cupy.empty(0)
    )
    values = FORMATS["stencil"].random_values(structure, rng)
    exact = Csr(a.shape, a.nnz, "float64", structure.indptr, structure.indices, values)
    packed = FORMATS["stencil"].from_csr(exact, **head.format_options)
    check_case(head, *a.shape[:1], n, a.shape[1])
    if spoil:
        for array in packed.arrays().values():
            array.ravel()[cupy.abs(array).argmax()] *= 1 + 1e-9
    b, c = allocate(head, "b", a.shape[1], n), allocate(head, "c", a.shape[0], n)
    b.fill(rng.random((a.shape[1], n)) * 2 - 1)
    call = prepare(head, machine_code(head), packed, b, c)
    c.poison()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    call(stream)
    stream.synchronize()
    return verify(exact, b, c, head.dtype_of_sums, head.steps)


@pytest.mark.parametrize("name", KERNELS)
def test_right_on_every_grid(name):
    head = heads()[name]
    points = head.format_options["points"]
    for extents in SOLIDS if STENCILS[points].dimensions == 3 else PLANES:
        for n in (1, 3):
            verdict = multiply(head, grid(points, *extents), n)
            assert not verdict.wrong, f"{name} on {extents}, n {n}: {verdict.wrong}"


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_coefficient_is_noticed(name):
    head = heads()[name]
    points = head.format_options["points"]
    a = grid(points, 20, 20, 20 if STENCILS[points].dimensions == 3 else 1)
    assert "above" in multiply(head, a, 1, spoil=True).wrong


@pytest.mark.parametrize("name", KERNELS)
def test_another_stencil_is_refused(name):
    head = heads()[name]
    # On a grid of a single layer 3d7pt equals 2d5pt; 2d13pt equals no other stencil.
    other = "2d5pt" if head.format_options["points"] == "2d13pt" else "2d13pt"
    with pytest.raises(FormatError, match="the matrix is not"):
        multiply(head, grid(other, 20, 20), 1)
