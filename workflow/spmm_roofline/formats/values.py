"""Values of a format: their dtypes, how they are rounded, and random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .arrays import array_module

#: Dtype that NumPy does not have → its name in ml_dtypes.
EXTENSIONS = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn"}
#: The same → unsigned integers that hold its bits, on a device and in a file.
BITS = {"bfloat16": "uint16", "float8_e4m3": "uint8"}
#: Largest value of float8_e4m3, which has no infinity (OCP 8-bit Floating Point Specification, table 1).
FLOAT8_MAX = 448.0


def numpy_dtype(dtype: str) -> np.dtype:
    """NumPy dtype that stores a dtype of this project on the host; TF32 is stored in float32."""
    if dtype in EXTENSIONS:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, EXTENSIONS[dtype]))
    return np.dtype("float32" if dtype == "tf32" else dtype)


def device_dtype(dtype: str) -> np.dtype:
    """NumPy dtype that stores a dtype of this project on a device, where ml_dtypes does not exist."""
    return np.dtype(BITS[dtype]) if dtype in BITS else numpy_dtype(dtype)


def itemsize(dtype: str) -> int:
    """Bytes of one value."""
    return {"float8_e4m3": 1, "float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}[dtype]


def rounded(values: Any, dtype: str, copy: bool = True) -> Any:
    """``values`` rounded to ``dtype`` (nearest even); TF32 keeps 10 fraction bits, ties away, as ``cvt.rna`` does.

    Works on NumPy and CuPy arrays with the same result: 8- and 16-bit values are rounded from float32, as on a device.
    There, bfloat16 and float8_e4m3 are returned as their bits (uint16, uint8). NaN stays NaN. A value beyond ±448
    becomes ±448 in float8_e4m3, as ``cvt.satfinite`` does: the dtype has no infinity, and the alternative is NaN.

    Without ``copy``, for those who only read the result, it may be ``values`` itself.
    """
    if not copy and values.dtype == dtype:
        return values
    if array_module(values) is not np:
        return _rounding(dtype)(values)
    if dtype == "tf32":
        single = values.astype(np.float32)
        bits = (single.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        # A NaN with all bits set, as devices make it, would carry into the sign.
        return np.where(np.isnan(single), single, bits.view(np.float32))
    if dtype == "bfloat16":
        return values.astype(numpy_dtype(dtype))
    if dtype == "float8_e4m3":
        return np.clip(values.astype(np.float32), -FLOAT8_MAX, FLOAT8_MAX).astype(numpy_dtype(dtype))
    # A value beyond the range of float16 becomes infinite, as rounding to nearest requires; NumPy need not warn.
    with np.errstate(over="ignore"):
        return (values.astype(np.float32) if dtype == "float16" else values).astype(dtype)


#: How a device rounds a value x: dtype of the result, and code that sets ``y``. One launch each.
_ROUNDED = {
    # Below 2⁻⁶ the values are the multiples of 2⁻⁹; above, three bits of the fraction stay, and the bias of the
    # exponent falls from 127 to 7.
    "float8_e4m3": (
        "uint8",
        f"const float f = x, size = fminf(fabsf(f), {FLOAT8_MAX}f); const unsigned bits = __float_as_uint(size);"
        "y = (__float_as_uint(f) >> 24 & 0x80) | (isnan(f) ? 0x7F : size < 0x1p-6f ? unsigned(rintf(size * 512.0f))"
        " : ((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) - (120 << 3))",
    ),
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
    if dtype == "float8_e4m3" and values.dtype == xp.uint8:
        return xp.asarray(_every_float8())[values]
    return values.astype(xp.float64)


@cache
def _every_float8() -> np.ndarray:
    """float64[256]: the value of every byte."""
    return np.arange(256, dtype=np.uint8).view(numpy_dtype("float8_e4m3")).astype(np.float64)


def signed(random: Any, count: int) -> Any:
    """``count`` values ±[0.5, 1.5), float64, from a generator of either array module."""
    magnitude = random.random(count) + 0.5
    return array_module(magnitude).where(random.random(count) < 0.5, -magnitude, magnitude)
