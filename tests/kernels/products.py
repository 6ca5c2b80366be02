"""Products of one kernel on the emulated device, and matrices for which they are exact."""

import dataclasses

import numpy as np
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
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
