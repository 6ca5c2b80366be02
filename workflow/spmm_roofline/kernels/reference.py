"""The float64 product that every output is compared with."""

from __future__ import annotations

from typing import Any

from ..formats.csr import Csr
from .operands import Dense

#: CUSPARSE_SPMM_ALG_DEFAULT
DEFAULT_ALGORITHM = 0


def product(a: Csr, b: Any) -> Any:
    """C = A·B in float64 on the device: ``a`` with float64 values, ``b`` CuPy float64 (k×n, C-contiguous) → (m×n)."""
    import cupy

    m, n = a.shape[0], b.shape[1]
    c = cupy.zeros((m, n))
    if a.nnz == 0 or n == 0:
        return c
    from .libraries._cusparse import product as cusparse_product

    call = cusparse_product(
        a,
        "float64",
        Dense(b, a.shape[1], n, False, "float64"),
        Dense(c, m, n, False, "float64"),
        "float64",
        DEFAULT_ALGORITHM,
    )
    call(cupy.cuda.get_current_stream())
    return c
