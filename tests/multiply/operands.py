"""Operands of products, and how near a result must be."""

import numpy as np
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats.values import BITS

#: Largest error of an element over Σ|a||b|, by dtype.
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "tf32": 2e-3, "float32": 2e-6, "float64": 1e-13}

#: Error that rounding may cause next to zero, by dtype: half the distance between neighbouring float16 numbers there.
#: Other dtypes go on far below any value of these tests.
SMALLEST = dict.fromkeys(TOLERANCE, 2.0**-150) | {"float16": 2.0**-25}


def sparse(m, k, density, seed=0):
    return random_array((m, k), density=density, format="csr", rng=np.random.default_rng(seed)).astype(np.float64)


def dense(rows, columns, dtype, seed=1):
    """Random values of the dtype, as its array on the device and as float64 on the host."""
    import cupy

    from spmm_roofline.formats.values import rounded, widened

    array = rounded(cupy.random.default_rng(seed).random((rows, columns)) - 0.5, dtype)
    return array, widened(array, dtype).get()


def nan(dtype):
    """A NaN as arrays on the device hold it."""
    return 0x7FC0 if dtype in BITS else np.nan


def general_kernels():
    """Heads of the general kernels that the device runs."""
    from spmm_roofline.kernels.arch import supports
    from spmm_roofline.kernels.choose import GENERAL
    from spmm_roofline.kernels.cubins import device_target
    from spmm_roofline.kernels.registry import of_study
    from spmm_roofline.paths import KERNELS

    return [head for head in of_study(GENERAL, KERNELS).values() if supports(device_target(), head.min_arch)]


def vector(n, dtype, seed=3):
    """The same for a vector."""
    array, exact = dense(1, n, dtype, seed)
    return array[0], exact[0]


def as_stored(values, dtype):
    """float64 values of the host, rounded to the dtype."""
    from spmm_roofline.formats.values import rounded

    return rounded(np.asarray(values), dtype).astype(np.float64)


def check(c, a, b, dtype, scale=1.0, more=0.0, relu=False):
    """c = scale·a·b + more, or its ReLU, within the rounding of the dtype; ``more`` may be a tuple of summands."""
    from spmm_roofline.formats.values import widened

    a = csr_array((as_stored(a.data, dtype), a.indices, a.indptr), shape=a.shape)
    summands = more if isinstance(more, tuple) else (more,)
    expected = scale * (a @ b) + sum(summands)
    expected = np.maximum(expected, 0) if relu else expected
    # Summands that cancel leave the rounding of each of them.
    room = abs(scale) * (abs(a) @ abs(b)) + sum(map(np.abs, summands)) + SMALLEST[dtype] / TOLERANCE[dtype]
    worst = np.max(np.abs(widened(c, dtype).get() - expected) / room, initial=0.0)
    assert worst < TOLERANCE[dtype], f"{dtype}, {a.shape}, N = {b.shape[1]}: {worst:.2g}"


def check_operator(name, arguments):
    """An operator of this project is what PyTorch expects of its own."""
    import torch
    from torch import library

    library.opcheck(getattr(torch.ops.spmm_roofline, name), arguments)
