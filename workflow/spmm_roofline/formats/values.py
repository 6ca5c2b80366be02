"""Values of a format: their dtypes, how they are rounded, and random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .arrays import array_module


def numpy_dtype(dtype: str) -> np.dtype:
    """NumPy dtype that stores a dtype of this project; TF32 is stored in float32, bfloat16 comes from ml_dtypes."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("float32" if dtype == "tf32" else dtype)


def itemsize(dtype: str) -> int:
    """Bytes of one value."""
    return {"float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}[dtype]


def rounded(values: Any, dtype: str) -> Any:
    """``values`` rounded to ``dtype`` (nearest even); TF32 keeps 10 fraction bits, ties away, as ``cvt.rna`` does.

    Works on NumPy and CuPy arrays with the same result: 16-bit values are rounded from float32, as on a device.
    bfloat16 is returned as its bits (uint16) on a device, where NumPy's extension type does not exist. NaN stays NaN.
    """
    if array_module(values) is not np:
        return _rounding(dtype)(values)
    if dtype == "tf32":
        single = values.astype(np.float32)
        bits = (single.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        # A NaN with all bits set, as devices make it, would carry into the sign.
        return np.where(np.isnan(single), single, bits.view(np.float32))
    if dtype == "bfloat16":
        return values.astype(numpy_dtype(dtype))
    # A value beyond the range of float16 becomes infinite, as rounding to nearest requires; NumPy need not warn.
    with np.errstate(over="ignore"):
        return (values.astype(np.float32) if dtype == "float16" else values).astype(dtype)


#: How a device rounds a value x: dtype of the result, and code that sets ``y``. One launch each.
_ROUNDED = {
    "float16": ("float16", "y = static_cast<float>(x)"),
    "bfloat16": (
        "uint16",
        "const float f = x; const unsigned bits = __float_as_uint(f);"
        "y = isnan(f) ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16",
    ),
    "tf32": (
        "float32",
        "const float f = x; y = isnan(f) ? f : __uint_as_float((__float_as_uint(f) + 0x1000) & 0xFFFFE000)",
    ),
}


@cache
def _rounding(dtype: str) -> Any:
    """:func:`rounded` for arrays on the device."""
    import cupy

    result, code = _ROUNDED.get(dtype, (dtype, "y = x"))
    return cupy.ElementwiseKernel("T x", f"{result} y", code, f"rounded_to_{dtype}")


def widened(values: Any, dtype: str) -> Any:
    """Values of a packed array as float64."""
    xp = array_module(values)
    if dtype == "bfloat16" and values.dtype == xp.uint16:
        return (values.astype(xp.uint32) << xp.uint32(16)).view(xp.float32).astype(xp.float64)
    return values.astype(xp.float64)


def signed(random: Any, count: int) -> Any:
    """``count`` values ±[0.5, 1.5), float64, from a generator of either array module."""
    magnitude = random.random(count) + 0.5
    return array_module(magnitude).where(random.random(count) < 0.5, -magnitude, magnitude)
