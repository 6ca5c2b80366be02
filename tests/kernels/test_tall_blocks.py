"""Kernels on blocks of 64 rows: on the host, as the emulation of a device runs them, against exact products."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, random_array, vstack

from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import heads
from spmm_roofline.matrices.generated import tiles
from tests import emulation

NAMES = [name for name, head in heads().items() if head.format == "bcsr_panels"]
#: Bytes of shared memory that CTAs of a multiprocessor share on sm_90a, and what the device takes of them for each.
SHARED, RESERVED = 228 << 10, 1 << 10


def integers(a, rng):
    """A matrix with the structure of ``a`` and values so small that FP16 adds up their products exactly."""
    a = csr_array(a)
    a.sort_indices()
    a.data = rng.choice([-2.0, -1.0, 1.0, 2.0], a.nnz)
    return a


def matrices(rng):
    yield integers(random_array((1, 1), density=1, rng=rng), rng), 8
    yield integers(random_array((70, 100), density=0.05, rng=rng), rng), 16
    yield integers(random_array((300, 333), density=0.01, rng=rng), rng), 136
    yield integers(csr_array((130, 50)), rng), 8
    mixed = tiles(rng, size=256, dense=15, sparse24=20, percent=True)
    yield integers(coo_array((np.ones(len(mixed.rows)), (mixed.rows, mixed.columns)), shape=mixed.shape), rng), 72
    full = np.ones((1, 3200))
    yield integers(vstack([random_array((100, 3200), density=0.001, rng=rng), full]), rng), 8


def emulated_product(name, a, b):
    """A·B of a kernel, called twice, since the counters of partial sums must be as before."""
    head = heads()[name]
    with emulation.emulated() as cupy:
        from spmm_roofline.kernels.launch import prepare
        from spmm_roofline.kernels.operands import allocate

        packed = FORMATS[head.format].from_csr(a, "float16", **head.options(emulation.device.MULTIPROCESSORS))
        on_device = {field: cupy.asarray(array) for field, array in packed.arrays().items()}
        of_b, of_c = allocate(head, "b", *b.shape), allocate(head, "c", a.shape[0], b.shape[1])
        of_b.fill(b)
        call = prepare(head, emulation.host_code(head), dataclasses.replace(packed, **on_device), of_b, of_c)
        for _ in range(2):
            of_c.poison()
            call(cupy.cuda.Stream())
        return packed, np.array(of_c.widened())


@pytest.mark.parametrize("order", ["", "reversed"])
@pytest.mark.parametrize("name", NAMES)
def test_the_product_is_exact(name, order, monkeypatch):
    if not emulation.compiler():
        pytest.skip("the emulation of a device needs the C++ compiler g++")
    monkeypatch.setenv("SPMM_ROOFLINE_ORDER", order)
    rng, cuts = np.random.default_rng(), 0
    for a, n in matrices(rng):
        b = rng.integers(-3, 4, (a.shape[1], n)).astype(float)
        packed, c = emulated_product(name, a, b)
        cuts += len(packed.cut)
        assert np.array_equal(c, a @ b), f"{a.shape} at N = {n}"
    assert cuts, "a panel was cut"


@pytest.mark.parametrize("name", NAMES)
def test_the_head_agrees_with_the_format(name):
    head = heads()[name]
    assert head.pads["m"] == head.tile["m"] == head.options(1)["panel"]
    assert head.pads["k"] == head.tile["k"] == 32
    assert head.options(1)["two_four"] == ("wgmma_sp_columns" in head.features)
    # As the kernels of the ladder: B by columns, C by rows, N a multiple of eight.
    below = heads()["mma_obt_large"]
    assert (head.layout, head.requires) == (below.layout, below.requires)


@pytest.mark.parametrize("name", NAMES)
def test_as_many_ctas_share_a_multiprocessor_as_the_head_says(name):
    from spmm_roofline.kernels import expressions

    head = heads()[name]
    names = {"tile": expressions.namespace(**head.tile)}
    (shared,) = expressions.evaluate(head.launches[0].smem, names)
    (threads,) = expressions.evaluate(head.launches[0].block, names)
    static = 32 * head.tile["stages"] * (1 + head.tile["m"] // 64)
    assert head.tile["ctas"] * (shared + static + RESERVED) <= SHARED
    assert threads == 32 * (head.tile["m"] // 16 + 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_products_of_a_block_overlap_with_the_loads_of_the_next(name):
    """The assembler says when it makes each product wait for the one before."""
    import io

    from cuda.core import Program, ProgramOptions

    from spmm_roofline.kernels import includes
    from spmm_roofline.kernels.compile import toolkit_includes

    head, log = heads()[name], io.StringIO()
    folders = [str(includes.root_of(head.path)), *toolkit_includes()]
    macros = list(head.defines().items())
    options = ProgramOptions(
        arch="sm_90a", std="c++17", define_macro=macros, include_path=folders, ptxas_options=["-v"], no_cache=True
    )
    Program(head.path.read_text(), "c++", options).compile("cubin", logs=log)
    assert "ptxas info" in log.getvalue() and "serialized" not in log.getvalue()
