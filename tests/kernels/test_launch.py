"""Every kernel on a device: right on every shape that its head admits, and a plain refusal of the others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from spmm_roofline.kernels import heads
from tests.formats.fitting import fitting

pytestmark = pytest.mark.gpu

#: Kernels of any matrix; those of a stencil, and those in FP8, have tests of their own.
KERNELS = [
    name
    for name, head in heads().items()
    if head.format not in ("none", "stencil") and head.dtype["a"] != "float8_e4m3"
]
SHAPES = [(1, 1), (16, 16), (33, 47), (200, 40), (40, 200), (257, 129), (1000, 1000)]


def of_dtype(dtype):
    """Kernels whose operands and sums are all of one dtype."""
    return [name for name in KERNELS if set(heads()[name].dtype.values()) == {dtype}]


def structure(m, k, density, rng):
    a = csr_array(random_array((m, k), density=density, rng=rng, format="csr"))
    a.sort_indices()
    if m > 4:
        # an empty row, a full row
        lil = a.tolil()
        lil[1, :] = 0
        lil[3, :] = 1
        a = csr_array(lil.tocsr())
        a.eliminate_zeros()
        a.sort_indices()
    return a


def tiles_of_every_class(m, k, rng):
    """Zero, 2:4 and full 16×32 tiles in any order, the 2:4 ones with up to two entries anywhere in a group."""
    dense = np.zeros((-(-m // 16), 16, -(-k // 32), 32))
    for i, j in np.ndindex(dense.shape[0], dense.shape[2]):
        kind = rng.integers(4)
        if kind == 1:
            dense[i, :, j] = 1
        if kind > 1:
            order = rng.random((16, 8, 4)).argsort(axis=-1)
            dense[i, :, j] = (order < rng.integers(kind, size=(16, 8, 1)) + (kind == 2)).reshape(16, 32)
    a = csr_array(dense.reshape(dense.shape[0] * 16, -1)[:m, :k])
    a.sort_indices()
    return a


def multiply(head, a, n, drop=None):
    """Pack, launch, verify; ``drop`` zeroes one stored value of the packed matrix to see that it is noticed."""
    import cupy

    from spmm_roofline.formats import FORMATS
    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.formats.values import rounded, widened
    from spmm_roofline.kernels.arch import obstacle
    from spmm_roofline.kernels.cubins import device_target, machine_code
    from spmm_roofline.kernels.launch import check_case, prepare
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.kernels.packers import pack, packer_of
    from spmm_roofline.measure.verify import verify

    if why := "" if head.vendor else obstacle(device_target(), head.min_arch, head.features):
        pytest.skip(f"{head.name} {why}")
    rng = cupy.random.default_rng()
    dtype = head.dtype["a"]
    form, a = FORMATS[head.format], fitting(head.format, a)
    indptr, indices = cupy.asarray(a.indptr, "int32"), cupy.asarray(a.indices, "int32")
    exact = Csr(a.shape, a.nnz, "float64", indptr, indices, cupy.empty(0))
    exact = replace(exact, data=widened(rounded(form.random_values(exact, rng), dtype), dtype))
    packed = pack(form, exact, dtype, head.options(2), packer_of(form))
    check_case(head, *a.shape[:1], n, a.shape[1])
    if drop is not None:
        flat = packed.data.ravel()
        flat[cupy.flatnonzero(flat)[drop]] = 0
    b, c = allocate(head, "b", a.shape[1], n), allocate(head, "c", a.shape[0], n)
    b.fill(rng.random((a.shape[1], n)) * 2 - 1)
    call = prepare(head, None if head.vendor else machine_code(head), packed, b, c)
    c.poison()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    call(stream)
    stream.synchronize()
    return verify(exact, b, c, head.dtype_of_sums)


@pytest.mark.parametrize("name", KERNELS)
def test_right_on_every_shape(name):
    head = heads()[name]
    rng = np.random.default_rng()
    for m, k in SHAPES:
        for density in (0.0, 0.05, 0.6):
            for n in (8, 40, 128):
                verdict = multiply(head, structure(m, k, density, rng), n)
                assert not verdict.wrong, f"{name} {m}×{k} density {density} n {n}: {verdict.wrong}"


@pytest.mark.parametrize("name", KERNELS)
def test_right_on_tiles_of_every_class(name):
    head = heads()[name]
    rng = np.random.default_rng()
    for m, k in [(16, 32), (64, 64), (130, 500), (1000, 90)]:
        a = tiles_of_every_class(m, k, rng)
        for n in (8, 72):
            verdict = multiply(head, a, n)
            assert not verdict.wrong, f"{name} {m}×{k} n {n}: {verdict.wrong}"


@pytest.mark.parametrize("name", [*of_dtype("float32"), *of_dtype("float64")])
def test_right_on_long_rows(name):
    # Longer than a CTA's buffer in shared memory, than a segment and than a work partition.
    a = structure(9, 9001, 0.3, np.random.default_rng())
    verdict = multiply(heads()[name], a, 24)
    assert not verdict.wrong, f"{name}: {verdict.wrong}"


@pytest.mark.parametrize("name", of_dtype("float64"))
def test_right_on_a_huge_row_among_short_and_empty_ones(name):
    # A row split over many CTAs, more consecutive empty rows than a work partition holds, and lengths of every class.
    rng = np.random.default_rng()
    lengths = np.concatenate([rng.integers(0, 6, 3000), [60_000, 300, 256, 255], np.zeros(9000, int)])
    lengths = np.concatenate([lengths, rng.integers(0, 90, 2000), [5000]])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.sort(rng.choice(70_000, length, replace=False)) for length in lengths])
    a = csr_array((np.ones(indptr[-1]), indices, indptr), shape=(len(lengths), 70_000))
    for n in (1, 3):
        verdict = multiply(heads()[name], a, n)
        assert not verdict.wrong, f"{name} n {n}: {verdict.wrong}"


@pytest.mark.parametrize("n", [1, 33])
@pytest.mark.parametrize("name", KERNELS)
def test_any_width_is_right_or_refused(name, n):
    from spmm_roofline.kernels.launch import Unsupported

    head = heads()[name]
    a = structure(100, 90, 0.1, np.random.default_rng())
    if n % head.requires.get("n", 1):
        with pytest.raises(Unsupported, match="multiple of"):
            multiply(head, a, n)
    else:
        assert not multiply(head, a, n).wrong


@pytest.mark.parametrize("name", ["mma_bt", "cusparse_csr"])
def test_a_lost_value_is_noticed(name):
    a = structure(64, 64, 0.1, np.random.default_rng())
    verdict = multiply(heads()[name], a, 32, drop=17)
    assert "above" in verdict.wrong


def test_an_unwritten_row_is_noticed():
    import cupy

    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.measure.verify import verify

    head = heads()["cusparse_csr"]
    a = Csr((3, 3), 0, "float64", cupy.zeros(4, "int32"), cupy.zeros(0, "int32"), cupy.zeros(0))
    b, c = allocate(head, "b", 3, 8), allocate(head, "c", 3, 8)
    c.poison()
    c.storage[:2] = 0
    assert "1 of 3 rows" in verify(a, b, c, "float32").wrong
