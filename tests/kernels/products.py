"""Products of one kernel on the emulated device, and matrices for which they are exact."""

import dataclasses

import numpy as np
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.values import rounded, widened
from spmm_roofline.kernels import heads
from tests import emulation


def integers(a, rng):
    """A matrix with the structure of ``a`` and values so small that every dtype adds up their products exactly."""
    a = csr_array(a)
    a.sort_indices()
    a.data = rng.choice([-2.0, -1.0, 1.0, 2.0], a.nnz)
    return a


def emulated_product(name, a, b):
    """A·B of a kernel, called twice, since the counters of partial sums must be as before."""
    head = heads()[name]
    with emulation.emulated() as cupy:
        from spmm_roofline.kernels.launch import prepare
        from spmm_roofline.kernels.operands import allocate

        packed = FORMATS[head.format].from_csr(a, head.dtype["a"], **head.options(emulation.device.MULTIPROCESSORS))
        on_device = {field: cupy.asarray(array) for field, array in packed.arrays().items()}
        of_b, of_c = allocate(head, "b", *b.shape), allocate(head, "c", a.shape[0], b.shape[1])
        of_b.fill(cupy.asarray(b))
        call = prepare(head, emulation.host_code(head), dataclasses.replace(packed, **on_device), of_b, of_c)
        for _ in range(2):
            of_c.poison()
            call(cupy.cuda.Stream())
        return packed, np.array(of_c.widened())


def check_products(name, order, matrices, monkeypatch):
    """Products of a kernel that adds up partial sums are exact with the warps of a CTA in some order.

    ``matrices(rng)`` gives matrices of small whole numbers, and widths of B.
    """
    monkeypatch.setenv("SPMM_ROOFLINE_ORDER", order)
    rng, cuts, stored = np.random.default_rng(), 0, heads()[name].dtype["c"]
    for a, n in matrices(rng):
        b = rng.integers(-3, 4, (a.shape[1], n)).astype(float)
        packed, c = emulated_product(name, a, b)
        cuts += len(packed.cut)
        assert np.array_equal(c, widened(rounded(a @ b, stored), stored)), f"{a.shape} at N = {n}"
    assert cuts, "no panel was cut, so no partial sums were added"
