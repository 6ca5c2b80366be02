"""Kernels on panels of 64 rows: on the host, as the emulation of a device runs them, against exact products."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array, vstack

from spmm_roofline.formats.panels_64x32 import FORMAT
from spmm_roofline.kernels import heads
from tests.kernels.products import check_products, integers

NAMES = [name for name, head in heads().items() if head.format == FORMAT.name]


def matrices(rng):
    """Matrices and widths: less than a slab, the border of a warpgroup's columns, more than a slab, and long panels."""
    yield integers(random_array((1, 1), density=1, rng=rng), rng), 8
    yield integers(random_array((70, 100), density=0.05, rng=rng), rng), 136
    yield integers(random_array((300, 333), density=0.03, rng=rng), rng), 264
    yield integers(csr_array((130, 50)), rng), 128
    yield integers(vstack([random_array((100, 3200), density=0.001, rng=rng), np.ones((1, 3200))]), rng), 40


@pytest.mark.parametrize("order", ["", "reversed"])
@pytest.mark.parametrize("name", NAMES)
def test_the_product_is_exact(name, order, monkeypatch):
    check_products(name, order, matrices, monkeypatch)
