"""Operands that every dtype holds exactly, so that one float64 result serves all of them, and errors against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import device_dtype, itemsize, rounded, widened
from spmm_roofline.kernels.reference import Reference
from spmm_roofline.measure.block_worker import Replay, captured
from spmm_roofline.measure.timing import Clock

#: Largest error of an element over its sum of magnitudes, by dtype: that of the sums and of rounding the result.
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "tf32": 1e-4, "float32": 1e-5, "float64": 1e-13}
#: The same for libraries, which may add partial sums in the dtype of the result.
OF_LIBRARIES = TOLERANCE | {"float16": 2e-2, "bfloat16": 1.5e-1}
#: Error that rounding may cause next to zero: half the distance between neighbouring float16 numbers there.
SMALLEST = {"float16": 2.0**-25}


class Wrong(ValueError):
    """A result that does not agree with float64."""


def representable(values: Any) -> Any:
    """``values`` of CuPy rounded to bfloat16, float64: numbers from 2⁻⁶ to 65,504 are float16 numbers as well."""
    return widened(rounded(values, "bfloat16"), "bfloat16")


def with_representable(a: Any) -> Any:
    """CuPy's CSR with such values."""
    return type(a)((representable(a.data), a.indices, a.indptr), shape=a.shape)


def product_of(a: Any, b: Any) -> tuple[Any, Any]:
    """A·B, m×n, and the sums of the products' magnitudes, |A|·|B|, of CuPy's CSR m×k and ``b``, k×n; all float64."""
    magnitudes = type(a)((abs(a.data), a.indices, a.indptr), shape=a.shape)
    exact = Reference(Csr.from_csr(a, "float64")).product(b)
    return exact, Reference(Csr.from_csr(magnitudes, "float64")).product(abs(b))


def random(shape: tuple[int, int]) -> Any:
    """Such numbers, of magnitudes between 1/8 and 1 and of either sign, on the device."""
    import cupy

    rng = cupy.random.default_rng()
    signs = 1 - 2.0 * (rng.random(shape) < 0.5)
    return representable((0.125 + 0.875 * rng.random(shape)) * signs)


def padded(values: Any, dtype: str) -> Any:
    """The matrix in a dtype, with rows padded with zeros to multiples of 16 bytes; all of the storage."""
    import cupy

    rows, columns = values.shape
    unit = 16 // itemsize(dtype)
    array = cupy.zeros((rows, -(-columns // unit) * unit), dtype=device_dtype(dtype))
    array[:, :columns] = rounded(values, dtype)
    return array


def error(found: Any, exact: Any, magnitudes: Any, dtype: str, most: float) -> float:
    """Largest error of an element over its sum of magnitudes. Raises :class:`Wrong` beyond ``most``, or for a NaN."""
    room = magnitudes + SMALLEST.get(dtype, 0.0) / most + 1e-300
    worst = float((abs(widened(found, dtype) - exact) / room).max()) if exact.size else 0.0
    if not worst <= most:
        raise Wrong(f"the result is wrong: error {worst:.2g}")
    return worst


def poison(c: Any) -> None:
    """Fill an array of CuPy with NaN; bfloat16 is its bits."""
    c.fill(0x7FC0 if c.dtype.kind == "u" else float("nan"))


def tensor(array: Any, dtype: str = "") -> Any:
    """PyTorch's tensor of the same memory as an array of CuPy; bfloat16 comes as its bits."""
    import torch

    own = torch.from_dlpack(array)
    return own.view(torch.bfloat16) if dtype == "bfloat16" else own


def array_of(tensor: Any) -> Any:
    """CuPy's array of the same memory as a tensor; bfloat16 as its bits."""
    import cupy
    import torch

    return cupy.from_dlpack(tensor.detach().view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor.detach())


def replayed(run: Callable[[], Any], clock: Clock, capture: bool) -> Replay:
    """A call of PyTorch on the stream of ``clock``, made once; as a graph if ``capture`` and PyTorch can capture it."""
    import torch

    replay = captured(run, clock) if capture else Replay(run, torch.cuda.ExternalStream(clock.stream.ptr))
    torch.cuda.synchronize()
    replay.launch()
    torch.cuda.synchronize()
    return replay
