"""Kernels on blocks of 64 rows: on the host, as the emulation of a device runs them, against exact products."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, random_array, vstack

from spmm_roofline.kernels import heads
from spmm_roofline.matrices.generated import tiles
from tests.kernels.products import check_products, integers

NAMES = [name for name, head in heads().items() if head.format == "bcsr_panels"]
#: Bytes of shared memory that CTAs of a multiprocessor share on sm_90a, and what the device takes of them for each.
SHARED, RESERVED = 228 << 10, 1 << 10


def matrices(rng):
    yield integers(random_array((1, 1), density=1, rng=rng), rng), 8
    yield integers(random_array((70, 100), density=0.05, rng=rng), rng), 16
    yield integers(random_array((300, 333), density=0.01, rng=rng), rng), 136
    yield integers(csr_array((130, 50)), rng), 8
    mixed = tiles(rng, size=256, dense=15, sparse24=20, percent=True)
    yield integers(coo_array((np.ones(len(mixed.rows)), (mixed.rows, mixed.columns)), shape=mixed.shape), rng), 72
    full = np.ones((1, 3200))
    yield integers(vstack([random_array((100, 3200), density=0.001, rng=rng), full]), rng), 8


@pytest.mark.parametrize("order", ["", "reversed"])
@pytest.mark.parametrize("name", NAMES)
def test_the_product_is_exact(name, order, monkeypatch):
    check_products(name, order, matrices, monkeypatch)


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
