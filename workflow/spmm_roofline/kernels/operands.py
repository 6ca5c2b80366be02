"""Dense operands: B and C as a kernel receives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats.values import device_dtype, rounded, widened
from .head import Head


@dataclass(frozen=True)
class Dense:
    """A dense matrix on the device in row- or column-major order, padded with zeros up to the head's ``pads``.

    ``storage`` is the whole allocation, (padded rows, padded columns) in row-major order or its transpose; ``rows``
    and ``columns`` are the logical size.
    """

    storage: Any
    rows: int
    columns: int
    column_major: bool
    dtype: str

    @property
    def ld(self) -> int:
        """Leading dimension, in elements."""
        return int(self.storage.shape[-1])

    @property
    def nbytes(self) -> int:
        return int(self.storage.nbytes)

    @property
    def view(self) -> Any:
        """The logical rows×columns elements, in the stored dtype."""
        if self.column_major:
            return self.storage[: self.columns, : self.rows].T
        return self.storage[: self.rows, : self.columns]

    def fill(self, values: Any) -> None:
        """Store ``values`` (rows×columns, any float dtype), rounded to the dtype."""
        self.view[...] = rounded(values, self.dtype)

    def poison(self) -> None:
        """Set every element to NaN, padding included, so that elements that a kernel does not write stay visible."""
        if self.storage.dtype.kind == "u":
            self.storage.fill(0x7F if self.storage.itemsize == 1 else 0x7FC0)
        else:
            self.storage.fill(float("nan"))

    def tensor_map(self, rows: int, columns: int) -> Any:
        """How the copy engine sees the operand: a CUtensorMap of boxes of rows×columns, as a 0-d array of 128 bytes.

        A row of a box is 128 or 64 bytes, swizzled; elements beyond the allocation arrive as zeros (CUDA driver API,
        cuTensorMapEncodeTiled). Raises :class:`ValueError` if the driver refuses.
        """
        from cuda.bindings import driver

        kinds, size = driver.CUtensorMapDataType, self.storage.itemsize
        swizzle = "64B" if columns * size == 64 else "128B"
        name = {"bfloat16": "BFLOAT16", "float8_e4m3": "UINT8", "tf32": "FLOAT32"}.get(self.dtype, self.dtype.upper())
        error, encoded = driver.cuTensorMapEncodeTiled(
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{name}"),
            2,
            self.storage.data.ptr,
            [driver.cuuint64_t(extent) for extent in reversed(self.storage.shape)],
            [driver.cuuint64_t(self.ld * size)],
            [driver.cuuint32_t(columns), driver.cuuint32_t(rows)],
            [driver.cuuint32_t(1)] * 2,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if error != driver.CUresult.CUDA_SUCCESS:
            raise ValueError(
                f"no tensor map of {self.storage.shape} {self.dtype} in boxes of {rows}×{columns}: {error}"
            )
        words = [int(word) for word in encoded.opaque]
        return np.array((words,), dtype=[("words", np.uint64, 16)])

    def widened(self) -> Any:
        """The logical elements as float64."""
        return widened(self.view, self.dtype)


def allocate(head: Head, operand: str, rows: int, columns: int) -> Dense:
    """Operand ``"b"`` (k×n) or ``"c"`` (m×n) of a kernel on the device, zero-filled."""
    import cupy

    row_name = "k" if operand == "b" else "m"
    padded_rows = _padded(rows, head.pads.get(row_name, 1))
    padded_columns = _padded(columns, head.pads.get("n", 1))
    dtype = head.dtype[operand]
    column_major = head.layout[operand] == "column_major"
    shape = (padded_columns, padded_rows) if column_major else (padded_rows, padded_columns)
    return Dense(cupy.zeros(shape, dtype=device_dtype(dtype)), rows, columns, column_major, dtype)


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
