"""The float64 product that every output is compared with."""

from __future__ import annotations

from typing import Any

from ..formats.arrays import row_of_entry
from ..formats.csr import Csr
from .operands import Dense

#: CUSPARSE_SPMM_ALG_DEFAULT
DEFAULT_ALGORITHM = 0
#: Matrices at least this full, up to this size in bytes, are multiplied as dense ones: much faster, equally exact.
DENSE_FRACTION, DENSE_BYTES = 1 / 16, 4 << 30


class Reference:
    """A (m×k, float64 values, on the device) ready to be multiplied."""

    def __init__(self, a: Csr) -> None:
        self.a = a
        self.dense: Any = None
        slots = a.shape[0] * a.shape[1]
        if a.nnz >= slots * DENSE_FRACTION and 0 < 8 * slots <= DENSE_BYTES:
            import cupy

            self.dense = cupy.zeros(a.shape)
            self.dense[row_of_entry(a.indptr, a.nnz), a.indices] = a.data

    def product(self, b: Any) -> Any:
        """C = A·B (m×n): ``b`` CuPy float64 (k×n, C-contiguous)."""
        import cupy

        m, n = self.a.shape[0], b.shape[1]
        if self.dense is not None and n > 0:
            return self.dense @ b
        c = cupy.zeros((m, n))
        if self.a.nnz == 0 or n == 0:
            return c
        from .libraries._cusparse import product as cusparse_product

        call = cusparse_product(
            self.a,
            "float64",
            Dense(b, self.a.shape[1], n, False, "float64"),
            Dense(c, m, n, False, "float64"),
            "float64",
            DEFAULT_ALGORITHM,
        )
        call(cupy.cuda.get_current_stream())
        return c
