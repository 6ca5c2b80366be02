"""Device memory that a plan takes, before it is made."""

from collections import defaultdict
from functools import partial

import numpy as np
import pytest
from scipy.sparse import block_diag, coo_array, csr_array, diags_array

from tests.multiply.operands import TOLERANCE, general_kernels, sparse

pytestmark = pytest.mark.usefixtures("device")


def structures():
    """Name → matrix: scattered, banded, in dense blocks, dense, empty, with rows of all lengths, and tall."""
    rng = np.random.default_rng(0)
    uneven = rng.random((2000, 1500)) < rng.choice([0, 0.001, 0.01, 0.4], (2000, 1), p=[0.3, 0.3, 0.39, 0.01])
    return {
        "scattered": sparse(4000, 5000, 0.002),
        "banded": csr_array(diags_array([1.0] * 9, offsets=range(-4, 5), shape=(20_000, 20_000))),
        "dense blocks": csr_array(block_diag([np.ones((32, 32))] * 100)),
        "dense": csr_array(np.ones((300, 400))),
        "empty": csr_array((3000, 40)),
        "uneven": csr_array(uneven.astype(float)),
        "tall": sparse(25_000, 30, 0.15),
        "diagonal": csr_array(diags_array(np.ones(50_000))),
    }


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_plan_takes_what_is_predicted(name, dtype, device):
    from spmm_roofline import SpMM

    if device == "emulated" and dtype == "bfloat16":
        pytest.skip("plans of BF16 are those of FP16, and the emulation takes seconds for them")

    a = structures()[name]
    of_a = a.shape[0], a.nnz, dtype, a.dtype.itemsize
    loose, bounds = SpMM.predict_bytes(*of_a), SpMM.predict_bytes(*of_a, a.shape[1])
    assert loose.least <= bounds.least and bounds.most <= loose.most
    for n in (16, 128, 1024) if device == "gpu" else (16, 1024):
        taken = SpMM(a, dtype, n=n).plan_bytes
        assert bounds.least <= taken <= bounds.most, n
        if a.nnz >= 4 * a.shape[0]:
            assert bounds.most <= 5 * taken + 2**21, n


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_panels_take_what_is_predicted(name, dtype):
    from spmm_roofline.formats.panels_64x32 import FORMAT
    from spmm_roofline.multiply.memory import packed

    a = structures()[name]
    least, most = packed(FORMAT.name, a.shape[0], a.nnz, dtype)
    for multiprocessors in (1, 132):
        assert least <= FORMAT.from_csr(a, dtype, multiprocessors=multiprocessors).nbytes <= most


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("m", "per_row"), [(8, 64), (1000, 64), (4001, 100), (500, 330)])
def test_strips_take_what_is_predicted_where_they_may_be_chosen(m, per_row, dtype):
    from spmm_roofline.formats.banked_8x32 import FORMAT
    from spmm_roofline.kernels.choose import MOST_STRIP_SLOTS
    from spmm_roofline.multiply.memory import packed

    columns = np.arange(m * per_row) * 7 % 5000
    a = csr_array((np.ones(m * per_row), columns, np.arange(m + 1) * per_row), shape=(m, 5000))
    assert MOST_STRIP_SLOTS * a.nnz > 32 * m * -(-per_row // 32), "otherwise strips are not chosen"
    least, most = packed(FORMAT.name, m, a.nnz, dtype)
    assert least <= FORMAT.from_csr(a, dtype).nbytes <= most


def test_kernels_that_a_device_or_a_format_excludes_are_left_out(device, monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.formats.panels_64x32 import FORMAT
    from spmm_roofline.multiply import choice, memory
    from tests.emulation import device as emulated

    def panels(a, **options):
        return {name for name, head in SpMM(a, "float16", **options)._choice.able.items() if head.format == FORMAT.name}

    a = sparse(100, 80, 0.1)
    if device == "emulated":
        assert panels(a) == {"panel_f16", "panel_f16_medium"}
        with monkeypatch.context() as older:
            older.setattr(emulated.Device, "compute_capability", "80")
            assert not panels(a)
    m, most, shared = 1 << 20, (1 << 31) - (1 << 24), 227 << 10
    assert memory.holds(FORMAT.name, m, m, 1 << 30, shared) and not memory.holds(FORMAT.name, m, m, most, shared)
    assert memory.holds("vectors_8x1", m, m, most, shared)
    monkeypatch.setattr(choice, "holds", lambda form, *_: form != FORMAT.name)
    assert not panels(a)


def test_formats_hold_matrices_up_to_their_limits():
    from spmm_roofline.formats import panels_64x32, windows
    from spmm_roofline.multiply import blocks, memory

    shared, k = 227 << 10, 10**6
    rows = panels_64x32.MOST_ROWS
    assert memory.holds("panels_64x32", rows, k, 1000, shared)
    assert not memory.holds("panels_64x32", rows + 1, k, 1000, shared)
    most = windows.most_tiles(16)
    for m in (16, 1600):
        entries = windows.TILE_K * (most - m // 16)
        assert memory.holds("vectors_16x1", m, k, entries, shared)
        assert not memory.holds("vectors_16x1", m, k, entries + windows.TILE_K, shared)
    for m in (1, 7, 1 << 20, blocks.MOST_SLOTS // 2):
        assert memory.holds("vectors_8x1", m, k, blocks.MOST_SLOTS - 2 * m, shared), "or a plan has blocks"


def test_panels_are_not_surveyed_if_they_cannot_hold_a_matrix():
    from spmm_roofline.formats.base import Survey
    from spmm_roofline.formats.panels_64x32 import FORMAT, MOST_ROWS
    from spmm_roofline.kernels.choose import USUAL
    from spmm_roofline.multiply.choice import Choice, kernels_of

    for rows, surveyed in ((MOST_ROWS, {USUAL, FORMAT.name}), (MOST_ROWS + 1, {USUAL})):
        surveys = defaultdict(partial(Survey, rows // 8, 3))
        choice = Choice(kernels_of("float16"), "float16", (rows, 1000), rows, surveys, reordered=False, tune=False)
        assert choice.predicted(128).format != FORMAT.name
        assert set(surveys) == surveyed


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_what_surely_fits_is_no_less_than_any_kernel_needs(name, dtype):
    from spmm_roofline.multiply import memory

    a = structures()[name]
    for m, nnz in ((a.shape[0], a.nnz), (1, 0), (1, 1), (70, 3)):
        enough = memory.ENOUGH * (m + memory.ROWS_OF_LAST + nnz)
        assert memory.surely_fits(m, nnz, enough) and not memory.surely_fits(m, nnz, enough - 1)
        for head in general_kernels():
            if head.dtype["a"] == dtype:
                needed = memory.packed(head.format, m, nnz, dtype).least + memory.csr(m, nnz, 8)
                assert needed <= enough, head.name


def test_a_matrix_that_cannot_fit_is_refused_before_anything_is_made(monkeypatch):
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    from spmm_roofline import SpMM
    from spmm_roofline.multiply import matrix, plan

    a = sparse(1000, 800, 0.01)
    least = SpMM.predict_bytes(1000, a.nnz, "float32", k=800).least
    # A on the device is copied as well.
    forms = a, csr_matrix(a), tuple(map(cupy.asarray, (a.indptr, a.indices, a.data))), (a.indptr, a.indices, a.data)
    twice = coo_array((np.ones(2 * a.nnz), tuple(np.tile(places, 2) for places in a.tocoo().coords)), shape=a.shape)
    monkeypatch.setattr(plan, "free_bytes", lambda: least)
    for form in (*forms, twice):  # the last one sums up to as many entries
        SpMM(form, "float32", shape=a.shape)
    monkeypatch.setattr(plan, "free_bytes", lambda: least - 1)
    with monkeypatch.context() as context:
        context.setattr(matrix, "_of_parts", None)
        context.setattr(matrix, "Matrix", None)
        message = rf"1,000 rows and {a.nnz:,} entries and takes {least:,} bytes or more in float32, and {least - 1:,}"
        for form in forms:
            with pytest.raises(MemoryError, match=message):
                SpMM(form, "float32", shape=a.shape)


def test_nothing_of_a_matrix_in_blocks_is_made_either(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import blocks, plan

    monkeypatch.setattr(blocks, "MOST_SLOTS", 2000)
    monkeypatch.setattr(blocks, "row_blocks", None)
    monkeypatch.setattr(plan, "free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="plan some rows at a time"):
        SpMM(sparse(1000, 800, 0.01))


def test_an_unknown_dtype_has_no_prediction():
    from spmm_roofline import SpMM

    with pytest.raises(ValueError, match="multiply in"):
        SpMM.predict_bytes(10, 10, "float8_e4m3")
